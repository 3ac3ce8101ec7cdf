// RUN: cleave-opt %s --cleave-build-step="optimizer=muon moments=bf16" | FileCheck %s
// RUN: cleave-opt %s --check-meaning --cleave-build-step="optimizer=muon moments=bf16" \
// RUN:   --cleave-verify-step -o /dev/null
// RUN: cleave-opt %s --cleave-build-step="optimizer=sgd moments=bf16" | FileCheck %s --check-prefix=SGD
// RUN: cleave-opt %s --cleave-build-step="optimizer=lion moments=bf16" | FileCheck %s --check-prefix=LION
// RUN: cleave-opt %s --cleave-build-step="optimizer=muon moments=f32" -o %t.f32
// RUN: cleave-opt %s --cleave-build-step="optimizer=muon" | diff %t.f32 -

// Moments are kept in bf16; parameters, gradients and the direction are f32.

// CHECK-DAG: xf.state @"table/moment1" moment1 : tensor<8x4xbf16>
// CHECK-DAG: xf.state @"table/moment2" moment2 : tensor<8x4xbf16>
// CHECK-DAG: xf.state @"up/muon" moment1 : tensor<2x3x4xbf16>
// CHECK-DAG: xf.state @table parameter : tensor<8x4xf32>
// CHECK-DAG: xf.state @up parameter : tensor<2x3x4xf32>
xf.state @table parameter : tensor<8x4xf32> {init = #xf.init<normal, 1.0 : f64>, dims = ["vocab", "hidden"], decay}
xf.state @up parameter : tensor<2x3x4xf32> {init = #xf.init<normal, 1.0 : f64>, dims = ["heads", "head_dim", "hidden"], decay, rows = 2 : i64}

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


// CHECK: %[[M1:.*]] = xf.get @"table/moment1" {{.*}} : tensor<8x4xbf16>
// CHECK: %[[M2:.*]] = xf.get @"table/moment2" {{.*}} : tensor<8x4xbf16>
// CHECK: %[[W:.*]], %[[N1:.*]], %[[N2:.*]] = xf.adamw %{{.*}}, %[[M1]], %[[M2]], {{.*}} : (tensor<8x4xf32>, tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<8x4xf32>, tensor<8x4xbf16>, tensor<8x4xbf16>)
// CHECK: xf.set @table, %[[W]] {{.*}} : tensor<8x4xf32>
// CHECK: xf.set @"table/moment1", %[[N1]] {{.*}} : tensor<8x4xbf16>
// CHECK: xf.set @"table/moment2", %[[N2]] {{.*}} : tensor<8x4xbf16>
// CHECK: xf.nesterov {{.*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
// CHECK: xf.muon {{.*}} -> (tensor<2x3x4xf32>, tensor<2x3x4xbf16>)

// SGD: xf.sgd {{.*}} -> (tensor<8x4xf32>, tensor<8x4xbf16>)
// LION: xf.lion {{.*}} -> (tensor<8x4xf32>, tensor<8x4xbf16>)
