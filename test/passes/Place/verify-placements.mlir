// RUN: cleave-opt %s --cleave-verify-placements | FileCheck %s

// CHECK: dist.mesh
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]

!x = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {}, {}]>>
!h = tensor<8x16x32xf32, #dist.on<@mesh, [{dp}, {}, {tp}]>>
!z = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {}, {}], partial = {tp}>>
!s = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {tp}, {}]>>
!up = tensor<32x64xf32, #dist.on<@mesh, [{tp}, {}]>>
!down = tensor<64x32xf32, #dist.on<@mesh, [{}, {tp}]>>

func.func @mlp(%x: !x, %up: !up, %down: !down) -> !s {
  %h = xf.linear %x, %up {contract = 1 : i64} : (!x, !up) -> !h
  %a = xf.activation %h {kind = 3 : i32} : (!h) -> !h
  %z = xf.linear %a, %down {contract = 1 : i64} : (!h, !down) -> !z
  %y = dist.reduce_scatter %z axes ["tp"] dim 1 : !z to !s
  return %y : !s
}

!q = tensor<8x16x8x4xf32, #dist.on<@mesh, [{dp}, {}, {tp}, {}]>>
!lse = tensor<8x8x16xf32, #dist.on<@mesh, [{dp}, {tp}, {}]>>
!one = tensor<8x16x1x4xf32, #dist.on<@mesh, [{dp}, {}, {}, {}]>>

// Multi-query attention: all query heads read the one key head, which each rank
// has.
func.func @one_key_head(%q: !q, %k: !one) -> !q {
  %o, %lse = xf.attention %q, %k, %k {scale = 0.5 : f64}
      : (!q, !one, !one) -> (!q, !lse)
  return %o : !q
}
