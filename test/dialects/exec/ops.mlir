// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// CHECK: exec.kernel @softmax mode = row, rows = 4, columns = 8,
// CHECK-SAME: inputs = [#exec.access<bf16, offset = 2, row = (1, 0, 8), col = 1>]
// CHECK-SAME: outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>, #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>]
exec.kernel @softmax mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<bf16, offset = 2, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>,
               #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
// CHECK-NEXT: ^bb0(%{{.*}}: f32):
^bb0(%x: f32):
  // CHECK: exec.row_reduce max %{{.*}} : f32
  %max = exec.row_reduce max %x : f32
  %shifted = arith.subf %x, %max : f32
  %e = math.exp %shifted : f32
  // CHECK: exec.row_reduce sum %{{.*}} : f32
  %sum = exec.row_reduce sum %e : f32
  %y = arith.divf %e, %sum : f32
  // CHECK: exec.yield %{{.*}}, %{{.*}} : f32, f32
  exec.yield %y, %sum : f32, f32
}

// CHECK: exec.kernel @first mode = flat, rows = 64, columns = 1,
// CHECK-SAME: accumulate = after_first
exec.kernel @first mode = flat, rows = 64, columns = 1,
    inputs = [], outputs = [#exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    accumulate = after_first {
  // CHECK: exec.column : i32
  %c = exec.column : i32
  // CHECK: exec.shard_index : i32
  %s = exec.shard_index : i32
  %y = arith.addi %c, %s : i32
  exec.yield %y : i32
}

// What is the default is not printed.
// CHECK: exec.kernel @columns mode = column,
// CHECK-NOT: accumulate
exec.kernel @columns mode = column, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (2, 3, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

//===----------------------------------------------------------------------===//
// A program
//===----------------------------------------------------------------------===//

xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}

