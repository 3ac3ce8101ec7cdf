// RUN: cleave-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @same_type(
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK-NEXT: return %[[X]]
func.func @same_type(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = xf.cast %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// A rounding stays.
// CHECK-LABEL: func.func @round(
// CHECK-NEXT: xf.cast
// CHECK-NEXT: xf.cast
func.func @round(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = xf.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = xf.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @sum_of_one(
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK-NEXT: return %[[X]]
func.func @sum_of_one(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = xf.add %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// A sum of one that rounds stays.
// CHECK-LABEL: func.func @rounding_sum_of_one(
// CHECK-NEXT: xf.add
func.func @rounding_sum_of_one(%x: tensor<8xf32>) -> tensor<8xbf16> {
  %0 = xf.add %x : (tensor<8xf32>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

// What reads or writes state, or says something, stays; what nobody reads goes.
// CHECK: xf.state @w
xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
// CHECK-LABEL: func.func @effects(
// CHECK-NEXT: %[[W:.*]] = xf.get
// CHECK-NEXT: xf.set @w, %[[W]]
// CHECK-NEXT: xf.output
// CHECK-NEXT: return
func.func @effects() {
  %w = xf.get @w : tensor<8xf32>
  %0 = xf.scale %w {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = xf.get @w : tensor<8xf32>
  xf.set @w, %w : tensor<8xf32>
  xf.output "w", %w : tensor<8xf32>
  return
}
