// RUN: cleave-opt %s --cleave-cut-products="mode=always cluster=h100-sxm:2" \
// RUN:   --split-input-file 2>/dev/null | FileCheck %s
// RUN: cleave-opt %s --cleave-cut-products="mode=always cluster=h100-sxm:2" \
// RUN:   --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// Parts run beside each other, and everything keeps to the contracts.
// RUN: cleave-opt %s --cleave-cut-products="mode=always cluster=h100-sxm:2" \
// RUN:   --cleave-overlap="mode=always cluster=h100-sxm:2" --cleave-add-waits \
// RUN:   --cleave-verify-order --cleave-plan-memory --cleave-add-waits \
// RUN:   --cleave-verify-memory --cleave-verify-order --split-input-file \
// RUN:   2>/dev/null | FileCheck %s --check-prefix=STREAMS
// Nothing is cut where nothing runs aside.
// RUN: cleave-opt %s --cleave-cut-products="mode=never cluster=h100-sxm:2" \
// RUN:   --split-input-file | FileCheck %s --check-prefix=WHOLE
// RUN: cleave-opt %s --cleave-cut-products="cluster=local:2" \
// RUN:   --split-input-file | FileCheck %s --check-prefix=WHOLE
// WHOLE-NOT: exec.view{{.*}} from

// One sample is scattered while the next one is computed. Parts are views of the
// buffers, of which whatever reads them is none the wiser.
// REMARK: remark: 2 instructions in 2 parts: 0.{{[0-9]+}} ms of 0.{{[0-9]+}} ms of communication waited for; whole 0.{{[0-9]+}} ms of 0.{{[0-9]+}} ms of communication waited for; saves 0.{{[0-9]+}} ms
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @scatter
// STREAMS-LABEL: exec.program @scatter
exec.program @scatter threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %w = exec.buffer "w" 33554432 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 : !exec.buffer
  %z = exec.buffer "z" 33554432 : !exec.buffer
  %s = exec.buffer "s" 33554432 pinned : !exec.buffer
  %t = exec.buffer "t" 33554432 pinned : !exec.buffer
  %work = exec.buffer "workspace" 65536 : !exec.buffer
  exec.segment @all {
    // CHECK-DAG: %[[X0:.*]] = exec.view %[[X:.*]] 33554432 : !exec.buffer
    // CHECK-DAG: %[[Y0:.*]] = exec.view %[[Y:.*]] 33554432 : !exec.buffer
    // CHECK-DAG: %[[Z0:.*]] = exec.view %[[Z:.*]] 16777216 : !exec.buffer
    // CHECK-DAG: %[[X1:.*]] = exec.view %[[X]] 33554432 from 33554432 : !exec.buffer
    // CHECK-DAG: %[[Y1:.*]] = exec.view %[[Y]] 33554432 from 33554432 : !exec.buffer
    // CHECK-DAG: %[[Z1:.*]] = exec.view %[[Z]] 16777216 from 16777216 : !exec.buffer
    // CHECK: exec.gemm(%[[X0]], %[[W:.*]]) -> (%[[Y0]]) using(%[[WORK:.*]]) {{.*}} m = 4096 : i64
    // CHECK-NEXT: exec.reduce_scatter(%[[Y0]]) -> (%[[Z0]]) {{.*}} outer = 1 : i64
    // CHECK-NEXT: exec.gemm(%[[X1]], %[[W]]) -> (%[[Y1]]) using(%[[WORK]]) {{.*}} m = 4096 : i64
    // CHECK-NEXT: exec.reduce_scatter(%[[Y1]]) -> (%[[Z1]]) {{.*}} outer = 1 : i64
    // CHECK-NEXT: exec.copy(%[[Z]])
    // STREAMS: exec.gemm{{.*}}<0, event = [[E0:[0-9]+]]>
    // STREAMS-NEXT: exec.reduce_scatter{{.*}}<1, event = {{[0-9]+}}, waits = {{\[}}[[E0]]]>
    // STREAMS-NEXT: exec.gemm
    exec.gemm(%x, %w) -> (%y) using(%work) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.reduce_scatter(%y) -> (%z) {axes = ["tp"], inner = 8388608 : i64, outer = 2 : i64, reduction = #exec<reduction sum>, type = bf16}
    exec.copy(%z) -> (%s)
    exec.copy(%s) -> (%t)
  }
  exec.run @all 0 first
}
}

// -----

