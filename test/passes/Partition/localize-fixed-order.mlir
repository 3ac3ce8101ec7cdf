// RUN: cleave-opt %s --split-input-file --cleave-localize | FileCheck %s

// Where ranks compute a gradient on the same values, its sums have a fixed order.

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]

!q_dp = tensor<8x16x8x4xbf16, #dist.on<@mesh, [{dp}, {}, {}, {}]>>
!l_dp = tensor<8x8x16xf32, #dist.on<@mesh, [{dp}, {}, {}]>>

// Ranks that differ along tp have the same samples and heads.
// CHECK-LABEL: func.func @copies_along_tp(
// CHECK: xf.attention_grad {{.*}} {fixed_order, scale = 2.500000e-01 : f64}
func.func @copies_along_tp(%q: !q_dp, %l: !l_dp) {
  %dq, %dk, %dv = xf.attention_grad %q, %q, %q, %q, %l, %q {scale = 0.25 : f64}
      : (!q_dp, !q_dp, !q_dp, !q_dp, !l_dp, !q_dp) -> (!q_dp, !q_dp, !q_dp)
  return
}

!q_tp = tensor<8x16x8x4xbf16, #dist.on<@mesh, [{}, {}, {tp}, {}]>>
!l_tp = tensor<8x8x16xf32, #dist.on<@mesh, [{}, {tp}, {}]>>

// Ranks that differ along dp have.
// CHECK-LABEL: func.func @copies_along_dp(
// CHECK: xf.attention_grad {{.*}} {fixed_order, scale = 2.500000e-01 : f64}
func.func @copies_along_dp(%q: !q_tp, %l: !l_tp) {
  %dq, %dk, %dv = xf.attention_grad %q, %q, %q, %q, %l, %q {scale = 0.25 : f64}
      : (!q_tp, !q_tp, !q_tp, !q_tp, !l_tp, !q_tp) -> (!q_tp, !q_tp, !q_tp)
  return
}

!q = tensor<8x16x8x4xbf16, #dist.on<@mesh, [{dp}, {}, {tp}, {}]>>
!l = tensor<8x8x16xf32, #dist.on<@mesh, [{dp}, {tp}, {}]>>

// Each rank has samples and heads of its own.
// CHECK-LABEL: func.func @samples_and_heads(
// CHECK: xf.attention_grad {{.*}} {scale = 2.500000e-01 : f64}
func.func @samples_and_heads(%q: !q, %l: !l) {
  %dq, %dk, %dv = xf.attention_grad %q, %q, %q, %q, %l, %q {scale = 0.25 : f64}
      : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return
}

!kv = tensor<8x16x1x4xbf16, #dist.on<@mesh, [{dp}, {}, {}, {}]>>
!dkv = tensor<8x16x1x4xbf16, #dist.on<@mesh, [{dp}, {}, {}, {}], partial = {tp}>>

// Keys are copies, queries are not: what a rank adds to dk is its own.
// CHECK-LABEL: func.func @one_key_head(
// CHECK: xf.attention_grad {{.*}} {scale = 2.500000e-01 : f64}
func.func @one_key_head(%q: !q, %k: !kv, %l: !l) {
  %dq, %dk, %dv = xf.attention_grad %q, %k, %k, %q, %l, %q {scale = 0.25 : f64}
      : (!q, !kv, !kv, !q, !l, !q) -> (!q, !dkv, !dkv)
  return
}

!micro_batches = tensor<2x8x16x8x4xbf16, #dist.on<@mesh, [{}, {dp}, {}, {}, {}]>>
!sum = tensor<f32, #dist.on<@mesh, [], partial = {dp}>>

// In each micro-batch.
// CHECK-LABEL: func.func @micro_batches(
// CHECK: xf.accumulate
// CHECK: xf.attention_grad {{.*}} {fixed_order, scale = 2.500000e-01 : f64}
func.func @micro_batches(%q: !micro_batches, %l: !l_dp) {
  %sum = xf.accumulate 2 (%q) : (!micro_batches) -> !sum {
  ^bb0(%slice: !q_dp):
    %dq, %dk, %dv = xf.attention_grad %slice, %slice, %slice, %slice, %l, %slice
        {scale = 0.25 : f64}
        : (!q_dp, !q_dp, !q_dp, !q_dp, !l_dp, !q_dp) -> (!q_dp, !q_dp, !q_dp)
    %s = xf.sum %l : (!l_dp) -> !sum
    xf.yield %s : !sum
  }
  return
}

// -----

// A single rank along an axis has nobody to agree with, and ranks along the axis
// of stages compute other layers.

dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>, #dist.axis<"tp" = 1>] stages "pp"

!q_dp = tensor<8x16x8x4xbf16, #dist.on<@mesh, [{dp}, {}, {}, {}]>>
!l_dp = tensor<8x8x16xf32, #dist.on<@mesh, [{dp}, {}, {}]>>

// CHECK-LABEL: func.func @stages(
// CHECK: xf.attention_grad {{.*}} {scale = 2.500000e-01 : f64}
func.func @stages(%q: !q_dp, %l: !l_dp) {
  %dq, %dk, %dv = xf.attention_grad %q, %q, %q, %q, %l, %q {scale = 0.25 : f64}
      : (!q_dp, !q_dp, !q_dp, !q_dp, !l_dp, !q_dp) -> (!q_dp, !q_dp, !q_dp)
  return
}
