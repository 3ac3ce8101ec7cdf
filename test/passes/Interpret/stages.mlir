// A step in two pipeline stages computes what the whole step does: a value goes
// forward, a gradient comes back, and a table that both stages have is updated
// by the gradients of both. So do their programs, in another order.

// RUN: split-file %s %t
// RUN: cat %t/mesh.mlir %t/step.mlir > %t/before.mlir
// RUN: cat %t/mesh.mlir %t/stages.mlir > %t/after.mlir
// RUN: cat %t/mesh.mlir %t/programs.mlir > %t/last.mlir
// RUN: cleave-translate --interpret-step --steps=2 --against=%t/before.mlir \
// RUN:   %t/after.mlir
// RUN: cleave-translate --interpret-step --steps=2 --against=%t/after.mlir \
// RUN:   %t/last.mlir
// RUN: cleave-translate --interpret-step --steps=2 %t/before.mlir \
// RUN:   | FileCheck %s
// RUN: cleave-translate --interpret-step --steps=2 %t/after.mlir | FileCheck %s
// RUN: cleave-translate --interpret-step --steps=2 %t/last.mlir | FileCheck %s

// CHECK: output{{[[:space:]]}}table{{[[:space:]]}}[8x4]{{[[:space:]]}}-12.836
// CHECK-NEXT: output{{[[:space:]]}}weight{{[[:space:]]}}[4x4]{{[[:space:]]}}0.7043
// What no stage uses is as it was.
// CHECK-NEXT: state{{[[:space:]]}}rest{{[[:space:]]}}[]{{[[:space:]]}}-0.568323895677
// CHECK-NEXT: state{{[[:space:]]}}t{{[[:space:]]}}[8x4]{{[[:space:]]}}-12.836
// CHECK-NEXT: state{{[[:space:]]}}w{{[[:space:]]}}[4x4]{{[[:space:]]}}0.7043

//--- mesh.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
xf.state @t parameter : tensor<8x4xf32, #dist.on<@mesh, [{}, {}]>> {
  dims = ["vocab", "hidden"],
  init = #xf.init<zeros, 0.0 : f64>}
xf.state @w parameter : tensor<4x4xf32, #dist.on<@mesh, [{}, {}]>> {
  init = #xf.init<zeros, 0.0 : f64>}
xf.state @rest parameter : tensor<f32, #dist.on<@mesh, []>> {
  init = #xf.init<zeros, 0.0 : f64>}

!tokens = tensor<3x2x2xi32, #dist.on<@mesh, [{}, {dp}, {}]>>
!ids = tensor<3x1x2xi32>
!i = tensor<1x2xi32>
!x = tensor<1x2x4xf32>
!t = tensor<8x4xf32>
!w = tensor<4x4xf32>

//--- step.mlir
func.func @step(%ids: !ids {dist.global = !tokens},
                %targets: !ids {dist.global = !tokens}) {
  %t = xf.get @t : !t
  %w = xf.get @w : !w
  %sums:3 = xf.accumulate 3 (%ids, %targets) : (!ids, !ids) -> (!t, !t, !w) {
  ^bb0(%i: !i, %y: !i):
    %x = xf.embedding %i, %t : (!i, !t) -> !x
    %h = xf.linear %x, %w {contract = 1 : i64} : (!x, !w) -> !x
    %dx = xf.linear %h, %w {contract = 1 : i64, inputs_first} : (!x, !w) -> !x
    %dt = xf.embedding_grad %i, %dx : (!i, !x) -> !t
    %tied = xf.embedding_grad %y, %h : (!i, !x) -> !t
    %dw = xf.linear_weight_grad %x, %h {leading = 2 : i64} : (!x, !x) -> !w
    xf.yield %dt, %tied, %dw : !t, !t, !w
  }
  %both = xf.add %sums#0, %sums#1 : (!t, !t) -> !t
  %gt = dist.all_reduce %both axes ["dp"] : !t to !t
  %gw = dist.all_reduce %sums#2 axes ["dp"] : !w to !w
  xf.output "table", %gt : !t
  xf.output "weight", %gw : !w
  xf.set @t, %gt : !t
  xf.set @w, %gw : !w
  return
}

//--- stages.mlir
func.func @stage_0(%ids: !ids {dist.global = !tokens},
                   %targets: !ids {dist.global = !tokens}) {
  %t = xf.get @t : !t
  %sum = xf.accumulate 3 (%ids) : (!ids) -> !t
      segments ["forward", "backward"]
      order [0, 0, 0, 1, 1, 0, 0, 2, 1, 1, 1, 2] {
  ^bb0(%i: !i):
    %x = xf.embedding %i, %t {xf.segment = 0 : i64} : (!i, !t) -> !x
    dist.send %x to 1 channel 0 {xf.segment = 0 : i64} : !x
    %dx = dist.recv from 1 channel 1 {xf.segment = 1 : i64} : !x
    %dt = xf.embedding_grad %i, %dx {xf.segment = 1 : i64} : (!i, !x) -> !t
    xf.yield %dt : !t
  }
  %gt = dist.all_reduce %sum axes ["pp", "dp"] : !t to !t
  xf.output "table", %gt : !t
  xf.set @t, %gt : !t
  return
}
func.func @stage_1(%ids: !ids {dist.global = !tokens},
                   %targets: !ids {dist.global = !tokens}) {
  %w = xf.get @w : !w
  %sums:2 = xf.accumulate 3 (%targets) : (!ids) -> (!t, !w) {
  ^bb0(%y: !i):
    %x = dist.recv from 0 channel 0 : !x
    %h = xf.linear %x, %w {contract = 1 : i64} : (!x, !w) -> !x
    %dx = xf.linear %h, %w {contract = 1 : i64, inputs_first} : (!x, !w) -> !x
    dist.send %dx to 0 channel 1 : !x
    %tied = xf.embedding_grad %y, %h : (!i, !x) -> !t
    %dw = xf.linear_weight_grad %x, %h {leading = 2 : i64} : (!x, !x) -> !w
    xf.yield %tied, %dw : !t, !w
  }
  %gw = dist.all_reduce %sums#1 axes ["dp"] : !w to !w
  %gt = dist.all_reduce %sums#0 axes ["pp", "dp"] : !t to !t
  xf.output "table", %gt : !t
  xf.output "weight", %gw : !w
  xf.set @t, %gt : !t
  xf.set @w, %gw : !w
  return
}

