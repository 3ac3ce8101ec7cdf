// RUN: cleave-opt %s --cleave-overlap=mode=always --cleave-add-waits \
// RUN:   --cleave-verify-order --split-input-file 2>/dev/null | FileCheck %s
// RUN: cleave-opt %s --cleave-overlap=mode=always --split-input-file \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: cleave-opt %s --cleave-overlap --split-input-file | FileCheck %s \
// RUN:   --check-prefix=AUTO
// AUTO-NOT: exec.order

// A gather begins before the product ahead of its use, not where it stands.
// CHECK-LABEL: exec.program @gather
// REMARK: remark: 0.{{[0-9]+}} ms of communication beside {{[0-9.]+}} ms of compute, 0.{{[0-9]+}} ms of it waited for; 1 of 3 instructions in other streams
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @gather threads 1 {
  %x = exec.buffer "x" 4194304 pinned : !exec.buffer
  %w0 = exec.buffer "w0" 4194304 pinned : !exec.buffer
  %s1 = exec.buffer "s1" 2097152 pinned : !exec.buffer
  %w1 = exec.buffer "w1" 4194304 : !exec.buffer
  %y = exec.buffer "y" 4194304 : !exec.buffer
  %z = exec.buffer "z" 4194304 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.all_gather{{.*}}<1, event = 1>
    // CHECK: exec.gemm(%[[X:[0-9a-z]+]], %{{.*}}) -> (%[[Y:[0-9a-z]+]])
    // CHECK: exec.gemm(%[[Y]], {{.*}}<0, event = 0, waits = [1]>
    exec.gemm(%x, %w0) -> (%y) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.all_gather(%s1) -> (%w1) {outer = 1 : i64, inner = 524288 : i64,
      type = f32, axes = ["dp"]}
    exec.gemm(%y, %w1) -> (%z) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @all 0 first
}
}

// -----

// What adds up a scattered gradient does so in the stream that scattered it.
// CHECK-LABEL: exec.program @scatter
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @scatter threads 1 {
  %x = exec.buffer "x" 4194304 pinned : !exec.buffer
  %g = exec.buffer "g" 4194304 : !exec.buffer
  %part = exec.buffer "part" 2097152 : !exec.buffer
  %sum = exec.buffer "sum" 2097152 pinned : !exec.buffer
  %z = exec.buffer "z" 4194304 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.gemm{{.*}}<0, event = 1>
    // CHECK: exec.reduce_scatter{{.*}}<1, event = 0, waits = [1]>
    // CHECK: exec.copy{{.*}}<1, event = 0>
    // CHECK: exec.gemm
    // CHECK-NOT: exec.order
    // CHECK: exec.run
    exec.gemm(%x, %x) -> (%g) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.reduce_scatter(%g) -> (%part) {outer = 1 : i64, inner = 524288 : i64,
      type = f32, reduction = #exec<reduction sum>, axes = ["dp"]}
    exec.copy(%part) -> (%sum)
    exec.gemm(%x, %x) -> (%z) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @all 0 first
}
}

// -----

// With nothing to run beside it, a collective stays in the rank's own stream.
// CHECK-LABEL: exec.program @alone
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
exec.program @alone threads 1 {
  %x = exec.buffer "x" 4096 pinned : !exec.buffer
  %y = exec.buffer "y" 4096 : !exec.buffer
  %z = exec.buffer "z" 4096 : !exec.buffer
  %u = exec.buffer "u" 4096 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.all_reduce
    // CHECK-NOT: exec.order
    // CHECK: exec.run
    exec.all_reduce(%x) -> (%y) {elements = 1024 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = ["tp"]}
    exec.copy(%y) -> (%z)
    exec.copy(%z) -> (%u)
  }
  exec.run @all 0 first
}
}

// -----

