// An MLP with biases on a residual stream, a vocabulary-parallel embedding and
// its tied head, under each recipe.
//
// RUN: cleave-opt %s --cleave-build-step=micro-batches=2 \
// RUN:   --cleave-expand-cross-entropy -o %t.mlir
// RUN: cleave-opt %t.mlir --cleave-place-tensors --cleave-verify-placements \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/dp.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=DP
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/tp.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=TP
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/sp.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=SP
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/zero1.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=Z1
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/zero2.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=Z2
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/zero3.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=Z3
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/hybrid.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=HYBRID
// RUN: cleave-opt %t.mlir --cleave-place-tensors=plan=%S/inputs/all.json \
// RUN:   --cleave-verify-placements | FileCheck %s --check-prefix=ALL

xf.state @embed parameter : tensor<32x16xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, dims = ["vocab", "hidden"]}
xf.state @norm parameter : tensor<16xf32> {
  init = #xf.init<ones, 1.0 : f64>, dims = ["hidden"]}
xf.state @up parameter : tensor<64x16xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, dims = ["intermediate", "hidden"]}
xf.state @up.bias parameter : tensor<64xf32> {
  init = #xf.init<zeros, 0.0 : f64>, dims = ["intermediate"]}
xf.state @down parameter : tensor<16x64xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, dims = ["hidden", "intermediate"]}
xf.state @down.bias parameter : tensor<16xf32> {
  init = #xf.init<zeros, 0.0 : f64>, dims = ["hidden"]}
xf.state @table constant : tensor<8x16xf32> {init = #xf.init<zeros, 0.0 : f64>}

func.func @forward(%ids: tensor<4x8xi32>, %targets: tensor<4x8xi32>)
    -> tensor<f32> {
  %e = xf.get @embed : tensor<32x16xf32>
  %n = xf.get @norm : tensor<16xf32>
  %u = xf.get @up : tensor<64x16xf32>
  %ub = xf.get @up.bias : tensor<64xf32>
  %d = xf.get @down : tensor<16x64xf32>
  %db = xf.get @down.bias : tensor<16xf32>
  %x0 = xf.embedding %ids, %e
      : (tensor<4x8xi32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
  %y, %r = xf.rms_norm %x0, %n {eps = 1.0e-6 : f64}
      : (tensor<4x8x16xf32>, tensor<16xf32>)
     -> (tensor<4x8x16xf32>, tensor<4x8xf32>)
  %h = xf.linear %y, %u, %ub {contract = 1 : i64}
      : (tensor<4x8x16xf32>, tensor<64x16xf32>, tensor<64xf32>)
     -> tensor<4x8x64xf32>
  %a = xf.activation %h {kind = 1 : i32}
      : (tensor<4x8x64xf32>) -> tensor<4x8x64xf32>
  %z = xf.linear %a, %d, %db {contract = 1 : i64}
      : (tensor<4x8x64xf32>, tensor<16x64xf32>, tensor<16xf32>)
     -> tensor<4x8x16xf32>
  %x1 = xf.add %x0, %z
      : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  %l = xf.linear %x1, %e {contract = 1 : i64}
      : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %loss, %lse = xf.cross_entropy %l, %targets {vocab = 30 : i64}
      : (tensor<4x8x32xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
  return %loss : tensor<f32>
}

// One rank: everything is placed, nothing moves.
// ONE: dist.mesh @mesh [#dist.axis<"dp" = 1>, #dist.axis<"tp" = 1>]
// ONE-NOT: dist.reshard

// Data parallelism: samples are split; gradients stay partial over micro-batches
// and become whole once, after the last.
// DP: func.func @step(%{{.*}}: tensor<2x4x8xi32, #dist.on<@mesh, [{}, {dp}, {}]>>
// DP: %[[N:.*]] = xf.count_tokens {{.*}} -> tensor<f32, #dist.on<@mesh, [], partial = {dp}>>
// DP: xf.output "local_tokens", %[[N]]
// DP: dist.reshard %[[N]] {{.*}} to tensor<f32, #dist.on<@mesh, []>>
// DP: %[[SUMS:.*]]:7 = xf.accumulate 2
// DP-NOT: dist.reshard
// DP: xf.linear_weight_grad {{.*}} -> tensor<16x64xf32, #dist.on<@mesh, [{}, {}], partial = {dp}>>
// DP-NOT: dist.reshard
// DP: xf.yield
// DP-SAME: tensor<64x16xf32, #dist.on<@mesh, [{}, {}], partial = {dp}>>
// DP: dist.reshard %[[SUMS]]#1 {{.*}} to tensor<32x16xf32, #dist.on<@mesh, [{}, {}]>>
// DP: xf.adamw

// Tensor parallelism: column, then row; the row's bias is added once, with the
// residual. Three partial values of a token are reduced in the loss.
// TP: xf.accumulate
// TP: %[[E:.*]] = xf.embedding {{.*}} -> tensor<4x8x16xf32, #dist.on<@mesh, [{}, {}, {}], partial = {tp}>>
// TP: %[[X:.*]] = dist.reshard %[[E]] {{.*}} to tensor<4x8x16xf32, #dist.on<@mesh, [{}, {}, {}]>>
// TP: xf.rms_norm %[[X]]
// TP-NOT: dist.reshard
// TP: xf.linear %{{.*}}, %{{.*}}, %{{.*}} {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} {{.*}} -> tensor<4x8x64xf32, #dist.on<@mesh, [{}, {}, {tp}]>>
// TP: %[[Z:.*]] = xf.linear %{{.*}}, %{{.*}} {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} {{.*}} partial = {tp}>>
// TP-NEXT: %[[W:.*]] = dist.reshard %[[Z]] {{.*}} to tensor<4x8x16xf32, #dist.on<@mesh, [{}, {}, {}]>>
// TP-NEXT: xf.add %[[X]], %{{.*}}, %[[W]] {{.*}} tensor<16xf32, #dist.on<@mesh, [{}]>>
// TP: xf.row_max {{.*}} -> tensor<4x8xf32, #dist.on<@mesh, [{}, {}], max = {tp}>>
// TP: dist.reshard
// TP: xf.sum_exp {{.*}} -> tensor<4x8xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
// TP: xf.pick {{.*}} -> tensor<4x8xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
// TP: xf.token_loss
// The backward pass reduces two gradients of the stream, and nothing of the
// forward pass again.
// TP: xf.cross_entropy_grad
// TP: dist.reshard %{{.*}} {xf.provenance = #xf.provenance<backward>} : tensor<4x8x16xf32
// TP-NOT: dist.reshard
// TP: dist.reshard %{{.*}} {xf.provenance = #xf.provenance<backward>} : tensor<4x8x16xf32
// TP-NOT: dist.reshard
// TP: xf.yield

// Sequence parallelism: the stream is split along the sequence; what was an
// all_reduce is a reduce_scatter before and an all_gather after it.
// SP: xf.accumulate
// SP: %[[E:.*]] = xf.embedding
// SP: %[[X:.*]] = dist.reshard %[[E]] {{.*}} partial = {tp}>> to tensor<4x8x16xf32, #dist.on<@mesh, [{}, {tp}, {}]>>
// SP: %[[Y:.*]], %{{.*}} = xf.rms_norm %[[X]]
// SP: dist.reshard %[[Y]] {{.*}} to tensor<4x8x16xf32, #dist.on<@mesh, [{}, {}, {}]>>
// SP: %[[Z:.*]] = xf.linear {{.*}} partial = {tp}>>
// SP: %[[S:.*]] = dist.reshard %[[Z]] {{.*}} to tensor<4x8x16xf32, #dist.on<@mesh, [{}, {tp}, {}]>>
// SP: xf.add %[[X]], %{{.*}}, %[[S]]
// The norm's weight sees only some of the tokens.
// SP: xf.norm_weight_grad {{.*}} -> tensor<16xf32, #dist.on<@mesh, [{}], partial = {tp}>>

// ZeRO-1: optimizer state is split; gradients are reduced to its shards after
// the last micro-batch, parameters are gathered before the first.
// Z1: xf.state @embed parameter : tensor<32x16xf32, #dist.on<@mesh, [{dp}, {}]>>
// Z1: xf.state @table constant : tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
// Z1: xf.state @"embed/moment1" moment1 : tensor<32x16xf32, #dist.on<@mesh, [{dp}, {}]>>
// Z1: %[[P:.*]] = xf.get @embed
// Z1: dist.reshard %[[P]] {{.*}} to tensor<32x16xf32, #dist.on<@mesh, [{}, {}]>>
// Z1: %[[SUMS:.*]]:7 = xf.accumulate
// Z1-NOT: dist.reshard
// Z1: xf.yield
// Z1: %[[G:.*]] = dist.reshard %[[SUMS]]#1 {{.*}} partial = {dp}>> to tensor<32x16xf32, #dist.on<@mesh, [{dp}, {}]>>
// Z1: xf.square_sum %[[G]] {{.*}} -> tensor<f32, #dist.on<@mesh, [], partial = {dp}>>
// Z1: %[[NEW:.*]], %{{.*}}, %{{.*}} = xf.adamw %[[P]], %{{.*}}, %{{.*}}, %[[G]]
// Z1: xf.set @embed, %[[NEW]] {{.*}} tensor<32x16xf32, #dist.on<@mesh, [{dp}, {}]>>

// ZeRO-2: gradients too, each as soon as it is there.
// Z2: %[[P:.*]] = xf.get @embed
// Z2: dist.reshard %[[P]] {{.*}} to tensor<32x16xf32, #dist.on<@mesh, [{}, {}]>>
// Z2: xf.accumulate
// Z2: %[[DW:.*]] = xf.linear_weight_grad {{.*}} -> tensor<16x64xf32, #dist.on<@mesh, [{}, {}], partial = {dp}>>
// Z2-NEXT: dist.reshard %[[DW]] {{.*}} to tensor<16x64xf32, #dist.on<@mesh, [{dp}, {}]>>
// Z2: xf.yield
// Z2-SAME: tensor<32x16xf32, #dist.on<@mesh, [{dp}, {}]>>
// Z2-NOT: dist.reshard {{.*}} : tensor<32x16xf32

// ZeRO-2 in shard groups: each micro-batch's gradients are reduced inside a
// group, their sums between groups after the last one.
// HYBRID: %[[SUMS:.*]]:7 = xf.accumulate
// HYBRID: %[[DW:.*]] = xf.linear_weight_grad {{.*}} -> tensor<16x64xf32, #dist.on<@mesh, [{}, {}], partial = {dp_outer, dp}>>
// HYBRID-NEXT: dist.reshard %[[DW]] {{.*}} to tensor<16x64xf32, #dist.on<@mesh, [{dp}, {}], partial = {dp_outer}>>
// HYBRID: xf.yield
// HYBRID: dist.reshard %[[SUMS]]#1 {{.*}} partial = {dp_outer}>> to tensor<32x16xf32, #dist.on<@mesh, [{dp}, {}]>>

// ZeRO-3: parameters too; gathered in the forward pass, and again in the
// backward.
// Z3: %[[P:.*]] = xf.get @down {
// Z3-NOT: dist.reshard
// Z3: xf.accumulate
// Z3: %[[F:.*]] = dist.reshard %[[P]] {xf.provenance = #xf.provenance<forward>} {{.*}} to tensor<16x64xf32, #dist.on<@mesh, [{}, {}]>>
// Z3: xf.linear %{{.*}}, %[[F]]
// Z3: %[[R:.*]] = dist.reshard %[[P]] {xf.provenance = #xf.provenance<backward>} {{.*}} to tensor<16x64xf32, #dist.on<@mesh, [{}, {}]>>
// Z3: xf.linear %{{.*}}, %[[R]]

// All at once: what is kept is split by tp as ops see it, then by dp.
// ALL: xf.state @embed parameter : tensor<32x16xf32, #dist.on<@mesh, [{tp, dp}, {}]>>
// ALL: xf.state @down parameter : tensor<16x64xf32, #dist.on<@mesh, [{dp}, {tp}]>>
// ALL: xf.accumulate
// ALL: xf.embedding {{.*}} -> tensor<4x8x16xf32, #dist.on<@mesh, [{dp}, {}, {}], partial = {tp}>>
// ALL: xf.norm_weight_grad {{.*}} -> tensor<16xf32, #dist.on<@mesh, [{}], partial = {dp, tp}>>
// Over tp the small gradient is reduced once, after the last micro-batch.
// ALL-NEXT: dist.reshard {{.*}} to tensor<16xf32, #dist.on<@mesh, [{dp}], partial = {tp}>>
