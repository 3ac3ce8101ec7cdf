// RUN: cleave-opt %s --cleave-build-step="optimizer=muon lr=0.5 weight-decay=0.25 beta2=0.75 momentum=0.5" \
// RUN:   | FileCheck %s
// RUN: cleave-opt %s --check-meaning --cleave-build-step="optimizer=muon" \
// RUN:   --cleave-verify-step -o /dev/null

// A matrix between hidden vectors of two dims of rows gets one moment and an
// orthogonal direction, the table of a vocabulary two moments and AdamW.

// CHECK-DAG: xf.state @"table/moment1" moment1 : tensor<8x4xf32>
// CHECK-DAG: xf.state @"table/moment2" moment2 : tensor<8x4xf32>
// CHECK-DAG: xf.state @"up/muon" moment1 : tensor<2x3x4xf32> {dims = ["heads", "head_dim", "hidden"]
// CHECK-NOT: xf.state
xf.state @table parameter : tensor<8x4xf32> {init = #xf.init<normal, 1.0 : f64>, dims = ["vocab", "hidden"], decay}
xf.state @up parameter : tensor<2x3x4xf32> {init = #xf.init<normal, 1.0 : f64>, dims = ["heads", "head_dim", "hidden"], decay, rows = 2 : i64}

// CHECK: %[[TABLE:.*]] = xf.get @table
// CHECK: %[[UP:.*]] = xf.get @up
// CHECK: %[[SUMS:.*]]:3 = xf.accumulate
func.func @forward(%ids: tensor<1x3xi32>, %targets: tensor<1x3xi32>) -> tensor<f32> {
  %t = xf.get @table : tensor<8x4xf32>
  %u = xf.get @up : tensor<2x3x4xf32>
  %x = xf.embedding %ids, %t : (tensor<1x3xi32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
  %y = xf.linear %x, %u {contract = 1 : i64} : (tensor<1x3x4xf32>, tensor<2x3x4xf32>) -> tensor<1x3x2x3xf32>
  %z = xf.linear %y, %u {contract = 2 : i64, inputs_first} : (tensor<1x3x2x3xf32>, tensor<2x3x4xf32>) -> tensor<1x3x4xf32>
  %l = xf.linear %z, %t {contract = 1 : i64} : (tensor<1x3x4xf32>, tensor<8x4xf32>) -> tensor<1x3x8xf32>
  %loss, %lse = xf.cross_entropy %l, %targets {vocab = 8 : i64} : (tensor<1x3x8xf32>, tensor<1x3xi32>) -> (tensor<f32>, tensor<1x3xf32>)
  return %loss : tensor<f32>
}

// The bias corrections are AdamW's.
// CHECK: %[[RATES:.*]] = xf.schedule {beta1 = 9.000000e-01 : f64, beta2 = 7.500000e-01
// CHECK: %{{.*}}, %[[FACTOR:.*]] = xf.clip_factor
// CHECK: %[[CLIP:.*]] = xf.guard %[[FACTOR]]
// CHECK: %[[M1:.*]] = xf.get @"table/moment1"
// CHECK: %[[M2:.*]] = xf.get @"table/moment2"
// CHECK: xf.adamw %[[TABLE]], %[[M1]], %[[M2]], %[[SUMS]]#1, %[[CLIP]], %[[RATES]]
// CHECK: %[[M:.*]] = xf.get @"up/muon"
// CHECK: %[[U:.*]] = xf.nesterov %[[M]], %[[SUMS]]#2, %[[CLIP]] {momentum = 5.000000e-01 : f64,
// CHECK: %[[O:.*]] = xf.orthogonalize %[[U]] {a = 3.444500e+00 : f64, b = -4.775000e+00 : f64, c = 2.031500e+00 : f64, eps = {{.*}}, rows = 2 : i64, steps = 5 : i64
// Six rows, four columns: 0.2 times the root of six.
// CHECK: %[[D:.*]] = xf.scale %[[O]] {factor = 0.48989{{[0-9]*}} : f64
// CHECK: %[[NEW:.*]], %[[NEWM:.*]] = xf.muon %[[UP]], %[[M]], %[[SUMS]]#2, %[[CLIP]], %[[RATES]], %[[D]] {decay = 2.500000e-01 : f64, momentum = 5.000000e-01 : f64,
// CHECK: xf.set @up, %[[NEW]]
// CHECK: xf.set @"up/muon", %[[NEWM]]
