// RUN: cleave-opt %s --cleave-cut-turn="parts=2" --split-input-file 2>/dev/null \
// RUN:   | FileCheck %s
// RUN: cleave-opt %s --cleave-cut-turn="parts=2" --split-input-file \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// Parts keep to all contracts, in streams as well.
// RUN: cleave-opt %s --cleave-cut-turn="parts=2" \
// RUN:   --cleave-cut-products="mode=always cluster=h100-sxm:2" \
// RUN:   --cleave-overlap="mode=always cluster=h100-sxm:2" --cleave-add-waits \
// RUN:   --cleave-verify-order --cleave-plan-memory --cleave-add-waits \
// RUN:   --cleave-verify-memory --cleave-verify-order --split-input-file \
// RUN:   2>/dev/null | FileCheck %s --check-prefix=PLACED
// What fits into the device stays whole; so does what nobody has a device for.
// RUN: cleave-opt %s --cleave-cut-turn="cluster=h100-sxm:2" \
// RUN:   --split-input-file | FileCheck %s --check-prefix=WHOLE
// RUN: cleave-opt %s --cleave-cut-turn --split-input-file \
// RUN:   | FileCheck %s --check-prefix=WHOLE
// RUN: cleave-opt %s --cleave-cut-turn="parts=1" --split-input-file \
// RUN:   | FileCheck %s --check-prefix=WHOLE
// WHOLE-NOT: _part_of_

