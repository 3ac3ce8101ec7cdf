// RUN: cleave-opt %s --allow-unregistered-dialect --cleave-place-tensors -split-input-file -verify-diagnostics
// RUN: not cleave-opt %s --allow-unregistered-dialect -split-input-file --cleave-place-tensors=plan=%t.missing.json 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MISSING
// RUN: echo '{"version": 2, "mesh": [], "micro_batches": 1,' > %t.json
// RUN: echo '"dims": {"channels": []}}' >> %t.json
// RUN: not cleave-opt %s --allow-unregistered-dialect -split-input-file --cleave-place-tensors=plan=%t.json 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KEY

// MISSING: missing.json: {{.*}}o such file
// KEY: .json: unknown key "dims.channels"; legal keys are batch, sequence

// expected-error@below {{expects a function named "step"}}
module {}

// -----

func.func @step(%x: tensor<2x4x8xf32>) {
  // expected-error@below {{'example.op' op has no sharding rule}}
  %0 = "example.op"(%x) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return
}
