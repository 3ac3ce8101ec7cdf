// RUN: cleave-opt %s --cleave-expand-composites | FileCheck %s

// The products are on the shorter side: of four columns, from the right.

// CHECK-LABEL: func.func @tall(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>)
func.func @tall(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK-NEXT: %[[S:.*]] = xf.square_sum %[[X]] {xf.provenance = #xf.provenance<optimizer>}
  // CHECK-NEXT: %[[N:.*]] = xf.normalize %[[X]], %[[S]] {eps = {{.*}}, xf.provenance = #xf.provenance<optimizer>}
  // CHECK-NEXT: %[[ONCE:.*]] = xf.linear_weight_grad %[[N]], %[[N]] {leading = 2 : i64, {{.*}} -> tensor<4x4xf32>
  // CHECK-NEXT: %[[TWICE:.*]] = xf.linear %[[ONCE]], %[[ONCE]] {contract = 1 : i64, inputs_first, {{.*}} -> tensor<4x4xf32>
  // CHECK-NEXT: %[[C:.*]] = xf.scale %[[TWICE]] {factor = 3.0{{.*}} : f64,
  // CHECK-NEXT: %[[B:.*]] = xf.scale %[[ONCE]] {factor = -2.0{{.*}} : f64,
  // CHECK-NEXT: %[[BOTH:.*]] = xf.add %[[B]], %[[C]]
  // CHECK-NEXT: %[[MOVED:.*]] = xf.linear %[[N]], %[[BOTH]] {contract = 1 : i64, inputs_first, {{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[A:.*]] = xf.scale %[[N]] {factor = 4.0{{.*}} : f64,
  // CHECK-NEXT: %[[Y:.*]] = xf.add %[[A]], %[[MOVED]] {xf.provenance = #xf.provenance<optimizer>}
  // CHECK-NEXT: return %[[Y]]
  %y = xf.orthogonalize %x {rows = 2 : i64, steps = 1 : i64, a = 4.0 : f64,
      b = -2.0 : f64, c = 3.0 : f64, eps = 1.0e-7 : f64,
      xf.provenance = #xf.provenance<optimizer>}
      : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// Of two rows, from the left, as often as there are steps.

// CHECK-LABEL: func.func @wide(
func.func @wide(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: %[[N:.*]] = xf.normalize
  // CHECK-NEXT: %[[ONCE:.*]] = xf.linear %[[N]], %[[N]] {contract = 2 : i64} {{.*}} -> tensor<2x2xf32>
  // CHECK: %[[BOTH:.*]] = xf.add
  // CHECK-NEXT: xf.linear %[[BOTH]], %[[N]] {contract = 1 : i64, inputs_first} {{.*}} -> tensor<2x3x4xf32>
  // CHECK: %[[NEXT:.*]] = xf.add
  // CHECK-NEXT: xf.linear %[[NEXT]], %[[NEXT]] {contract = 2 : i64} {{.*}} -> tensor<2x2xf32>
  // CHECK-NOT: contract = 2
  %y = xf.orthogonalize %x {rows = 1 : i64, steps = 2 : i64, a = 4.0 : f64,
      b = -2.0 : f64, c = 3.0 : f64, eps = 1.0e-7 : f64}
      : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}
