// RUN: cleave-opt %s --cleave-recompute="modules=output" --cleave-verify-step \
// RUN:   | FileCheck %s --check-prefix=OUTPUT
// RUN: cleave-opt %s --cleave-recompute="modules=norms" --cleave-verify-step \
// RUN:   | FileCheck %s --check-prefix=NORMS

// A residual sum of a layer's input and of what is repeated is repeated with
// it; one of what is kept is kept.

!x = tensor<2x4xf32>
!w = tensor<4xf32>
!r = tensor<2xf32>

func.func @step(%x: !x, %dy: !x, %w: !w) -> !x {
  %a = xf.activation %x {kind = 3 : i32, xf.provenance = #xf.provenance<forward, layer = 0, module = output>} : (!x) -> !x
  %s = xf.add %x, %a {xf.provenance = #xf.provenance<forward, layer = 0, module = residual>} : (!x, !x) -> !x
  %y, %r = xf.rms_norm %s, %w {eps = 0.1 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = norms>} : (!x, !w) -> (!x, !r)

  // OUTPUT: %[[Y:.*]], %[[R:.*]] = xf.rms_norm %{{.*}}<forward, layer = 0
  // OUTPUT-NEXT: %[[A:.*]] = xf.activation %arg0 {{.*}}recomputed = true
  // OUTPUT-NEXT: %[[S:.*]] = xf.add %arg0, %[[A]] {{.*}}recomputed = true
  // OUTPUT-NEXT: xf.rms_norm_grad %[[S]], %{{.*}}, %[[R]]

  // NORMS: %[[S:.*]] = xf.add %arg0
  // NORMS: xf.rms_norm %[[S]], %{{.*}}<forward, layer = 0
  // NORMS-NEXT: %{{.*}}, %[[R:.*]] = xf.rms_norm %[[S]], %{{.*}}recomputed = true
  // NORMS-NEXT: xf.rms_norm_grad %[[S]], %{{.*}}, %[[R]]
  %dx = xf.rms_norm_grad %s, %w, %r, %dy {xf.provenance = #xf.provenance<backward, layer = 0, module = norms>} : (!x, !w, !r, !x) -> !x
  return %dx : !x
}