// A head of 512 tokens and 4096 words. Logits and their gradient are half as
// large, and so are the logarithms that only the gradient needs. The losses of
// tokens are kept, and summed when all are there; the weight's gradient is added
// up. Products have one scratch buffer.
// REMARK: remark: 5 instructions in 2 parts: 4195328 bytes in place of 8390656
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
exec.kernel @loss mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32, %target: i32):
  %sum = exec.row_reduce sum %x : f32
  %lse = math.log %sum : f32
  %loss = arith.subf %lse, %sum : f32
  exec.yield %loss, %lse : f32, f32
}
exec.kernel @loss_grad mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32, %lse: f32, %target: i32):
  %d = arith.subf %x, %lse : f32
  %p = math.exp %d : f32
  exec.yield %p : f32
}
exec.kernel @sum mode = row, rows = 1, columns = 512,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 512), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  exec.yield %sum : f32
}
// CHECK-LABEL: exec.program @head
// PLACED-LABEL: exec.program @head
exec.program @head threads 1 {
  %x = exec.buffer "activations" 262144 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %targets = exec.buffer "data" 2048 pinned : !exec.buffer
  %logits = exec.buffer "activations" 4194304 : !exec.buffer
  %losses = exec.buffer "activations" 2048 : !exec.buffer
  %lse = exec.buffer "activations" 2048 : !exec.buffer
  %loss = exec.buffer "loss" 4 pinned : !exec.buffer
  %dlogits = exec.buffer "activations" 4194304 : !exec.buffer
  %dx = exec.buffer "activations" 262144 pinned : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  %work0 = exec.buffer "workspace" 4096 : !exec.buffer
  %work1 = exec.buffer "workspace" 8192 : !exec.buffer
  %work2 = exec.buffer "workspace" 4096 : !exec.buffer
  // CHECK-DAG: %[[LOGITS:.*]] = exec.buffer "activations" 2097152 :
  // CHECK-DAG: %[[DLOGITS:.*]] = exec.buffer "activations" 2097152 :
  // CHECK-DAG: %[[LSE:.*]] = exec.buffer "activations" 1024 :
  // CHECK-DAG: %[[WORK:.*]] = exec.buffer "workspace" 8192
  // CHECK-NOT: exec.buffer "activations" 4194304
  // CHECK-NOT: exec.buffer "workspace" 4096
  exec.segment @step {
    // CHECK: exec.segment
    // CHECK-DAG: %[[X0:.*]] = exec.view %[[X:.*]] 131072 : !exec.buffer
    // CHECK-DAG: %[[X1:.*]] = exec.view %[[X]] 131072 from 131072 : !exec.buffer
    // CHECK: exec.gemm(%[[X0]], %[[W:.*]]) -> (%[[LOGITS]]) using(%[[WORK]]) {{.*}} m = 256 : i64
    // CHECK-NEXT: exec.launch(%[[LOGITS]], %[[TARGETS0:.*]]) -> (%[[LOSSES0:.*]], %[[LSE]]) {kernel = @loss_part_of_2
    // CHECK-NEXT: exec.launch(%[[LOGITS]], %[[LSE]], %[[TARGETS0]]) -> (%[[DLOGITS]]) {kernel = @loss_grad_part_of_2
    // CHECK-NEXT: exec.gemm(%[[DLOGITS]], %[[W]]) -> (%[[DX0:.*]]) using(%[[WORK]]) {{.*}} m = 256 : i64
    // CHECK-NEXT: exec.gemm(%[[DLOGITS]], %[[X0]]) -> (%[[DW:.*]]) using(%[[WORK]]) {accumulate = #exec<accumulate never>, {{.*}} k = 256 : i64
    // CHECK-NEXT: exec.gemm(%[[X1]], %[[W]]) -> (%[[LOGITS]])
    // CHECK-NEXT: exec.launch(%[[LOGITS]], %[[TARGETS1:.*]]) -> (%[[LOSSES1:.*]], %[[LSE]])
    // CHECK-NEXT: exec.launch(%[[LOGITS]], %[[LSE]], %[[TARGETS1]]) -> (%[[DLOGITS]])
    // CHECK-NEXT: exec.gemm(%[[DLOGITS]], %[[W]]) -> (%[[DX1:.*]]) using
    // CHECK-NEXT: exec.gemm(%[[DLOGITS]], %[[X1]]) -> (%[[DW]]) using(%[[WORK]]) {accumulate = #exec<accumulate always>, {{.*}} k = 256 : i64
    // CHECK-NEXT: exec.launch(%{{.*}}) -> (%{{.*}}) {kernel = @sum,
    exec.gemm(%x, %w) -> (%logits) using(%work0) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 512 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits, %targets) -> (%losses, %lse) {kernel = @loss, xf.provenance = #xf.provenance<forward>}
    exec.launch(%losses) -> (%loss) {kernel = @sum, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits, %lse, %targets) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %w) -> (%dx) using(%work1) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 512 : i64, n = 256 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) using(%work2) {accumulate = #exec<accumulate never>, has_bias = false, k = 512 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}

// -----

// The vocabulary is split over tp: ranks tell each other the largest logits of
// tokens before they go on, each part on its own. What is computed beside the
// head and needed by it, here the hidden states gathered anew, goes ahead.
// REMARK: remark: 7 instructions in 2 parts:
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
exec.kernel @row_max mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %most = exec.row_reduce max %x : f32
  exec.yield %most : f32
}
exec.kernel @token_loss mode = row, rows = 512, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%most: f32, %target: i32):
  %lse = math.exp %most : f32
  %loss = arith.subf %most, %lse : f32
  exec.yield %loss, %lse : f32, f32
}
exec.kernel @loss_grad mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32, %lse: f32, %target: i32):
  %d = arith.subf %x, %lse : f32
  %p = math.exp %d : f32
  exec.yield %p : f32
}
// CHECK-LABEL: exec.program @split
// PLACED-LABEL: exec.program @split
exec.program @split threads 1 {
  %x = exec.buffer "activations" 262144 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %targets = exec.buffer "data" 2048 pinned : !exec.buffer
  %logits = exec.buffer "activations" 4194304 : !exec.buffer
  %losses = exec.buffer "activations" 2048 : !exec.buffer
  %lse = exec.buffer "activations" 2048 : !exec.buffer
  %loss = exec.buffer "loss" 4 pinned : !exec.buffer
  %dlogits = exec.buffer "activations" 4194304 : !exec.buffer
  %dx = exec.buffer "activations" 262144 pinned : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  %most = exec.buffer "activations" 2048 : !exec.buffer
  %all_most = exec.buffer "communication" 2048 : !exec.buffer
  %shard = exec.buffer "activations" 131072 pinned : !exec.buffer
  %again = exec.buffer "communication" 262144 : !exec.buffer
  exec.segment @step {
    // CHECK: exec.all_gather
    // CHECK: exec.gemm(%{{.*}}) -> (%[[LOGITS:.*]]) {{.*}} m = 256 : i64
    // CHECK-NEXT: exec.launch(%[[LOGITS]]) -> (%[[MOST:.*]]) {kernel = @row_max_part_of_2
    // CHECK-NEXT: exec.all_reduce(%[[MOST]]) -> (%[[ALL:.*]]) {axes = ["tp"], elements = 256 : i64
    // CHECK-NEXT: exec.launch(%[[ALL]], %{{.*}}) -> (%{{.*}}, %[[LSE:.*]]) {kernel = @token_loss_part_of_2
    // CHECK-NEXT: exec.launch(%[[LOGITS]], %[[LSE]], %{{.*}}) -> (%[[DLOGITS:.*]]) {kernel = @loss_grad_part_of_2
    // CHECK-NEXT: exec.gemm(%[[DLOGITS]],
    // CHECK-NEXT: exec.gemm(%[[DLOGITS]],
    // CHECK-NEXT: exec.gemm(%{{.*}}) -> (%[[LOGITS]])
    // CHECK: exec.all_reduce(%[[MOST]]) -> (%[[ALL]])
    // CHECK: exec.reduce_scatter
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 512 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits) -> (%most) {kernel = @row_max, xf.provenance = #xf.provenance<forward>}
    exec.all_reduce(%most) -> (%all_most) {axes = ["tp"], elements = 512 : i64, reduction = #exec<reduction max>, type = f32, xf.provenance = #xf.provenance<forward>}
    exec.launch(%all_most, %targets) -> (%losses, %lse) {kernel = @token_loss, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits, %lse, %targets) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %w) -> (%dx) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 512 : i64, n = 256 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<backward>}
    exec.all_gather(%shard) -> (%again) {axes = ["tp"], inner = 65536 : i64, outer = 1 : i64, type = bf16, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %again) -> (%dw) {accumulate = #exec<accumulate never>, has_bias = false, k = 512 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
    exec.reduce_scatter(%dx) -> (%shard) {axes = ["tp"], inner = 65536 : i64, outer = 1 : i64, reduction = #exec<reduction sum>, type = bf16, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}

// -----

// Over micro-batches the weight's gradient adds up: the first part of the first
// one begins, all others add. Losses and targets of a micro-batch are in a place
// of their own, and so are their parts.
// REMARK: remark: 5 instructions in 2 parts:
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
exec.kernel @loss mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32, %target: i32):
  %sum = exec.row_reduce sum %x : f32
  %lse = math.log %sum : f32
  %loss = arith.subf %lse, %sum : f32
  exec.yield %loss, %lse : f32, f32
}
exec.kernel @loss_grad mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32, %lse: f32, %target: i32):
  %d = arith.subf %x, %lse : f32
  %p = math.exp %d : f32
  exec.yield %p : f32
}
// CHECK-LABEL: exec.program @micro_batches
// PLACED-LABEL: exec.program @micro_batches
exec.program @micro_batches threads 1 {
  %x = exec.buffer "activations" 262144 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %all_targets = exec.buffer "data" 4096 pinned : !exec.buffer
  %logits = exec.buffer "activations" 4194304 : !exec.buffer
  %losses = exec.buffer "activations" 2048 : !exec.buffer
  %lse = exec.buffer "activations" 2048 : !exec.buffer
  %loss = exec.buffer "loss" 4 pinned : !exec.buffer
  %dlogits = exec.buffer "activations" 4194304 : !exec.buffer
  %dx = exec.buffer "activations" 262144 pinned : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  exec.segment @micro_batch {
    %targets = exec.view %all_targets 2048 places 2 : !exec.buffer
    // CHECK-DAG: exec.view %[[TARGETS:.*]] 1024 places 2 stride 2048 :
    // CHECK-DAG: exec.view %[[TARGETS]] 1024 from 1024 places 2 stride 2048 :
    // CHECK: exec.gemm(%[[DLOGITS:.*]], %{{.*}}) -> (%[[DW:.*]]) {accumulate = #exec<accumulate after_first>, {{.*}} trans_a = true
    // CHECK: exec.gemm(%[[DLOGITS]], %{{.*}}) -> (%[[DW]]) {accumulate = #exec<accumulate always>, {{.*}} trans_a = true
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 512 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits, %targets) -> (%losses, %lse) {kernel = @loss, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits, %lse, %targets) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %w) -> (%dx) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 512 : i64, n = 256 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate after_first>, has_bias = false, k = 512 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
}
}

