// RUN: cleave-opt %s --cleave-lower-to-exec -split-input-file -verify-diagnostics

// The old value of a state is gone once the new one has its place.

xf.state @a parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
xf.state @b parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step() {
  %a = xf.get @a : tensor<8xf32>
  %b = xf.get @b : tensor<8xf32>
  // expected-note@below {{new value written here}}
  xf.set @a, %b : tensor<8xf32>
  // expected-error@below {{'xf.set' op reads @a as it was before its new value, which has taken its place}}
  xf.set @b, %a : tensor<8xf32>
  return
}

// -----

!t = tensor<8xf32>
xf.state @w parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @m moment1 : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @v moment2 : !t {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%g: !t, %clip: tensor<f32>) {
  %w = xf.get @w : !t
  %m = xf.get @m : !t
  %v = xf.get @v : !t
  %s = xf.schedule {kind = 1 : i32, lr = 2.0e-3 : f64, min_lr = 2.0e-4 : f64,
      warmup_steps = 5 : i64, decay_steps = 20 : i64, stable_steps = 0 : i64,
      beta1 = 0.9 : f64, beta2 = 0.95 : f64} : tensor<5xf32>
  // expected-note@below {{new value written here}}
  %w1, %m1, %v1 = xf.adamw %w, %m, %v, %g, %clip, %s
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (!t, !t, !t, !t, tensor<f32>, tensor<5xf32>) -> (!t, !t, !t)
  // expected-error@below {{'xf.square_sum' op reads @w as it was before its new value, which has taken its place}}
  %n = xf.square_sum %w : (!t) -> tensor<f32>
  xf.set @w, %w1 : !t
  xf.set @m, %m1 : !t
  xf.set @v, %v1 : !t
  return
}

// -----

xf.state @a parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step() {
  %a = xf.get @a : tensor<8xf32>
  // expected-note@below {{set first here}}
  xf.set @a, %a : tensor<8xf32>
  // expected-error@below {{'xf.set' op sets @a a second time}}
  xf.set @a, %a : tensor<8xf32>
  return
}

// -----

!t = tensor<8xf32, #dist.on<@mesh, [{tp}]>>
dist.mesh @mesh [#dist.axis<"tp" = 4>]
// expected-error@below {{'func.func' op expects the types of one rank, got 'tensor<8xf32, #dist.on<@mesh, [{tp}]>>'}}
func.func @step(%0: !t) { return }

// -----

// expected-error @+1 {{expects tensors of ids and targets, got 'index'}}
func.func @step(%ids: index) {
  return
}
