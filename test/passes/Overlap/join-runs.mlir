// RUN: cleave-opt %s --cleave-overlap=mode=always --split-input-file \
// RUN:   2>/dev/null | FileCheck %s
// RUN: cleave-opt %s --cleave-overlap=mode=always --cleave-add-waits \
// RUN:   --cleave-verify-order --split-input-file -o /dev/null
// RUN: cleave-opt %s --cleave-overlap=mode=never --split-input-file \
// RUN:   | FileCheck %s --check-prefix=NEVER
// NEVER: exec.run @before 0 first
// NEVER-NEXT: exec.run @micro_batch 0 first
// NEVER: exec.run @after 0 first

// A gather before the first micro-batch is in one segment with it; its temporary
// is another buffer than that of the others. What it gives is waited for there.
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
// CHECK-LABEL: exec.program @zero_2
// CHECK: %[[T0:.*]] = exec.buffer "temporary"
// CHECK: %[[T1:.*]] = exec.buffer "temporary"
exec.program @zero_2 threads 1 {
  %shard = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %w = exec.buffer "parameters" 4194304 : !exec.buffer
  %x = exec.buffer "activations" 65536 pinned : !exec.buffer
  %sum = exec.buffer "gradients" 4194304 : !exec.buffer
  %part = exec.buffer "gradients" 2097152 pinned : !exec.buffer
  // CHECK: exec.segment @before_micro_batch
  exec.segment @before {
    exec.all_gather(%shard) -> (%w) {axes = ["dp"], inner = 524288 : i64, outer = 1 : i64, type = f32}
  }
  // CHECK-NEXT: exec.all_gather{{.*}}#exec.order<1
  // CHECK-NEXT: exec.gemm(%{{.*}}, %{{.*}}) -> (%[[T1]])
  // CHECK-NEXT: exec.gemm(%{{.*}}, %{{.*}}) -> (%[[T1]])
  // CHECK-NEXT: exec.gemm(%[[T1]], %{{.*}}) -> (%[[SUM:.*]])
  // CHECK: exec.segment @micro_batch {
  // CHECK-NEXT: exec.gemm(%{{.*}}, %{{.*}}) -> (%[[T0]])
  // CHECK-NEXT: exec.gemm(%{{.*}}, %{{.*}}) -> (%[[T0]])
  // CHECK-NEXT: exec.gemm(%[[T0]], %{{.*}}) -> (%[[SUM]])
  %t = exec.buffer "temporary" 65536 : !exec.buffer
  exec.segment @micro_batch {
    exec.gemm(%x, %x) -> (%t) {has_bias = false, k = 16 : i64, m = 16 : i64, accumulate = #exec<accumulate never>, n = 1024 : i64, trans_a = false, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
    exec.gemm(%x, %w) -> (%t) {has_bias = false, k = 1024 : i64, m = 16 : i64, accumulate = #exec<accumulate never>, n = 1024 : i64, trans_a = false, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
    exec.gemm(%t, %x) -> (%sum) {has_bias = false, k = 16 : i64, m = 1024 : i64, accumulate = #exec<accumulate after_first>, n = 1024 : i64, trans_a = true, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
  }
  // Nothing hides the reduction: what it reduces is done last.
  // CHECK: exec.segment @after {
  exec.segment @after {
    exec.reduce_scatter(%sum) -> (%part) {axes = ["dp"], inner = 524288 : i64, outer = 1 : i64, reduction = #exec<reduction sum>, type = f32}
  }
  // CHECK: exec.run @before_micro_batch 0 first
  // CHECK-NEXT: exec.run @micro_batch 1
  // CHECK-NEXT: exec.run @micro_batch 2
  // CHECK-NEXT: exec.run @after 0 first
  exec.run @before 0 first
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
  exec.run @micro_batch 2
  exec.run @after 0 first
}
}

// -----

// A reduction after the last micro-batch begins while that goes on. Of two
// micro-batches the first one keeps its segment; both send on one channel, in one
// stream.
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
// CHECK-LABEL: exec.program @stage_1
exec.program @stage_1 threads 1 {
  %x = exec.buffer "activations" 4194304 pinned : !exec.buffer
  %sum = exec.buffer "gradients" 4194304 : !exec.buffer
  %part = exec.buffer "gradients" 2097152 pinned : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  %dx = exec.buffer "activations" 4194304 : !exec.buffer
  // CHECK: exec.segment @micro_batch {
  // CHECK: exec.send{{.*}}channel = 3{{.*}}#exec.order<[[STREAM:[0-9]]]
  // CHECK: exec.segment @micro_batch_after {
  // CHECK-NEXT: exec.gemm
  // CHECK-NEXT: exec.reduce_scatter{{.*}}#exec.order<
  // CHECK-NEXT: exec.gemm
  // CHECK-NEXT: exec.send{{.*}}channel = 3{{.*}}#exec.order<[[STREAM]]
  // CHECK-NEXT: exec.gemm
  exec.segment @micro_batch {
    exec.gemm(%x, %x) -> (%sum) {has_bias = false, k = 4 : i64, m = 1024 : i64, accumulate = #exec<accumulate after_first>, n = 1024 : i64, trans_a = true, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
    exec.gemm(%x, %x) -> (%dx) {has_bias = false, k = 4 : i64, m = 1024 : i64, accumulate = #exec<accumulate never>, n = 1024 : i64, trans_a = false, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
    exec.send(%dx) -> () {channel = 3 : i64, stage = 0 : i64}
    exec.gemm(%x, %x) -> (%dw) {has_bias = false, k = 4 : i64, m = 1024 : i64, accumulate = #exec<accumulate after_first>, n = 1024 : i64, trans_a = true, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
  }
  exec.segment @after {
    exec.reduce_scatter(%sum) -> (%part) {axes = ["dp"], inner = 524288 : i64, outer = 1 : i64, reduction = #exec<reduction sum>, type = f32}
  }
  // CHECK: exec.run @micro_batch 0 first
  // CHECK-NEXT: exec.run @micro_batch_after 1
  // CHECK-NOT: exec.run
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
  exec.run @after 0 first
}
}

// -----

// Behind the last micro-batch a message comes from another stage, for micro-batch
// 0 there as here: that segment stays as it is.
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
// CHECK-LABEL: exec.program @tied
exec.program @tied threads 1 {
  %x = exec.buffer "activations" 4194304 pinned : !exec.buffer
  %sum = exec.buffer "gradients" 4194304 : !exec.buffer
  %other = exec.buffer "gradients" 4194304 : !exec.buffer
  %part = exec.buffer "gradients" 2097152 pinned : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  exec.segment @micro_batch {
    exec.gemm(%x, %x) -> (%sum) {has_bias = false, k = 4 : i64, m = 1024 : i64, accumulate = #exec<accumulate after_first>, n = 1024 : i64, trans_a = true, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
    exec.gemm(%x, %x) -> (%dw) {has_bias = false, k = 4 : i64, m = 1024 : i64, accumulate = #exec<accumulate after_first>, n = 1024 : i64, trans_a = true, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
  }
  exec.segment @after {
    exec.reduce_scatter(%sum) -> (%part) {axes = ["dp"], inner = 524288 : i64, outer = 1 : i64, reduction = #exec<reduction sum>, type = f32}
    exec.recv() -> (%other) {channel = 3 : i64, stage = 1 : i64}
  }
  // CHECK: exec.run @micro_batch 0 first
  // CHECK-NEXT: exec.run @micro_batch 1
  // CHECK-NEXT: exec.run @after 0 first
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
  exec.run @after 0 first
}
}

// -----

// A stage of two parts, each of which is done with its micro-batches at another
// time: the gradients of the first begin to be reduced before the second has its
// last one, and the view that they are reduced through goes with them. What is
// received behind all stays there.
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
// CHECK-LABEL: exec.program @parts
exec.program @parts threads 1 {
  %x = exec.buffer "activations" 4194304 pinned : !exec.buffer
  %y = exec.buffer "activations" 65536 pinned : !exec.buffer
  %sum1 = exec.buffer "gradients" 67108864 : !exec.buffer
  %sum0 = exec.buffer "gradients" 4194304 : !exec.buffer
  %part1 = exec.buffer "gradients" 33554432 pinned : !exec.buffer
  %part0 = exec.buffer "gradients" 2097152 pinned : !exec.buffer
  %other = exec.buffer "gradients" 4194304 : !exec.buffer
  // CHECK: %[[SUM1:.*]] = exec.buffer "gradients" 67108864
  // CHECK: %[[WHOLE:.*]] = exec.view %[[SUM1]] 67108864
  // CHECK: exec.segment @backward_1 {
  // CHECK-NEXT: exec.gemm(%{{.*}}) -> (%[[SUM1]])
  // CHECK: exec.segment @backward_1_after {
  // CHECK-NEXT: exec.gemm(%{{.*}}) -> (%[[SUM1]])
  // CHECK-NEXT: exec.reduce_scatter(%[[WHOLE]]){{.*}}#exec.order<
  exec.segment @backward_1 {
    exec.gemm(%y, %y) -> (%sum1) {has_bias = false, k = 4 : i64, m = 4096 : i64, accumulate = #exec<accumulate after_first>, n = 4096 : i64, trans_a = true, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
  }
  // CHECK: exec.segment @backward_0 {
  exec.segment @backward_0 {
    exec.gemm(%x, %x) -> (%sum0) {has_bias = false, k = 4 : i64, m = 1024 : i64, accumulate = #exec<accumulate after_first>, n = 1024 : i64, trans_a = true, trans_b = false, type_a = f32, type_b = f32, type_c = f32}
  }
  // CHECK: exec.segment @after {
  // CHECK-NEXT: exec.reduce_scatter
  // CHECK-NEXT: exec.recv
  exec.segment @after {
    exec.reduce_scatter(%sum0) -> (%part0) {axes = ["dp"], inner = 524288 : i64, outer = 1 : i64, reduction = #exec<reduction sum>, type = f32}
    %whole = exec.view %sum1 67108864 : !exec.buffer
    exec.reduce_scatter(%whole) -> (%part1) {axes = ["dp"], inner = 8388608 : i64, outer = 1 : i64, reduction = #exec<reduction sum>, type = f32}
    exec.recv() -> (%other) {channel = 3 : i64, stage = 1 : i64}
  }
  // CHECK: exec.run @backward_1 0 first
  // CHECK-NEXT: exec.run @backward_1_after 1
  // CHECK-NEXT: exec.run @backward_0 0 first
  // CHECK-NEXT: exec.run @backward_0 1
  // CHECK-NEXT: exec.run @after 0 first
  exec.run @backward_1 0 first
  exec.run @backward_1 1
  exec.run @backward_0 0 first
  exec.run @backward_0 1
  exec.run @after 0 first
}
}