// CHECK: exec.program @step threads 2 {
exec.program @step threads 2 {
  // CHECK: %[[W:.*]] = exec.buffer "parameters" 32 at 64 pinned of @w : !exec.buffer
  %w = exec.buffer "parameters" 32 at 64 pinned of @w : !exec.buffer
  // CHECK: %[[B:.*]] = exec.buffer "activations" 4096 : !exec.buffer
  %b = exec.buffer "activations" 4096 : !exec.buffer
  %g = exec.buffer "gradients" 32 : !exec.buffer
  // CHECK: exec.output "grad.w" %[[G:.*]] of @w : tensor<8xf32>
  exec.output "grad.w" %g of @w : tensor<8xf32>
  %l = exec.buffer "outputs" 4 : !exec.buffer
  // CHECK: exec.output "loss" %[[L:.*]] : tensor<f32, #dist.on<@mesh, [], partial = {dp}>>
  exec.output "loss" %l : tensor<f32, #dist.on<@mesh, [], partial = {dp}>>
  // CHECK: exec.segment @before {
  exec.segment @before {
  // CHECK: exec.fill() -> (%[[B]])
  exec.fill() -> (%b)
  // CHECK: exec.copy(%[[W]]) -> (%[[B]])
  exec.copy(%w) -> (%b)
  // CHECK: exec.schedule() -> (%[[B]]) {beta1 = {{.*}}, kind = #exec<lr_schedule cosine>
  exec.schedule() -> (%b) {kind = #exec<lr_schedule cosine>, warmup_steps = 0 : i64,
      decay_steps = 0 : i64, stable_steps = 0 : i64, lr = 3.0e-4 : f64,
      min_lr = 3.0e-5 : f64, beta1 = 0.9 : f64, beta2 = 0.95 : f64}
  }
  // CHECK: exec.segment @micro_batch {
  exec.segment @micro_batch {
    // CHECK: %[[V:.*]] = exec.view %[[B]] 1024 places 4 : !exec.buffer
    %v = exec.view %b 1024 places 4 : !exec.buffer
    // CHECK: exec.view %[[B]] 1024 from 3072 : !exec.buffer
    %part = exec.view %b 1024 from 3072 : !exec.buffer
    // CHECK: exec.view %[[B]] 1024 from 64 places 2 : !exec.buffer
    %place = exec.view %b 1024 from 64 places 2 : !exec.buffer
    // CHECK: exec.view %[[B]] 1000 places 4 stride 1024 : !exec.buffer
    %apart = exec.view %b 1000 places 4 stride 1024 : !exec.buffer
    // CHECK: exec.launch(%[[V]]) -> (%[[B]], %[[G]]) {kernel = @softmax, shard_axes = ["tp"]}
    exec.launch(%v) -> (%b, %g) {kernel = @softmax, shard_axes = ["tp"]}
    // CHECK: exec.gemm(%[[V]], %[[W]]) -> (%[[B]]) using(%[[V]]) {accumulate = #exec<accumulate after_first>, has_bias = false,
    exec.gemm(%v, %w) -> (%b) using(%v) {m = 8 : i64, n = 8 : i64, k = 8 : i64,
        trans_a = false, trans_b = true, type_a = f32, type_b = f32,
        type_c = f32, accumulate = #exec<accumulate after_first>, has_bias = false}
    // CHECK: exec.attention(%[[V]], %[[V]], %[[V]]) -> (%[[B]], %[[B]]) using(%[[V]])
    exec.attention(%v, %v, %v) -> (%b, %b) using(%v) {batch = 1 : i64,
        seq = 4 : i64, heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64,
        window = 0 : i64, type = f32, scale = 0.25 : f64,
        softcap = 0.0 : f64}
    // CHECK: exec.attention_grad(%[[V]], {{.*}}) -> (%[[B]], %[[B]], %[[B]])
    // CHECK-SAME: fixed_order = true
    exec.attention_grad(%v, %v, %v, %v, %v, %v) -> (%b, %b, %b) using(%v) {
        batch = 1 : i64, seq = 4 : i64, heads = 4 : i64, kv_heads = 2 : i64,
        head_dim = 8 : i64, window = 0 : i64, type = f32, scale = 0.25 : f64,
        softcap = 0.0 : f64, fixed_order = true}
    // CHECK: exec.embedding(%[[V]], %[[W]]) -> (%[[B]])
    exec.embedding(%v, %w) -> (%b) {rows = 4 : i64, width = 8 : i64,
        table_rows = 8 : i64, type_table = f32, type_out = bf16}
    // CHECK: exec.embedding_grad(%[[V]], %[[B]]) -> (%[[W]])
    // CHECK-SAME: shard_axes = ["tp"]
    exec.embedding_grad(%v, %b) -> (%w) {rows = 4 : i64, width = 8 : i64,
        table_rows = 8 : i64, type_dout = f32, type_dtable = f32,
        accumulate = #exec<accumulate never>, shard_axes = ["tp"]}
    // CHECK: exec.all_reduce(%[[V]]) -> (%[[B]]) {axes = ["dp", "tp"],
    exec.all_reduce(%v) -> (%b) {elements = 8 : i64, type = f32,
        reduction = #exec<reduction max>, axes = ["dp", "tp"]}
    // CHECK: exec.all_gather(%[[V]]) -> (%[[B]]) {axes = ["tp"],
    exec.all_gather(%v) -> (%b) {outer = 1 : i64, inner = 8 : i64, type = f32,
        axes = ["tp"]}
    // CHECK: exec.reduce_scatter(%[[V]]) -> (%[[B]]) {axes = ["tp"],
    exec.reduce_scatter(%v) -> (%b) {outer = 1 : i64, inner = 8 : i64,
        type = f32, reduction = #exec<reduction sum>, axes = ["tp"]}
    // CHECK: exec.all_to_all(%[[V]]) -> (%[[B]]) {a = 2 : i64, axes = ["tp"],
    exec.all_to_all(%v) -> (%b) {outer = 1 : i64, a = 2 : i64, mid = 1 : i64,
        b = 2 : i64, inner = 1 : i64, type = f32, concat_first = true,
        axes = ["tp"]}
    // CHECK: exec.slice(%[[V]]) -> (%[[B]]) {axes = ["tp"],
    exec.slice(%v) -> (%b) {outer = 1 : i64, inner = 4 : i64, type = f32,
        axes = ["tp"]}
    // CHECK: exec.send(%[[V]]) -> () {channel = 3 : i64, stage = 1 : i64}
    exec.send(%v) -> () {stage = 1 : i64, channel = 3 : i64}
    // CHECK: exec.recv() -> (%[[B]]) {channel = 4 : i64, stage = 1 : i64}
    exec.recv() -> (%b) {stage = 1 : i64, channel = 4 : i64}
  }
  // CHECK: exec.segment @update updates {
  exec.segment @update updates {
    exec.copy(%b) -> (%w)
  }
  // CHECK: exec.run @before 0 first
  // CHECK-NEXT: exec.run @micro_batch 0 first
  // CHECK-NEXT: exec.run @micro_batch 1
  // CHECK-NEXT: exec.run @update 0 first
  exec.run @before 0 first
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
  exec.run @update 0 first
}