// A message that is sent need not be waited for; one that is received, and what
// stages meet in, keep their places.
// CHECK-LABEL: exec.program @stage_0
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @stage_0 threads 1 {
  %x = exec.buffer "x" 4194304 pinned : !exec.buffer
  %y = exec.buffer "y" 4194304 : !exec.buffer
  %r = exec.buffer "r" 4194304 : !exec.buffer
  %n = exec.buffer "n" 64 : !exec.buffer
  %z = exec.buffer "z" 4194304 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.gemm
    // CHECK: exec.send{{.*}}<1, event = {{.*}}, waits = [{{.*}}]>
    // CHECK: exec.recv
    // CHECK-NOT: exec.order
    // CHECK: exec.all_reduce
    // CHECK-NOT: exec.order
    // CHECK: exec.gemm
    exec.gemm(%x, %x) -> (%y) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.send(%y) -> () {stage = 1 : i64, channel = 0 : i64}
    exec.recv() -> (%r) {stage = 1 : i64, channel = 1 : i64}
    exec.all_reduce(%n) -> (%n) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = ["pp"]}
    exec.gemm(%x, %r) -> (%z) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @all 0 first
}
}

// -----

// Small gathers are in one bucket: they start up once.
// CHECK-LABEL: exec.program @bucket
// REMARK: 2 of 4 instructions in other streams, 1 of them begin together with the next
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @bucket threads 1 {
  %x = exec.buffer "x" 16384 pinned : !exec.buffer
  %w = exec.buffer "w" 16384 pinned : !exec.buffer
  %s0 = exec.buffer "s0" 128 pinned : !exec.buffer
  %s1 = exec.buffer "s1" 128 pinned : !exec.buffer
  %b0 = exec.buffer "b0" 256 : !exec.buffer
  %b1 = exec.buffer "b1" 256 : !exec.buffer
  %y = exec.buffer "y" 16384 : !exec.buffer
  %z = exec.buffer "z" 16384 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.all_gather(%[[S0:.*]]) -> {{.*}}<1, event = {{[0-9]+}} with_next = true>
    // CHECK-NEXT: exec.all_gather({{.*}}<1, event = {{[0-9]+}}>
    // CHECK-NOT: exec.all_gather
    exec.gemm(%x, %w) -> (%y) {m = 64 : i64, n = 64 : i64, k = 64 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.all_gather(%s0) -> (%b0) {outer = 1 : i64, inner = 32 : i64,
      type = f32, axes = ["dp"]}
    exec.all_gather(%s1) -> (%b1) {outer = 1 : i64, inner = 32 : i64,
      type = f32, axes = ["dp"]}
    exec.gemm(%y, %w, %b0) -> (%z) {m = 64 : i64, n = 64 : i64, k = 64 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = true}
  }
  exec.run @all 0 first
}
}

// -----

// In the first segment what is sent is written over at once, so it is sent in the
// rank's own stream, and so it is in the other one, where it could be hidden and
// is known to be done.
// CHECK-LABEL: exec.program @stage_0
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @stage_0 threads 1 {
  %x = exec.buffer "x" 4194304 pinned : !exec.buffer
  %y = exec.buffer "y" 4194304 : !exec.buffer
  %z = exec.buffer "z" 4194304 : !exec.buffer
  exec.segment @over {
    // CHECK: exec.send({{.*}}channel = 0 : i64, stage = 1
    exec.gemm(%x, %x) -> (%y) {m = 1024 : i64, n = 1024 : i64, k = 16 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.send(%y) -> () {stage = 1 : i64, channel = 0 : i64}
    exec.fill() -> (%y)
  }
  exec.segment @apart {
    // CHECK: exec.send{{.*}}<0, event = [[SENT:[0-9]+]]>
    // CHECK: waits = {{\[}}[[SENT]]]
    exec.send(%x) -> () {stage = 1 : i64, channel = 0 : i64}
    exec.gemm(%x, %x) -> (%z) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.gemm(%x, %x) -> (%z) {m = 1024 : i64, n = 1024 : i64, k = 1024 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @over 0 first
  exec.run @apart 0 first
}
}