// -----

// A pipeline's last stage keeps hidden states for the backward pass, which
// computes their logits: these are kept for no micro-batch. The sum of losses
// goes with them; the norm, whose result is kept, stays.
// REMARK: remark: 5 instructions in 2 parts: 4195328 bytes in place of 12587008
module {
dist.mesh @mesh [#dist.axis<"tp" = 2>]
exec.kernel @loss mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32, %target: i32):
  %sum = exec.row_reduce sum %x : f32
  %lse = math.log %sum : f32
  %loss = arith.subf %lse, %sum : f32
  exec.yield %loss, %lse : f32, f32
}
exec.kernel @loss_grad mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>,
              #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>,
              #exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32, %lse: f32, %target: i32):
  %d = arith.subf %x, %lse : f32
  %p = math.exp %d : f32
  exec.yield %p : f32
}
exec.kernel @sum mode = row, rows = 1, columns = 512,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 512), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  exec.yield %sum : f32
}
// CHECK-LABEL: exec.program @passes_apart
// PLACED-LABEL: exec.program @passes_apart
exec.program @passes_apart threads 1 {
  %in = exec.buffer "activations" 262144 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %all_targets = exec.buffer "data" 4096 pinned : !exec.buffer
  %all_logits = exec.buffer "activations" 8388608 : !exec.buffer
  %losses = exec.buffer "activations" 2048 : !exec.buffer
  %all_lse = exec.buffer "activations" 4096 : !exec.buffer
  %loss = exec.buffer "loss" 4 pinned : !exec.buffer
  %dlogits = exec.buffer "activations" 4194304 : !exec.buffer
  %dx = exec.buffer "activations" 262144 pinned : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  %all_x = exec.buffer "activations" 524288 : !exec.buffer
  %x = exec.view %all_x 262144 places 2 : !exec.buffer
  %logits = exec.view %all_logits 4194304 places 2 : !exec.buffer
  %lse = exec.view %all_lse 2048 places 2 : !exec.buffer
  // CHECK: exec.segment @forward
  // CHECK-NEXT: exec.copy(%{{.*}}) -> (%[[X:.*]]) {{{.*}}
  // CHECK-NEXT: }
  exec.segment @forward {
    %targets = exec.view %all_targets 2048 places 2 : !exec.buffer
    exec.copy(%in) -> (%x) {xf.provenance = #xf.provenance<forward>}
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 512 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits, %targets) -> (%losses, %lse) {kernel = @loss, xf.provenance = #xf.provenance<forward>}
    exec.launch(%losses) -> (%loss) {kernel = @sum, xf.provenance = #xf.provenance<forward>}
  }
  // CHECK: exec.segment @backward
  // CHECK: exec.gemm
  // CHECK-NEXT: exec.launch{{.*}}@loss_part_of_2
  // CHECK-NEXT: exec.launch{{.*}}@loss_grad_part_of_2
  // CHECK-NEXT: exec.gemm
  // CHECK-NEXT: exec.gemm
  // CHECK-NEXT: exec.gemm
  // CHECK-NEXT: exec.launch
  // CHECK-NEXT: exec.launch
  // CHECK-NEXT: exec.gemm
  // CHECK-NEXT: exec.gemm
  // CHECK-NEXT: exec.launch{{.*}}@sum
  exec.segment @backward {
    %targets = exec.view %all_targets 2048 places 2 : !exec.buffer
    exec.launch(%logits, %lse, %targets) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %w) -> (%dx) {accumulate = #exec<accumulate never>, has_bias = false, k = 4096 : i64, m = 512 : i64, n = 256 : i64, trans_a = false, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate after_first>, has_bias = false, k = 512 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @backward 0 first
  exec.run @backward 1
}
}
