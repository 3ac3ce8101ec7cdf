// A step of one weight, with four micro-batches of many tokens, on eight ranks: where
// the weight, its moment and its gradient are kept, follows from what memory there is.
// Nothing is named ZeRO.
// RUN: cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8" --cleave-verify-placements 2>%t.remarks | FileCheck %s --check-prefix=WHOLE
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8 memory=230000000" --cleave-verify-placements 2>/dev/null | FileCheck %s --check-prefix=ZERO1
// RUN: cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8 memory=170000000" --cleave-verify-placements 2>/dev/null | FileCheck %s --check-prefix=ZERO3
// RUN: not cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8 memory=150000000" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8 memory=170000000" --cleave-price-placements="cluster=h100-sxm:8" 2>&1 | FileCheck %s --check-prefix=PRICE

// With enough of it, each rank has the weight, and its own samples. Gradients stay
// partial until the last micro-batch.
// WHOLE: xf.state @w parameter : tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}]>>
// WHOLE: xf.state @m moment1 : tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}]>>
// WHOLE: func.func @step(%{{.*}}: tensor<4x8x4096xi32, #dist.on<@mesh, [{}, {x}, {}]>>)
// WHOLE: xf.accumulate {{.*}} -> tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}], partial = {x}>> {
// WHOLE-NOT: dist.reshard
// WHOLE: xf.yield
// WHOLE: dist.reshard {{.*}}, partial = {x}>> to tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}]>>
// REMARK: remark: {{.*}} us, {{.*}} of them in reshards; keeps 251.658 MB; no choice takes less; {{.*}} us with collectives beside compute

// With less, a rank keeps an eighth, updates it, and gathers the weight once a step.
// ZERO1: xf.state @w parameter : tensor<8192x1024xf32, #dist.on<@mesh, [{x}, {}]>>
// ZERO1: xf.state @m moment1 : tensor<8192x1024xf32, #dist.on<@mesh, [{x}, {}]>>
// ZERO1: dist.reshard {{.*}}[{x}, {}]>> to tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}]>>
// ZERO1: xf.accumulate {{.*}} -> tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}], partial = {x}>> {
// ZERO1-NOT: dist.reshard
// ZERO1: xf.yield
// ZERO1: dist.reshard {{.*}}, partial = {x}>> to tensor<8192x1024xf32, #dist.on<@mesh, [{x}, {}]>>

// With the least, it gathers the weight and reduces the gradient in each micro-batch.
// ZERO3-NOT: dist.reshard
// ZERO3: xf.accumulate {{.*}} -> tensor<8192x1024xf32, #dist.on<@mesh, [{x}, {}]>> {
// ZERO3: dist.reshard {{.*}}[{x}, {}]>> to tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}]>>
// ZERO3: xf.linear_weight_grad
// ZERO3: dist.reshard {{.*}}, partial = {x}>> to tensor<8192x1024xf32, #dist.on<@mesh, [{x}, {}]>>
// ZERO3: xf.yield
// NONE: error: what is kept takes at least 163577856 bytes of a rank, which has 150000000

// What the pass counts is what there is then.
// PRICE: remark: [[US:.*]] us, [[MOVES:.*]] of them in reshards; keeps [[MB:.*]] MB; no choice takes less;
// PRICE: remark: [[US]] us, [[MOVES]] of them in reshards; keeps [[MB]] MB{{$}}
xf.state @w parameter : tensor<8192x1024xf32> {dims = ["f", "h"], init = #xf.init<ones, 1.0 : f64>}
xf.state @m moment1 : tensor<8192x1024xf32> {dims = ["f", "h"], init = #xf.init<zeros, 0.0 : f64>}
xf.state @table parameter : tensor<512x1024xf32> {dims = ["v", "h"], init = #xf.init<ones, 1.0 : f64>}
func.func @step(%ids: tensor<4x8x4096xi32>) {
  %w = xf.get @w : tensor<8192x1024xf32>
  %t = xf.get @table : tensor<512x1024xf32>
  %g = xf.accumulate 4 (%ids) : (tensor<4x8x4096xi32>) -> tensor<8192x1024xf32> {
  ^bb0(%i: tensor<8x4096xi32>):
    %x = xf.embedding %i, %t {xf.provenance = #xf.provenance<forward>} : (tensor<8x4096xi32>, tensor<512x1024xf32>) -> tensor<8x4096x1024xf32>
    %y = xf.linear %x, %w {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} : (tensor<8x4096x1024xf32>, tensor<8192x1024xf32>) -> tensor<8x4096x8192xf32>
    %dw = xf.linear_weight_grad %x, %y {leading = 2 : i64, xf.provenance = #xf.provenance<backward>} : (tensor<8x4096x1024xf32>, tensor<8x4096x8192xf32>) -> tensor<8192x1024xf32>
    xf.yield %dw : tensor<8192x1024xf32>
  }
  %one = xf.square_sum %g : (tensor<8192x1024xf32>) -> tensor<f32>
  %norm, %factor = xf.clip_factor %one {max_norm = 1.0 : f64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %m = xf.get @m : tensor<8192x1024xf32>
  %lr = xf.schedule {beta1 = 9.0e-01 : f64, beta2 = 0.95 : f64, decay_steps = 0 : i64, kind = 1 : i32, lr = 3.0e-04 : f64, min_lr = 3.0e-05 : f64, stable_steps = 0 : i64, warmup_steps = 0 : i64} : tensor<5xf32>
  %new_w, %new_m = xf.sgd %w, %m, %g, %factor, %lr {momentum = 9.0e-01 : f64, decay = 0.0 : f64} : (tensor<8192x1024xf32>, tensor<8192x1024xf32>, tensor<8192x1024xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<8192x1024xf32>, tensor<8192x1024xf32>)
  xf.set @w, %new_w : tensor<8192x1024xf32>
  xf.set @m, %new_m : tensor<8192x1024xf32>
  return
}
