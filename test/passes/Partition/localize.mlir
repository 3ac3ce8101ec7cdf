// RUN: cleave-opt %s --cleave-localize | FileCheck %s

// CHECK: dist.mesh @mesh
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]

// State keeps its global type and placement.
// CHECK: xf.state @w parameter : tensor<96x64xf32, #dist.on<@mesh, [{tp}, {}]>>
xf.state @w parameter : tensor<96x64xf32, #dist.on<@mesh, [{tp}, {}]>> {
  init = #xf.init<normal, 2.0e-2 : f64>}

!ids = tensor<2x8x16xi32, #dist.on<@mesh, [{}, {dp}, {}]>>
!slice = tensor<8x16xi32, #dist.on<@mesh, [{dp}, {}]>>
!w = tensor<96x64xf32, #dist.on<@mesh, [{tp}, {}]>>
!part = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {}, {}], partial = {tp}>>
!x = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {tp}, {}]>>
!y = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {}, {}]>>
!l = tensor<8x16x96xf32, #dist.on<@mesh, [{dp}, {}, {tp}]>>
!m = tensor<8x16xf32, #dist.on<@mesh, [{dp}, {}], max = {tp}>>
!rows = tensor<8x16xf32, #dist.on<@mesh, [{dp}, {}]>>
!scalar = tensor<f32, #dist.on<@mesh, [], partial = {dp}>>

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %{{.*}}: tensor<2x4x16xi32> {dist.global = tensor<2x8x16xi32, #dist.on<@mesh, [{}, {dp}, {}]>>}) {
func.func @step(%ids: !ids) {
  // CHECK: xf.get @w : tensor<24x64xf32>
  %w = xf.get @w : !w
  // CHECK: xf.accumulate 2(%{{.*}}) : (tensor<2x4x16xi32>) -> tensor<f32> {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<4x16xi32>):
  %sum = xf.accumulate 2 (%ids) : (!ids) -> !scalar {
  ^bb0(%slice: !slice):
    // Which rows of the table a rank has is written down.
    // CHECK: xf.embedding %{{.*}} {shard_axes = ["tp"]} : (tensor<4x16xi32>, tensor<24x64xf32>) -> tensor<4x16x64xf32>
    %p = xf.embedding %slice, %w : (!slice, !w) -> !part
    // CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 1 : tensor<4x16x64xf32> to tensor<4x4x64xf32>
    %x = dist.reduce_scatter %p axes ["tp"] dim 1 : !part to !x
    // CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 1 : tensor<4x4x64xf32> to tensor<4x16x64xf32>
    %y = dist.all_gather %x axes ["tp"] dim 1 : !x to !y
    // CHECK: xf.linear {{.*}} -> tensor<4x16x24xf32>
    %l = xf.linear %y, %w {contract = 1 : i64} : (!y, !w) -> !l
    // CHECK: xf.row_max %{{.*}} {shard_axes = ["tp"], vocab = 90 : i64} : (tensor<4x16x24xf32>) -> tensor<4x16xf32>
    %m = xf.row_max %l {vocab = 90 : i64} : (!l) -> !m
    // CHECK: dist.all_reduce %{{.*}} axes ["tp"] reduction max : tensor<4x16xf32> to tensor<4x16xf32>
    %r = dist.all_reduce %m axes ["tp"] reduction max : !m to !rows
    // CHECK: xf.sum_exp %{{.*}} {shard_axes = ["tp"]
    %e = xf.sum_exp %l, %r {vocab = 90 : i64}
        : (!l, !rows) -> tensor<8x16xf32, #dist.on<@mesh, [{dp}, {}], partial = {tp}>>
    // CHECK: xf.sum %{{.*}} : (tensor<4x16xf32>) -> tensor<f32>
    %s = xf.sum %r : (!rows) -> !scalar
    xf.yield %s : !scalar
  }
  // What a reader needs to put it together again.
  // CHECK: xf.output "sum", %{{.*}} {global = tensor<f32, #dist.on<@mesh, [], partial = {dp}>>} : tensor<f32>
  xf.output "sum", %sum : !scalar
  // CHECK: xf.set @w, %{{.*}} : tensor<24x64xf32>
  xf.set @w, %w : !w
  return
}

// Shards are not noted where the vocabulary is whole.
// CHECK-LABEL: func.func @whole(
// CHECK: xf.row_max %{{.*}} {shard_axes = [], vocab = 90 : i64}
func.func @whole(%x: tensor<8x16x96xf32, #dist.on<@mesh, [{dp}, {}, {}]>>) {
  %m = xf.row_max %x {vocab = 90 : i64}
      : (tensor<8x16x96xf32, #dist.on<@mesh, [{dp}, {}, {}]>>) -> !rows
  return
}
