// RUN: cleave-opt %s --allow-unregistered-dialect --cleave-verify-placements \
// RUN:   -split-input-file -verify-diagnostics

// expected-error@below {{expects one dist.mesh}}
module {}

// -----

// expected-error@below {{expects one dist.mesh}}
module {
  dist.mesh @a [#dist.axis<"x" = 2>]
  dist.mesh @b [#dist.axis<"x" = 2>]
}

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{'func.func' op expects a placement on 'tensor<8xf32>'}}
func.func @f(%a: tensor<8xf32>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{expects a placement on 'tensor<8xf32>'}}
xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{expects the mesh @mesh, got @other}}
func.func @f(%a: tensor<8xf32, #dist.on<@other, [{}]>>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{expects axes of ["x"=2], got "y"}}
func.func @f(%a: tensor<8xf32, #dist.on<@mesh, [{y}]>>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{expects axes of ["x"=2], got "y"}}
func.func @f(%a: tensor<8xf32, #dist.on<@mesh, [{}], partial = {y}>>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 4>]
// expected-error@below {{expects dim 0 (size 10) to be divisible by axis "x" (size 4)}}
func.func @f(%a: tensor<10xf32, #dist.on<@mesh, [{x}]>>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 4>]
// expected-error@below {{expects}}
func.func @f(%a: tensor<8x8xf32, #dist.on<@mesh, [{x}]>>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
!t = tensor<8xf32, #dist.on<@mesh, [{}]>>
func.func @f(%a: !t) {
  // expected-error@below {{'example.op' op has no sharding rule}}
  %0 = "example.op"(%a) : (!t) -> !t
  return
}

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
!t = tensor<8xf32, #dist.on<@mesh, [{x}]>>
func.func @f(%a: !t) {
  // expected-error@below {{'example.op' op has no sharding rule, and not all of it is replicated, as dist.replicate says}}
  %0 = "example.op"(%a) {dist.replicate} : (!t) -> !t
  return
}

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{expects state that is not partial}}
xf.state @w parameter : tensor<8xf32, #dist.on<@mesh, [{}], partial = {x}>> {
  init = #xf.init<zeros, 0.0 : f64>}

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
func.func @f() {
  // expected-error@below {{factor "q" cannot be split by {x}: scalars of the step}}
  %s = xf.schedule {kind = 1 : i32, lr = 2.0e-3 : f64, min_lr = 2.0e-4 : f64,
      warmup_steps = 5 : i64, decay_steps = 20 : i64, stable_steps = 0 : i64,
      beta1 = 0.9 : f64, beta2 = 0.95 : f64}
      : tensor<5xf32, #dist.on<@mesh, [{x}]>>
  return
}

// -----

// Four query heads on two ranks, and both key heads on each: the first rank's
// queries both read the first key head, but would find the first two.
dist.mesh @mesh [#dist.axis<"x" = 2>]
!q = tensor<8x16x4x4xf32, #dist.on<@mesh, [{}, {}, {x}, {}]>>
!k = tensor<8x16x2x4xf32, #dist.on<@mesh, [{}, {}, {}, {}]>>
!lse = tensor<8x4x16xf32, #dist.on<@mesh, [{}, {x}, {}]>>
func.func @whole_keys(%q: !q, %k: !k) -> !q {
  // expected-error@below {{expects factor "k" (size 2) to be split down to 1}}
  %o, %lse = xf.attention %q, %k, %k {scale = 0.5 : f64}
      : (!q, !k, !k) -> (!q, !lse)
  return %o : !q
}
