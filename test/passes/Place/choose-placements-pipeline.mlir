// Two layers on two stages of two ranks each: nothing is split along the axis of stages,
// and a rank keeps what one stage has. Of 8 x 64 x 1024 activations in f32 a rank has half.
// RUN: cleave-opt %s --cleave-choose-placements=cluster=h100-sxm:4 -o %t.mlir 2>%t.remarks
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: sed -e 's/"1f1b"/"gpipe"/' %s | cleave-opt --cleave-choose-placements=cluster=h100-sxm:4 -o /dev/null 2>&1 | FileCheck %s --check-prefix=GPIPE
// RUN: cleave-opt %t.mlir --cleave-verify-placements --cleave-insert-collectives --cleave-localize --cleave-cut-stages --cleave-verify-stages | FileCheck %s --check-prefix=CUT
// RUN: sed -e 's/pipeline = {[^}]*}, //' %t.mlir | not cleave-opt --cleave-choose-placements=cluster=h100-sxm:4 2>&1 | FileCheck %s --check-prefix=NOPLAN
// RUN: sed -e 's/ stages "pp"//' %t.mlir | not cleave-opt --cleave-choose-placements=cluster=h100-sxm:4 2>&1 | FileCheck %s --check-prefix=STAGES

// CHECK: dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
// CHECK-NOT: {pp}
// CHECK: func.func @step(%{{.*}}: tensor<4x8x64xi32, #dist.on<@mesh, [{}, {dp}, {}]>>)

// One layer's weight, moment and gradient, 12.583 MB; what the layer makes, 1.049 MB,
// of both micro-batches that the first stage has in flight; and what the embedding
// makes, once.
// REMARK: keeps 15.729 MB
// Of all four micro-batches.
// GPIPE: keeps 20.972 MB

// CUT: func.func @stage_0
// CUT: dist.send
// CUT: func.func @stage_1
// CUT: dist.recv
// STAGES: error: the dist.mesh is ["pp"=2, "dp"=2]: expects that of the dist.plan, ["pp"=2, "dp"=2], with stages along pp
// NOPLAN: error: the dist.mesh has an axis of stages: expects a dist.plan that says which layers each of them has
module attributes {dist.plan = {dims = {}, keep = {}, mesh = [{name = "pp", size = 2 : i64}, {name = "dp", size = 2 : i64}], micro_batches = 4 : i64, pipeline = {axis = "pp", layers = [1, 1], schedule = "1f1b", virtual_stages = 1 : i64}, version = 2 : i64}} {
xf.state @w0 parameter : tensor<1024x1024xf32> {dims = ["f", "h"], init = #xf.init<ones, 1.0 : f64>, dist.pin = #dist.on<@mesh, [{}, {}]>}
xf.state @m0 moment1 : tensor<1024x1024xf32> {dims = ["f", "h"], init = #xf.init<zeros, 0.0 : f64>, dist.pin = #dist.on<@mesh, [{}, {}]>}
xf.state @w1 parameter : tensor<1024x1024xf32> {dims = ["f", "h"], init = #xf.init<ones, 1.0 : f64>, dist.pin = #dist.on<@mesh, [{}, {}]>}
xf.state @m1 moment1 : tensor<1024x1024xf32> {dims = ["f", "h"], init = #xf.init<zeros, 0.0 : f64>, dist.pin = #dist.on<@mesh, [{}, {}]>}
xf.state @table parameter : tensor<512x1024xf32> {dims = ["v", "h"], init = #xf.init<ones, 1.0 : f64>}
func.func @step(%ids: tensor<4x8x64xi32> {dist.pin = #dist.on<@mesh, [{}, {dp}, {}]>}) {
  %w0 = xf.get @w0 : tensor<1024x1024xf32>
  %w1 = xf.get @w1 : tensor<1024x1024xf32>
  %t = xf.get @table : tensor<512x1024xf32>
  %g0, %g1 = xf.accumulate 4 (%ids) : (tensor<4x8x64xi32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  ^bb0(%i: tensor<8x64xi32>):
    %x = xf.embedding %i, %t {dist.pin = #dist.on<@mesh, [{dp}, {}, {}]>, xf.provenance = #xf.provenance<forward>} : (tensor<8x64xi32>, tensor<512x1024xf32>) -> tensor<8x64x1024xf32>
    %y = xf.linear %x, %w0 {dist.pin = #dist.on<@mesh, [{dp}, {}, {}]>, contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0>} : (tensor<8x64x1024xf32>, tensor<1024x1024xf32>) -> tensor<8x64x1024xf32>
    %z = xf.linear %y, %w1 {dist.pin = #dist.on<@mesh, [{dp}, {}, {}]>, contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 1>} : (tensor<8x64x1024xf32>, tensor<1024x1024xf32>) -> tensor<8x64x1024xf32>
    %dw1 = xf.linear_weight_grad %y, %z {leading = 2 : i64, xf.provenance = #xf.provenance<backward, layer = 1>} : (tensor<8x64x1024xf32>, tensor<8x64x1024xf32>) -> tensor<1024x1024xf32>
    %dw0 = xf.linear_weight_grad %x, %y {leading = 2 : i64, xf.provenance = #xf.provenance<backward, layer = 0>} : (tensor<8x64x1024xf32>, tensor<8x64x1024xf32>) -> tensor<1024x1024xf32>
    xf.yield %dw0, %dw1 : tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
  %s0 = xf.square_sum %g0 : (tensor<1024x1024xf32>) -> tensor<f32>
  %s1 = xf.square_sum %g1 : (tensor<1024x1024xf32>) -> tensor<f32>
  %one = xf.add %s0, %s1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %norm, %factor = xf.clip_factor %one {max_norm = 1.0 : f64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %lr = xf.schedule {beta1 = 9.0e-01 : f64, beta2 = 0.95 : f64, decay_steps = 0 : i64, kind = 1 : i32, lr = 3.0e-04 : f64, min_lr = 3.0e-05 : f64, stable_steps = 0 : i64, warmup_steps = 0 : i64} : tensor<5xf32>
  %m0 = xf.get @m0 : tensor<1024x1024xf32>
  %new_w0, %new_m0 = xf.sgd %w0, %m0, %g0, %factor, %lr {momentum = 9.0e-01 : f64, decay = 0.0 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>)
  xf.set @w0, %new_w0 : tensor<1024x1024xf32>
  xf.set @m0, %new_m0 : tensor<1024x1024xf32>
  %m1 = xf.get @m1 : tensor<1024x1024xf32>
  %new_w1, %new_m1 = xf.sgd %w1, %m1, %g1, %factor, %lr {momentum = 9.0e-01 : f64, decay = 0.0 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>)
  xf.set @w1, %new_w1 : tensor<1024x1024xf32>
  xf.set @m1, %new_m1 : tensor<1024x1024xf32>
  return
}
}
