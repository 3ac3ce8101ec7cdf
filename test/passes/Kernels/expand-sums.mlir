// A kernel adds no more tensors than its launch can hand over: the first ones are
// added before the others, so that the order is that of one sum.
//
// RUN: cleave-opt %s --cleave-expand-composites=most-addends=3 | FileCheck %s
// RUN: not cleave-opt %s --cleave-expand-composites=most-addends=1 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FEW

// FEW: error: expects most-addends to be at least 2

// CHECK-LABEL: func @six
// CHECK-SAME: (%[[A:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<2xf32>, %[[C:.*]]: tensor<2xf32>, %[[D:.*]]: tensor<2xf32>)
// CHECK-NEXT: %[[FIRST:.*]] = xf.add %[[A]], %[[B]], %[[C]] :
// CHECK-NEXT: %[[SECOND:.*]] = xf.add %[[FIRST]], %[[D]], %[[A]] :
// CHECK-NEXT: %[[ALL:.*]] = xf.add %[[SECOND]], %[[B]] :
// CHECK-NEXT: return %[[ALL]]
func.func @six(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>, %d: tensor<2xf32>) -> tensor<2xf32> {
  %s = xf.add %a, %b, %c, %d, %a, %b : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %s : tensor<2xf32>
}

// CHECK-LABEL: func @three
// CHECK-NEXT: xf.add %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-NEXT: return
func.func @three(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {
  %s = xf.add %a, %b, %c : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %s : tensor<2xf32>
}
