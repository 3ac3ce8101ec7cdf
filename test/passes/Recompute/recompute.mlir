// RUN: cleave-opt %s --cleave-recompute="modules=norms" --cleave-verify-step \
// RUN:   | FileCheck %s --check-prefix=NORMS
// RUN: cleave-opt %s --cleave-recompute="modules=full" --cleave-verify-step \
// RUN:   | FileCheck %s --check-prefix=FULL
// RUN: cleave-opt %s --cleave-recompute="modules=full layers=1" \
// RUN:   | FileCheck %s --check-prefix=FIRST
// RUN: cleave-opt %s --cleave-recompute | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %s --cleave-recompute="modules=norms,head" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: unknown module "head"; legal are full, norms, qkv, attention, output, up, activation, down, residual

// Two layers: a norm, then an activation. The gradients come in reverse.

!x = tensor<2x4xf32>
!w = tensor<4xf32>
!r = tensor<2xf32>

func.func @step(%x: !x, %dy: !x, %w: !w) -> (!x, !w, !w) {
  %y0, %r0 = xf.rms_norm %x, %w {eps = 0.1 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = norms>} : (!x, !w) -> (!x, !r)
  %z0 = xf.activation %y0 {kind = 3 : i32, xf.provenance = #xf.provenance<forward, layer = 0, module = activation>} : (!x) -> !x
  %y1, %r1 = xf.rms_norm %z0, %w {eps = 0.1 : f64, xf.provenance = #xf.provenance<forward, layer = 1, module = norms>} : (!x, !w) -> (!x, !r)
  %z1 = xf.activation %y1 {kind = 3 : i32, xf.provenance = #xf.provenance<forward, layer = 1, module = activation>} : (!x) -> !x

  // NONE-NOT: recomputed
  // FIRST-NOT: layer = 1, module = norms, recomputed
  // FIRST: layer = 0, module = norms, recomputed

  // What is kept of the first layer, its output, is the second one's input.
  // NORMS: %[[Z0:.*]] = xf.activation %{{.*}}<forward, layer = 0
  // NORMS: xf.activation %{{.*}}<forward, layer = 1
  // NORMS-NEXT: %[[Y1:.*]], %[[R1:.*]] = xf.rms_norm %[[Z0]], %{{.*}}<backward, layer = 1, module = norms, recomputed = true>
  // NORMS-NEXT: %[[DY1:.*]] = xf.activation_grad %[[Y1]], %{{.*}}
  // One copy is enough for all that read it.
  // NORMS-NEXT: xf.norm_weight_grad %[[Z0]], %[[R1]], %[[DY1]]
  // NORMS-NEXT: %[[DZ0:.*]] = xf.rms_norm_grad %[[Z0]], %{{.*}}, %[[R1]], %[[DY1]]
  // NORMS-NEXT: %[[Y0:.*]], %[[R0:.*]] = xf.rms_norm %arg0, %{{.*}}<backward, layer = 0, module = norms, recomputed = true>
  // NORMS-NEXT: xf.activation_grad %[[Y0]], %[[DZ0]]
  // NORMS-NOT: recomputed

  // Nothing of the backward pass reads what an activation gives: there is
  // nothing more to repeat.
  // FULL-COUNT-2: recomputed
  // FULL-NOT: recomputed
  %dy1 = xf.activation_grad %y1, %dy {kind = 3 : i32, xf.provenance = #xf.provenance<backward, layer = 1, module = activation>} : (!x, !x) -> !x
  %dw1 = xf.norm_weight_grad %z0, %r1, %dy1 {xf.provenance = #xf.provenance<backward, layer = 1, module = norms>} : (!x, !r, !x) -> !w
  %dz0 = xf.rms_norm_grad %z0, %w, %r1, %dy1 {xf.provenance = #xf.provenance<backward, layer = 1, module = norms>} : (!x, !w, !r, !x) -> !x
  %dy0 = xf.activation_grad %y0, %dz0 {kind = 3 : i32, xf.provenance = #xf.provenance<backward, layer = 0, module = activation>} : (!x, !x) -> !x
  %dw0 = xf.norm_weight_grad %x, %r0, %dy0 {xf.provenance = #xf.provenance<backward, layer = 0, module = norms>} : (!x, !r, !x) -> !w
  %dx = xf.rms_norm_grad %x, %w, %r0, %dy0 {xf.provenance = #xf.provenance<backward, layer = 0, module = norms>} : (!x, !w, !r, !x) -> !x
  return %dx, %dw0, %dw1 : !x, !w, !w
}
