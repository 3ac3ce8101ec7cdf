// RUN: cleave-opt %s --cleave-lower-to-exec | FileCheck %s

// An instruction keeps what the op says of the order of its sums.

// CHECK: exec.attention_grad({{.*}} fixed_order = true
// CHECK: exec.attention_grad({{.*}} fixed_order = false
!q = tensor<2x8x4x16xf32>
!l = tensor<2x4x8xf32>
xf.state @q constant : !q {init = #xf.init<zeros, 0.0 : f64>}
xf.state @l constant : !l {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<8xi32>, %targets: tensor<8xi32>) {
  %q = xf.get @q : !q
  %l = xf.get @l : !l
  %a, %b, %c = xf.attention_grad %q, %q, %q, %q, %l, %q {fixed_order, scale = 0.25 : f64}
      : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  %d, %e, %f = xf.attention_grad %a, %b, %c, %q, %l, %q {scale = 0.25 : f64}
      : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  xf.output "dq", %d : !q
  return
}
