// A bias of a row-parallel linear that no add follows gets one of its own, after
// the reduction; a bias of a column-parallel one stays where it is.
//
// RUN: cleave-opt %s --cleave-build-step=micro-batches=2 --cleave-expand-cross-entropy \
// RUN:   --cleave-place-tensors=plan=%S/inputs/tp.json --cleave-verify-placements \
// RUN:   | FileCheck %s

xf.state @embed parameter : tensor<32x16xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>}
xf.state @up parameter : tensor<16x4x16xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, dims = ["hidden", "heads", "head_dim"]}
xf.state @up.bias parameter : tensor<4x16xf32> {
  init = #xf.init<zeros, 0.0 : f64>, dims = ["heads", "head_dim"]}
xf.state @down parameter : tensor<4x16x32xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, dims = ["heads", "head_dim", "hidden"]}
xf.state @down.bias parameter : tensor<32xf32> {
  init = #xf.init<zeros, 0.0 : f64>, dims = ["hidden"]}

// CHECK: xf.accumulate
// CHECK: xf.linear %{{.*}}, %{{.*}}, %{{.*}} {contract = 1 : i64, inputs_first
// CHECK: %[[Z:.*]] = xf.linear %{{[^,]*}}, %{{[^,]*}} {contract = 2 : i64, inputs_first, {{.*}} partial = {tp}>>
// CHECK: %[[W:.*]] = dist.reshard %[[Z]]
// CHECK: %[[B:.*]] = xf.add %[[W]]
// CHECK: xf.activation %[[B]]
func.func @forward(%ids: tensor<4x8xi32>, %targets: tensor<4x8xi32>)
    -> tensor<f32> {
  %e = xf.get @embed : tensor<32x16xf32>
  %u = xf.get @up : tensor<16x4x16xf32>
  %ub = xf.get @up.bias : tensor<4x16xf32>
  %d = xf.get @down : tensor<4x16x32xf32>
  %db = xf.get @down.bias : tensor<32xf32>
  %x = xf.embedding %ids, %e
      : (tensor<4x8xi32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
  %h = xf.linear %x, %u, %ub {contract = 1 : i64, inputs_first}
      : (tensor<4x8x16xf32>, tensor<16x4x16xf32>, tensor<4x16xf32>)
     -> tensor<4x8x4x16xf32>
  %z = xf.linear %h, %d, %db {contract = 2 : i64, inputs_first}
      : (tensor<4x8x4x16xf32>, tensor<4x16x32xf32>, tensor<32xf32>)
     -> tensor<4x8x32xf32>
  %a = xf.activation %z {kind = 1 : i32}
      : (tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  %loss, %lse = xf.cross_entropy %a, %targets {vocab = 32 : i64}
      : (tensor<4x8x32xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
  return %loss : tensor<f32>
}
