// A plan and a step agree in the number of micro-batches.
//
// RUN: not cleave-opt %s \
// RUN:   --cleave-place-tensors=plan=%S/inputs/single.json 2>&1 | FileCheck %s
// CHECK: single.json: the plan has 2 micro-batches, the step 1: expects --cleave-build-step=micro-batches=2
func.func @step(%ids: tensor<1x4x8xi32>, %targets: tensor<1x4x8xi32>) {
  return
}
