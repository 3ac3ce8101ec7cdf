// RUN: cleave-translate --interpret-step --steps=2 %s | FileCheck %s

// After every stage the step computes the same.
// RUN: cleave-opt %s --check-meaning --cleave-place-tensors \
// RUN:   --cleave-insert-collectives --cleave-localize --cleave-lower-to-exec \
// RUN:   --cleave-plan-memory -o %t
// RUN: cleave-translate --interpret-step --steps=2 %t | FileCheck %s
// RUN: cleave-translate --interpret-step --steps=2 --against=%s %t \
// RUN:   | FileCheck %s --check-prefix=SAME --allow-empty
// RUN: not cleave-translate --interpret-step --steps=0 %s 2>&1 \
// RUN:   | FileCheck %s --check-prefix=STEPS

// SAME-NOT: {{.}}
// STEPS: error: --steps 0: expects at least 1

// Of the four random targets one is ignored.
// CHECK: output{{[[:space:]]}}tokens{{[[:space:]]}}[]{{[[:space:]]}}3
// CHECK-NEXT: state{{[[:space:]]}}share{{[[:space:]]}}[]{{[[:space:]]}}0.333333333333
// CHECK-NEXT: state{{[[:space:]]}}w{{[[:space:]]}}[3x2x2]{{[[:space:]]}}{{(-?0 )+}}...
xf.state @share parameter : tensor<f32> {init = #xf.init<zeros, 0.0 : f64>}
xf.state @w parameter : tensor<3x2x2xf32> {init = #xf.init<zeros, 0.0 : f64>}

func.func @step(%ids: tensor<1x2x2xi32>, %targets: tensor<1x2x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2x2xi32>) -> tensor<f32>
  xf.output "tokens", %n : tensor<f32>
  %share = xf.reciprocal %n : (tensor<f32>) -> tensor<f32>
  xf.set @share, %share : tensor<f32>
  %w = xf.get @w : tensor<3x2x2xf32>
  %x = xf.scale %w {factor = 0.0 : f64} : (tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
  xf.set @w, %x : tensor<3x2x2xf32>
  return
}
