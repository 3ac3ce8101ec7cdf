// RUN: cleave-opt %s --cleave-verify-step -split-input-file -verify-diagnostics

// expected-error@below {{expects a function named "step"}}
module {}

// -----

// expected-error@below {{'xf.state' op expects a step to set it once, got 0 times}}
xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step() { return }

// -----

// expected-error@below {{'xf.state' op expects a step to set it once, got 2 times}}
xf.state @m moment1 : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%0: tensor<8xf32>) {
  // expected-note@below {{set here}}
  xf.set @m, %0 : tensor<8xf32>
  // expected-note@below {{set here}}
  xf.set @m, %0 : tensor<8xf32>
  return
}

// -----

// expected-error@below {{'xf.state' op expects a step to set it never, got 1 times}}
xf.state @c constant : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%0: tensor<8xf32>) {
  // expected-note@below {{set here}}
  xf.set @c, %0 : tensor<8xf32>
  return
}

// -----

xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%0: tensor<2x8xf32>) {
  xf.accumulate 2 (%0) : (tensor<2x8xf32>) -> () {
  ^bb0(%slice: tensor<8xf32>):
    // expected-error@below {{'xf.set' op expects to stand in the step itself: state is set once}}
    xf.set @w, %slice : tensor<8xf32>
  }
  return
}

// -----

xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
xf.state @m moment1 : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
xf.state @v moment2 : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%g: tensor<8xf32>, %c: tensor<f32>, %s: tensor<5xf32>) {
  %w = xf.get @w : tensor<8xf32>
  %m = xf.get @m : tensor<8xf32>
  %v = xf.get @v : tensor<8xf32>
  // expected-note@below {{updated here}}
  %w1, %m1, %v1 = xf.adamw %w, %m, %v, %g, %c, %s
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
         tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>,
         tensor<8xf32>)
  xf.set @w, %w1 : tensor<8xf32>
  // expected-error@below {{'xf.set' op expects the new value of @m, got that of @v}}
  xf.set @m, %v1 : tensor<8xf32>
  xf.set @v, %m1 : tensor<8xf32>
  return
}

// -----

xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
xf.state @m moment1 : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
xf.state @v moment2 : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%g: tensor<8xf32>, %c: tensor<f32>, %s: tensor<5xf32>) {
  // expected-note@below {{updated here}}
  %w1, %m1, %v1 = xf.adamw %g, %g, %g, %g, %c, %s
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
         tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>,
         tensor<8xf32>)
  // expected-error@below {{'xf.set' op expects the new value of @w, got that of no state}}
  xf.set @w, %w1 : tensor<8xf32>
  return
}

// -----

