// RUN: cleave-opt %s --cleave-lower-to-exec | FileCheck %s

// What a state held before the step is copied to be shown after it; an update
// that does not read the state it writes is not done in place.

// CHECK: exec.program
// CHECK-DAG: %[[W:.*]] = exec.buffer "parameters" 32 pinned of @w
// CHECK-DAG: %[[X:.*]] = exec.buffer "parameters" 32 pinned of @x
// CHECK: %[[SHOWN:.*]] = exec.buffer "outputs" 32 pinned
// CHECK: exec.output "before" %[[SHOWN]]
// CHECK: exec.segment @before
// CHECK: exec.copy(%[[W]]) -> (%[[SHOWN]])
// CHECK: exec.launch({{.*}}) -> (%[[NEW:[0-9]+]], {{.*}} {kernel = @adamw
// CHECK: exec.segment @update updates
// CHECK: exec.copy(%[[NEW]]) -> (%[[X]])
// CHECK: exec.run @before 0 first
// CHECK-NEXT: exec.run @update 0 first
!t = tensor<8xf32>
xf.state @w parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @x parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<8xi32>, %targets: tensor<8xi32>) {
  %w = xf.get @w : !t
  xf.output "before", %w : !t
  %s = xf.schedule {kind = 1 : i32, lr = 2.0e-3 : f64, min_lr = 2.0e-4 : f64,
      warmup_steps = 5 : i64, decay_steps = 20 : i64, stable_steps = 0 : i64,
      beta1 = 0.9 : f64, beta2 = 0.95 : f64} : tensor<5xf32>
  %clip = xf.count_tokens %ids : (tensor<8xi32>) -> tensor<f32>
  %w1, %m1, %v1 = xf.adamw %w, %w, %w, %w, %clip, %s
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (!t, !t, !t, !t, tensor<f32>, tensor<5xf32>) -> (!t, !t, !t)
  xf.set @x, %w1 : !t
  return
}
