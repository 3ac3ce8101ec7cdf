// RUN: not cleave-opt %s --cleave-build-step=optimizer=adam 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not cleave-opt %s --cleave-build-step=schedule=step 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not cleave-opt %s --cleave-build-step=moments=f16 2>&1 | FileCheck %s --check-prefix=MOMENTS

// NAME: error: unknown optimizer "adam"; legal are adamw, sgd, lion, muon
// SCHEDULE: error: unknown schedule "step"; legal are constant, cosine, linear, wsd
// MOMENTS: error: unknown type of moments "f16"; legal are f32, bf16
xf.state @embed parameter : tensor<32x16xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>}
func.func @forward(%ids: tensor<4x8xi32>, %targets: tensor<4x8xi32>)
    -> tensor<f32> {
  %e = xf.get @embed : tensor<32x16xf32>
  %x = xf.embedding %ids, %e
      : (tensor<4x8xi32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
  %loss, %lse = xf.cross_entropy %x, %targets {vocab = 16 : i64}
      : (tensor<4x8x16xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
  return %loss : tensor<f32>
}