// What several micro-batches keep is cut in each place: parts of one are as far
// apart from those of the next as the places are.
// REMARK: remark: 2 instructions in 2 parts:
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @kept
// STREAMS-LABEL: exec.program @kept
exec.program @kept threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %w = exec.buffer "w" 33554432 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 : !exec.buffer
  %zs = exec.buffer "z" 67108864 pinned : !exec.buffer
  %s = exec.buffer "s" 33554432 pinned : !exec.buffer
  %t = exec.buffer "t" 33554432 pinned : !exec.buffer
  exec.segment @forward {
    %z = exec.view %zs 33554432 places 2 : !exec.buffer
    // CHECK-DAG: %[[Z0:.*]] = exec.view %[[Z:.*]] 16777216 places 2 stride 33554432 : !exec.buffer
    // CHECK-DAG: %[[Z1:.*]] = exec.view %[[Z]] 16777216 from 16777216 places 2 stride 33554432 : !exec.buffer
    // CHECK: exec.gemm
    // CHECK-NEXT: exec.reduce_scatter({{.*}}) -> (%[[Z0]]) {{.*}} outer = 1 : i64
    // CHECK-NEXT: exec.gemm
    // CHECK-NEXT: exec.reduce_scatter({{.*}}) -> (%[[Z1]]) {{.*}} outer = 1 : i64
    // STREAMS: exec.reduce_scatter{{.*}}exec.order = #exec.order<1
    exec.gemm(%x, %w) -> (%y) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.reduce_scatter(%y) -> (%z) {axes = ["tp"], inner = 8388608 : i64, outer = 2 : i64, reduction = #exec<reduction sum>, type = bf16}
    exec.copy(%z) -> (%s)
    exec.copy(%s) -> (%t)
  }
  exec.segment @backward {
    %z = exec.view %zs 33554432 places 2 : !exec.buffer
    exec.copy(%z) -> (%t)
  }
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @backward 0
  exec.run @backward 1
}
}

// -----

// Two products use the first sample while the next one is gathered; a third one
// sums over all rows and waits for all of them.
// REMARK: remark: 3 instructions in 2 parts
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @gather
// STREAMS-LABEL: exec.program @gather
exec.program @gather threads 1 {
  %s = exec.buffer "s" 33554432 pinned : !exec.buffer
  %w = exec.buffer "w" 33554432 pinned : !exec.buffer
  %x = exec.buffer "x" 67108864 : !exec.buffer
  %y = exec.buffer "y" 67108864 pinned : !exec.buffer
  %z = exec.buffer "z" 67108864 pinned : !exec.buffer
  %d = exec.buffer "d" 33554432 pinned : !exec.buffer
  %work = exec.buffer "workspace" 65536 : !exec.buffer
  %work1 = exec.buffer "workspace" 65536 : !exec.buffer
  %work2 = exec.buffer "workspace" 65536 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.all_gather(%{{.*}}) -> (%[[X0:.*]]) {{.*}} outer = 1 : i64
    // CHECK-NEXT: exec.all_gather(%{{.*}}) -> (%[[X1:.*]]) {{.*}} outer = 1 : i64
    // CHECK-NEXT: exec.gemm(%[[X0]], {{.*}} m = 4096 : i64
    // CHECK-NEXT: exec.gemm(%[[X0]], {{.*}} m = 4096 : i64
    // CHECK-NEXT: exec.gemm(%[[X1]], {{.*}} m = 4096 : i64
    // CHECK-NEXT: exec.gemm(%[[X1]], {{.*}} m = 4096 : i64
    // CHECK-NEXT: exec.gemm({{.*}} k = 8192 : i64
    // STREAMS: exec.all_gather
    // STREAMS-NEXT: exec.all_gather{{.*}}<1, event = [[E1:[0-9]+]]>
    // STREAMS-NEXT: exec.gemm
    // STREAMS-NEXT: exec.gemm{{.*}}waits = {{\[}}[[E1]]]>
    // STREAMS-NEXT: exec.gemm
    exec.all_gather(%s) -> (%x) {axes = ["tp"], inner = 8388608 : i64, outer = 2 : i64, type = bf16}
    exec.gemm(%x, %w) -> (%y) using(%work) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.gemm(%x, %x) -> (%d) using(%work1) {accumulate = #exec<accumulate never>, has_bias = false, k = 8192 : i64, m = 4096 : i64, n = 4096 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.gemm(%x, %w) -> (%z) using(%work2) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
  }
  exec.run @all 0 first
}
}

// -----

