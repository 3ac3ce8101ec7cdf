// RUN: cleave-opt %s --cleave-expand-cross-entropy | FileCheck %s

// CHECK-LABEL: func.func @loss(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x104xf32>, %[[T:.*]]: tensor<2x8xi32>)
func.func @loss(%x: tensor<2x8x104xf32>, %t: tensor<2x8xi32>)
    -> (tensor<f32>, tensor<2x8xf32>) {
  // CHECK: %[[M:.*]] = xf.row_max %[[X]] {vocab = 100 : i64, xf.provenance = #xf.provenance<forward>}
  // CHECK: %[[Z:.*]] = xf.sum_exp %[[X]], %[[M]] {vocab = 100 : i64, xf.provenance = #xf.provenance<forward>}
  // CHECK: %[[P:.*]] = xf.pick %[[X]], %[[T]] {xf.provenance = #xf.provenance<forward>}
  // CHECK: %[[EACH:.*]], %[[LSE:.*]] = xf.token_loss %[[M]], %[[Z]], %[[P]], %[[T]] {xf.provenance = #xf.provenance<forward>}
  // CHECK: %[[SUM:.*]] = xf.sum %[[EACH]] {xf.provenance = #xf.provenance<forward>}
  // CHECK: return %[[SUM]], %[[LSE]]
  %loss, %lse = xf.cross_entropy %x, %t {vocab = 100 : i64, xf.provenance = #xf.provenance<forward>}
      : (tensor<2x8x104xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<2x8xf32>)
  return %loss, %lse : tensor<f32>, tensor<2x8xf32>
}