!q = tensor<2x8x4x16xf32>
!lse = tensor<2x4x8xf32>
func.func @step(%q: !q, %k: !q, %v: !q, %do: !q) {
  // expected-note@below {{the forward op}}
  %o, %lse = xf.attention %q, %k, %v {scale = 0.25 : f64, window = 4 : i64}
      : (!q, !q, !q) -> (!q, !lse)
  // expected-error@below {{'xf.attention_grad' op expects window 4.000000e+00 of the forward op, got 0.000000e+00}}
  %dq, %dk, %dv = xf.attention_grad %q, %k, %v, %o, %lse, %do {scale = 0.25 : f64}
      : (!q, !q, !q, !q, !lse, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x8x4x16xf32>
!lse = tensor<2x4x8xf32>
func.func @step(%q: !q, %k: !q, %v: !q, %do: !q) {
  // expected-note@below {{the forward op}}
  %o, %lse = xf.attention %q, %k, %v {scale = 0.25 : f64} : (!q, !q, !q) -> (!q, !lse)
  // expected-error@below {{'xf.attention_grad' op expects scale 2.500000e-01 of the forward op, got 5.000000e-01}}
  %dq, %dk, %dv = xf.attention_grad %q, %k, %v, %o, %lse, %do {scale = 0.5 : f64}
      : (!q, !q, !q, !q, !lse, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x8x4x16xf32>
!lse = tensor<2x4x8xf32>
func.func @step(%q: !q, %k: !q, %v: !q, %do: !q) {
  // expected-note@below {{the forward op}}
  %o, %lse = xf.attention %q, %k, %v {scale = 0.25 : f64} : (!q, !q, !q) -> (!q, !lse)
  // expected-error@below {{'xf.attention_grad' op expects the k of the forward op}}
  %dq, %dk, %dv = xf.attention_grad %q, %v, %v, %o, %lse, %do {scale = 0.25 : f64}
      : (!q, !q, !q, !q, !lse, !q) -> (!q, !q, !q)
  return
}

// -----

!x = tensor<2x8x64xf32>
!w = tensor<64xf32>
!r = tensor<2x8xf32>
func.func @step(%x: !x, %w: !w, %dy: !x) {
  // expected-note@below {{the forward op}}
  %y, %rstd = xf.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64}
      : (!x, !w) -> (!x, !r)
  // expected-error@below {{'xf.rms_norm_grad' op expects offset 1.000000e+00 of the forward op, got 0.000000e+00}}
  %dx = xf.rms_norm_grad %x, %w, %rstd, %dy : (!x, !w, !r, !x) -> !x
  return
}

// -----

!x = tensor<2x8x64xf32>
!w = tensor<64xf32>
!r = tensor<2x8xf32>
func.func @step(%x: !x, %w: !w, %dy: !x, %other: !r) {
  // expected-error@below {{'xf.rms_norm_grad' op expects the rstd of an xf.rms_norm}}
  %dx = xf.rms_norm_grad %x, %w, %other, %dy : (!x, !w, !r, !x) -> !x
  return
}

// -----

!x = tensor<2x8x64xf32>
!w = tensor<64xf32>
!r = tensor<2x8xf32>
func.func @step(%x: !x, %w: !w, %b: !w, %dy: !x) {
  %y, %mean, %rstd = xf.layer_norm %x, %w, %b {eps = 1.0e-5 : f64}
      : (!x, !w, !w) -> (!x, !r, !r)
  // expected-error@below {{'xf.norm_weight_grad' op expects the mean of the forward op}}
  %dw = xf.norm_weight_grad %x, %rstd, %dy : (!x, !r, !x) -> !w
  return
}

// -----

!x = tensor<2x64xf32>
func.func @step(%x: !x, %dy: !x) {
  %y = xf.activation %x {kind = 3 : i32} : (!x) -> !x
  // expected-error@below {{'xf.activation_grad' op expects a forward op that it is the gradient of: xf.activation of the same x, with kind relu}}
  %dx = xf.activation_grad %x, %dy {kind = 4 : i32} : (!x, !x) -> !x
  return
}

// -----

!x = tensor<2x64xf32>
func.func @step(%x: !x, %up: !x, %dy: !x) {
  %y = xf.glu %x, %up {kind = 3 : i32} : (!x, !x) -> !x
  // expected-error@below {{'xf.glu_grad' op expects a forward op that it is the gradient of: xf.glu of the same gate and up, with kind silu}}
  %dg, %du = xf.glu_grad %up, %x, %dy {kind = 3 : i32} : (!x, !x, !x) -> (!x, !x)
  return
}

// -----

!x = tensor<2x8x4x16xf32>
!t = tensor<8x8xf32>
func.func @step(%x: !x, %cos: !t, %sin: !t, %dy: !x) {
  %y = xf.rope %x, %cos, %sin {xf.provenance = #xf.provenance<forward>} : (!x, !t, !t) -> !x
  // expected-error@below {{'xf.rope' op expects a forward op that it is the gradient of: xf.rope of the same tables, inverse}}
  %dx = xf.rope %dy, %cos, %sin {xf.provenance = #xf.provenance<backward>} : (!x, !t, !t) -> !x
  return
}

// -----

!x = tensor<2x64xf32>
!w = tensor<64x64xf32>
func.func @step(%x: !x, %w: !w, %dy: !x) {
  %y = xf.linear %x, %w {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} : (!x, !w) -> !x
  // expected-error@below {{'xf.linear' op expects a forward op that it is the gradient of: xf.linear of the same weight, with 1 output dims and inputs first in the weight}}
  %dx = xf.linear %dy, %w {contract = 1 : i64, xf.provenance = #xf.provenance<backward>} : (!x, !w) -> !x
  return
}

// -----

!x = tensor<2x64xf32>
!w = tensor<64x64xf32>
func.func @step(%x: !x, %w: !w, %dy: !x) {
  %y = xf.linear %x, %w {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} : (!x, !w) -> !x
  // expected-error@below {{'xf.linear_weight_grad' op expects a forward op that it is the gradient of: xf.linear of the same x, with 1 dims that are not contracted and inputs first in the weight}}
  %dw = xf.linear_weight_grad %x, %dy {leading = 1 : i64, inputs_first, xf.provenance = #xf.provenance<backward>} : (!x, !x) -> !w
  return
}

// -----

!x = tensor<8xf32>
func.func @step(%x: !x, %dy: !x) {
  %y = xf.scale %x {factor = 8.0 : f64, xf.provenance = #xf.provenance<forward>} : (!x) -> !x
  // expected-error@below {{'xf.scale' op expects a forward op that it is the gradient of: xf.scale by 4}}
  %dx = xf.scale %dy {factor = 4.0 : f64, xf.provenance = #xf.provenance<backward>} : (!x) -> !x
  return
}

// -----

func.func @step(%t: tensor<16x4xf32>, %dy: tensor<8x4xf32>) {
  %p = xf.slice_rows %t {start = 2 : i64} : (tensor<16x4xf32>) -> tensor<8x4xf32>
  // expected-error@below {{'xf.pad_rows' op expects a forward op that it is the gradient of: xf.slice_rows of the same rows, from 3 on}}
  %dt = xf.pad_rows %dy {start = 3 : i64} : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

!ids = tensor<2x8xi32>
!t = tensor<16x4xf32>
!x = tensor<2x8x4xf32>
func.func @step(%ids: !ids, %t: !t, %dy: !x) {
  %y = xf.embedding %ids, %t {padding = 1 : i64} : (!ids, !t) -> !x
  // expected-error@below {{'xf.embedding_grad' op expects a forward op that it is the gradient of: xf.embedding of the same ids, with no padding}}
  %dt = xf.embedding_grad %ids, %dy : (!ids, !x) -> !t
  return
}

// -----

!ids = tensor<2x8xi32>
!l = tensor<2x8x104xf32>
!r = tensor<2x8xf32>
func.func @step(%x: !l, %targets: !ids, %d: tensor<f32>) {
  // expected-note@below {{the forward op}}
  %loss, %lse = xf.cross_entropy %x, %targets {vocab = 100 : i64}
      : (!l, !ids) -> (tensor<f32>, !r)
  // expected-error@below {{'xf.cross_entropy_grad' op expects vocab 1.000000e+02 of the forward op, got 1.040000e+02}}
  %dx = xf.cross_entropy_grad %x, %lse, %targets, %d {vocab = 104 : i64}
      : (!l, !r, !ids, tensor<f32>) -> !l
  return
}

// -----

!ids = tensor<2x8xi32>
!l = tensor<2x8x104xf32>
!w = tensor<104x64xf32>
// expected-note@below {{the head's weight}}
xf.state @head constant : !w {init = #xf.init<zeros, 0.0 : f64>,
  logical = array<i64: 100, 64>}
func.func @step(%h: tensor<2x8x64xf32>, %targets: !ids) {
  %w = xf.get @head : !w
  %x = xf.linear %h, %w {contract = 1 : i64} : (tensor<2x8x64xf32>, !w) -> !l
  // expected-error@below {{'xf.cross_entropy' op expects vocab 100, the rows of its head without padding, got 104}}
  %loss, %lse = xf.cross_entropy %x, %targets {vocab = 104 : i64}
      : (!l, !ids) -> (tensor<f32>, tensor<2x8xf32>)
  return
}