// A kernel between two collectives goes with them, as one of fewer rows. What it
// needs and stood in between goes ahead, what needs all of it behind.
// REMARK: remark: 5 instructions in 2 parts
// CHECK-NOT: exec.kernel @norm mode
// CHECK: exec.kernel @norm_part_of_2 mode = row, rows = 2048,
// STREAMS: exec.kernel @norm_part_of_2
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
exec.kernel @norm mode = row, rows = 4096, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<bf16, offset = 0, row = (1, 1, 0), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32, %w: f32):
  %sum = exec.row_reduce sum %x : f32
  %xs = arith.mulf %x, %sum : f32
  %y = arith.mulf %xs, %w : f32
  exec.yield %y : f32
}
// CHECK-LABEL: exec.program @chain
// STREAMS-LABEL: exec.program @chain
exec.program @chain threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %w = exec.buffer "w" 33554432 pinned : !exec.buffer
  %g = exec.buffer "g" 8192 pinned : !exec.buffer
  %g1 = exec.buffer "g" 8192 : !exec.buffer
  %y = exec.buffer "y" 67108864 : !exec.buffer
  %z = exec.buffer "z" 33554432 : !exec.buffer
  %n = exec.buffer "n" 33554432 : !exec.buffer
  %a = exec.buffer "a" 67108864 : !exec.buffer
  %b = exec.buffer "b" 67108864 pinned : !exec.buffer
  %s = exec.buffer "s" 33554432 pinned : !exec.buffer
  %t = exec.buffer "t" 33554432 pinned : !exec.buffer
  exec.segment @all {
    // CHECK: exec.copy(%{{.*}}) -> (%[[G:.*]])
    // CHECK-NEXT: exec.gemm
    // CHECK-NEXT: exec.reduce_scatter(%{{.*}}) -> (%[[Z0:.*]]) {
    // CHECK-NEXT: exec.gemm
    // CHECK-NEXT: exec.reduce_scatter(%{{.*}}) -> (%[[Z1:.*]]) {
    // CHECK-NEXT: exec.launch(%[[Z0]], %[[G]]) -> (%[[N0:.*]]) {kernel = @norm_part_of_2}
    // CHECK-NEXT: exec.all_gather(%[[N0]])
    // CHECK-NEXT: exec.launch(%[[Z1]], %[[G]]) -> (%[[N1:.*]]) {kernel = @norm_part_of_2}
    // CHECK-NEXT: exec.all_gather(%[[N1]])
    // CHECK-NEXT: exec.gemm
    // CHECK-NEXT: exec.gemm
    // CHECK-NEXT: exec.copy
    // STREAMS: exec.reduce_scatter{{.*}}exec.order = #exec.order<1
    exec.gemm(%x, %w) -> (%y) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.reduce_scatter(%y) -> (%z) {axes = ["tp"], inner = 8388608 : i64, outer = 2 : i64, reduction = #exec<reduction sum>, type = bf16}
    exec.copy(%z) -> (%s)
    exec.copy(%g) -> (%g1)
    exec.launch(%z, %g1) -> (%n) {kernel = @norm}
    exec.all_gather(%n) -> (%a) {axes = ["tp"], inner = 8388608 : i64, outer = 2 : i64, type = bf16}
    exec.gemm(%a, %w) -> (%b) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
  }
  exec.run @all 0 first
}
}

// -----

// A startup for each part is more than what could be hidden.
// REMARK: remark: stays whole: 0.{{[0-9]+}} ms of 0.{{[0-9]+}} ms of communication waited for; in 2 parts 0.{{[0-9]+}} ms of 0.{{[0-9]+}} ms of communication waited for, and 0.{{[0-9]+}} ms more of compute
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @small
// STREAMS-LABEL: exec.program @small
exec.program @small threads 1 {
  %x = exec.buffer "x" 8192 pinned : !exec.buffer
  %w = exec.buffer "w" 8192 pinned : !exec.buffer
  %y = exec.buffer "y" 8192 : !exec.buffer
  %z = exec.buffer "z" 4096 : !exec.buffer
  %s = exec.buffer "s" 4096 pinned : !exec.buffer
  %t = exec.buffer "t" 4096 pinned : !exec.buffer
  exec.segment @all {
    // CHECK-NOT: exec.view
    exec.gemm(%x, %w) -> (%y) {accumulate = #exec<accumulate never>, has_bias = false, k = 64 : i64, m = 64 : i64, n = 64 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.reduce_scatter(%y) -> (%z) {axes = ["tp"], inner = 1024 : i64, outer = 2 : i64, reduction = #exec<reduction sum>, type = bf16}
    exec.copy(%z) -> (%s)
    exec.copy(%s) -> (%t)
  }
  exec.run @all 0 first
}
}

// -----

// The ranks' parts of a single sample do not lie one behind the other.
// REMARK: remark: stays whole: no rows of it can be cut with those of a product
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @one_sample
// STREAMS-LABEL: exec.program @one_sample
exec.program @one_sample threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %w = exec.buffer "w" 33554432 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 : !exec.buffer
  %z = exec.buffer "z" 33554432 : !exec.buffer
  %s = exec.buffer "s" 33554432 pinned : !exec.buffer
  %t = exec.buffer "t" 33554432 pinned : !exec.buffer
  exec.segment @all {
    // CHECK-NOT: exec.view
    exec.gemm(%x, %w) -> (%y) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 8192 : i64, n = 4096 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16}
    exec.reduce_scatter(%y) -> (%z) {axes = ["tp"], inner = 16777216 : i64, outer = 1 : i64, reduction = #exec<reduction sum>, type = bf16}
    exec.copy(%z) -> (%s)
    exec.copy(%s) -> (%t)
  }
  exec.run @all 0 first
}
}
