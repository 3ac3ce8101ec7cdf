// RUN: cleave-opt %s --cleave-cut-products="mode=always cluster=h100-sxm:4" \
// RUN:   --split-input-file 2>/dev/null | FileCheck %s
// RUN: cleave-opt %s --cleave-cut-products="mode=always cluster=h100-sxm:4" \
// RUN:   --cleave-overlap="mode=always cluster=h100-sxm:4" --cleave-add-waits \
// RUN:   --cleave-verify-order --split-input-file 2>/dev/null \
// RUN:   | FileCheck %s --check-prefix=STREAMS
// RUN: cleave-opt %s --cleave-cut-products="mode=always cluster=h100-sxm:4" \
// RUN:   --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The rank itself has another product to compute while it scatters; the stage
// behind it has not, and gets its message sooner if parts are scattered while
// others are computed.
// REMARK: remark: 2 instructions in 8 parts: {{.*}}; saves 0.{{[0-9]+}} ms, messages are there 0.{{[0-9]+}} ms sooner
// REMARK-NOT: remark: 2 instructions
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"tp" = 2>] stages "pp"
// CHECK-LABEL: exec.program @stage_0
// STREAMS-LABEL: exec.program @stage_0
exec.program @stage_0 threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %w = exec.buffer "w" 33554432 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 : !exec.buffer
  %z = exec.buffer "z" 33554432 : !exec.buffer
  %s = exec.buffer "s" 33554432 : !exec.buffer
  %t = exec.buffer "t" 67108864 pinned : !exec.buffer
  exec.segment @all {
    // CHECK-COUNT-8: exec.gemm(%{{.*}}) {{.*}} m = 1024 : i64
    // CHECK-NOT: exec.gemm
    // CHECK: exec.copy
    // CHECK: exec.send
    // STREAMS: exec.reduce_scatter
    // STREAMS: exec.gemm{{.*}} m = 1024 : i64
    // STREAMS: exec.reduce_scatter
    // STREAMS: exec.send
    // STREAMS: exec.gemm{{.*}} m = 8192 : i64
    exec.gemm(%x, %w) -> (%y) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.reduce_scatter(%y) -> (%z) {axes = ["tp"], inner = 524288 : i64, outer = 32 : i64, reduction = #exec<reduction sum>, type = bf16}
    exec.copy(%z) -> (%s)
    exec.send(%s) -> () {stage = 1 : i64, channel = 0 : i64}
    exec.gemm(%x, %w) -> (%t) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
  }
  exec.run @all 0 first
}
}

// -----

// What nobody waits for stays whole.
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"tp" = 2>] stages "pp"
// CHECK-LABEL: exec.program @stage_0
exec.program @stage_0 threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %w = exec.buffer "w" 33554432 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 : !exec.buffer
  %z = exec.buffer "z" 33554432 : !exec.buffer
  %s = exec.buffer "s" 33554432 pinned : !exec.buffer
  %t = exec.buffer "t" 67108864 pinned : !exec.buffer
  exec.segment @all {
    // CHECK: exec.gemm{{.*}} m = 8192 : i64
    // CHECK-NEXT: exec.reduce_scatter
    exec.gemm(%x, %w) -> (%y) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.reduce_scatter(%y) -> (%z) {axes = ["tp"], inner = 524288 : i64, outer = 32 : i64, reduction = #exec<reduction sum>, type = bf16}
    exec.gemm(%x, %w) -> (%t) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.copy(%z) -> (%s)
  }
  exec.run @all 0 first
}
}