//--- programs.mlir
exec.program @stage_0 threads 1 {
  %t = exec.buffer "parameters" 128 of @t : !exec.buffer
  %ids = exec.buffer "data" 24 {data = "ids", global = !tokens} : !exec.buffer
  %x = exec.buffer "activations" 32 : !exec.buffer
  %dx = exec.buffer "activations" 32 : !exec.buffer
  %gt = exec.buffer "gradients" 128 : !exec.buffer
  exec.output "table" %gt : tensor<8x4xf32, #dist.on<@mesh, [{}, {}]>>
  exec.segment @forward {
    %i = exec.view %ids 8 places 3 : !exec.buffer
    exec.embedding(%i, %t) -> (%x) {rows = 2 : i64, width = 4 : i64,
        table_rows = 8 : i64, type_table = f32, type_out = f32}
    exec.send(%x) -> () {stage = 1 : i64, channel = 0 : i64}
  }
  exec.segment @backward {
    %i = exec.view %ids 8 places 3 : !exec.buffer
    exec.recv() -> (%dx) {stage = 1 : i64, channel = 1 : i64}
    exec.embedding_grad(%i, %dx) -> (%gt) {rows = 2 : i64, width = 4 : i64,
        table_rows = 8 : i64, type_dout = f32, type_dtable = f32,
        accumulate = #exec<accumulate after_first>}
  }
  exec.segment @update updates {
    exec.all_reduce(%gt) -> (%gt) {elements = 32 : i64, type = f32,
        reduction = #exec<reduction sum>, axes = ["pp", "dp"]}
    exec.copy(%gt) -> (%t)
  }
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @backward 0 first
  exec.run @forward 2
  exec.run @backward 1
  exec.run @backward 2
  exec.run @update 0 first
}
exec.program @stage_1 threads 1 {
  %t = exec.buffer "parameters" 128 of @t : !exec.buffer
  %w = exec.buffer "parameters" 64 of @w : !exec.buffer
  %targets = exec.buffer "data" 24 {data = "targets", global = !tokens} : !exec.buffer
  %x = exec.buffer "activations" 32 : !exec.buffer
  %h = exec.buffer "activations" 32 : !exec.buffer
  %dx = exec.buffer "activations" 32 : !exec.buffer
  %gt = exec.buffer "gradients" 128 : !exec.buffer
  %gw = exec.buffer "gradients" 64 : !exec.buffer
  exec.output "table" %gt : tensor<8x4xf32, #dist.on<@mesh, [{}, {}]>>
  exec.output "weight" %gw : tensor<4x4xf32, #dist.on<@mesh, [{}, {}]>>
  exec.segment @forward {
    exec.recv() -> (%x) {stage = 0 : i64, channel = 0 : i64}
    exec.gemm(%x, %w) -> (%h) {m = 2 : i64, n = 4 : i64, k = 4 : i64,
        trans_a = false, trans_b = true, type_a = f32, type_b = f32,
        type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.segment @backward {
    %y = exec.view %targets 8 places 3 : !exec.buffer
    exec.gemm(%h, %w) -> (%dx) {m = 2 : i64, n = 4 : i64, k = 4 : i64,
        trans_a = false, trans_b = false, type_a = f32, type_b = f32,
        type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.send(%dx) -> () {stage = 0 : i64, channel = 1 : i64}
    exec.embedding_grad(%y, %h) -> (%gt) {rows = 2 : i64, width = 4 : i64,
        table_rows = 8 : i64, type_dout = f32, type_dtable = f32,
        accumulate = #exec<accumulate after_first>}
    exec.gemm(%h, %x) -> (%gw) {m = 4 : i64, n = 4 : i64, k = 2 : i64,
        trans_a = true, trans_b = false, type_a = f32, type_b = f32,
        type_c = f32, accumulate = #exec<accumulate after_first>, has_bias = false}
  }
  exec.segment @update updates {
    exec.all_reduce(%gw) -> (%gw) {elements = 16 : i64, type = f32,
        reduction = #exec<reduction sum>, axes = ["dp"]}
    exec.all_reduce(%gt) -> (%gt) {elements = 32 : i64, type = f32,
        reduction = #exec<reduction sum>, axes = ["pp", "dp"]}
    exec.copy(%gt) -> (%t)
    exec.copy(%gw) -> (%w)
  }
  exec.run @forward 0 first
  exec.run @backward 0 first
  exec.run @forward 1
  exec.run @backward 1
  exec.run @forward 2
  exec.run @backward 2
  exec.run @update 0 first
}
