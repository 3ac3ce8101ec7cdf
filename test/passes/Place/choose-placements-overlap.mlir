// Samples are split, and gradients are partial sums. Where nothing runs beside compute,
// the cheapest is to reduce both, and to keep both weights whole. Where collectives have
// streams, w2 is kept in shards: its gathering runs beside the product with w1, and only
// a scattered gradient of it is reduced, beside the last product. That moves more, and
// takes less.
// RUN: cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8 overlap=never" --cleave-verify-placements 2>%t.never | FileCheck %s --check-prefix=NEVER
// RUN: FileCheck %s --check-prefix=ALONE < %t.never
// RUN: cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8" --cleave-verify-placements 2>%t.auto | FileCheck %s --check-prefix=AUTO
// RUN: FileCheck %s --check-prefix=BESIDE < %t.auto
// RUN: not cleave-opt %s --cleave-choose-placements="cluster=h100-sxm:8 mesh=x=8 overlap=maybe" 2>&1 | FileCheck %s --check-prefix=MODE

// NEVER: xf.state @w1 parameter : tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}]>>
// NEVER: xf.state @w2 parameter : tensor<1024x8192xf32, #dist.on<@mesh, [{}, {}]>>
// NEVER: func.func @step(%{{.*}}: tensor<1x8x4096xi32, #dist.on<@mesh, [{}, {x}, {}]>>)
// NEVER-COUNT-2: dist.reshard {{.*}}, partial = {x}>> to {{.*}}[{}, {}]>>
// NEVER-NOT: dist.reshard
// ALONE: remark: [[US:.*]] us, {{.*}} of them in reshards; keeps {{.*}} MB; no choice takes less; {{.*}} MB in use at most{{$}}

// AUTO: xf.state @w1 parameter : tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}]>>
// AUTO: xf.state @w2 parameter : tensor<1024x8192xf32, #dist.on<@mesh, [{x}, {}]>>
// AUTO: func.func @step(%{{.*}}: tensor<1x8x4096xi32, #dist.on<@mesh, [{}, {x}, {}]>>)
// AUTO: dist.reshard {{.*}}tensor<1024x8192xf32, #dist.on<@mesh, [{x}, {}]>> to {{.*}}[{}, {}]>>
// AUTO: dist.reshard {{.*}}tensor<8192x1024xf32, #dist.on<@mesh, [{}, {}], partial = {x}>> to {{.*}}[{}, {}]>>
// AUTO: dist.reshard {{.*}}tensor<1024x8192xf32, #dist.on<@mesh, [{}, {}], partial = {x}>> to {{.*}}[{x}, {}]>>
// BESIDE: remark: 7782.{{.*}} us, {{.*}} of them in reshards; keeps {{.*}} MB; no choice takes less than 7658.{{.*}} us; 7373.{{.*}} us with collectives beside compute
// MODE: error: expects overlap to be auto, always or never, got maybe
xf.state @w1 parameter : tensor<8192x1024xf32> {dims = ["f", "h"], init = #xf.init<ones, 1.0 : f64>}
xf.state @w2 parameter : tensor<1024x8192xf32> {dims = ["h", "f"], init = #xf.init<ones, 1.0 : f64>}
xf.state @table parameter : tensor<512x1024xf32> {dims = ["v", "h"], init = #xf.init<ones, 1.0 : f64>}
func.func @step(%ids: tensor<1x8x4096xi32>) {
  %w1 = xf.get @w1 : tensor<8192x1024xf32>
  %w2 = xf.get @w2 : tensor<1024x8192xf32>
  %t = xf.get @table : tensor<512x1024xf32>
  %g:2 = xf.accumulate 1 (%ids) : (tensor<1x8x4096xi32>) -> (tensor<8192x1024xf32>, tensor<1024x8192xf32>) {
  ^bb0(%i: tensor<8x4096xi32>):
    %x = xf.embedding %i, %t {xf.provenance = #xf.provenance<forward>} : (tensor<8x4096xi32>, tensor<512x1024xf32>) -> tensor<8x4096x1024xf32>
    %h = xf.linear %x, %w1 {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} : (tensor<8x4096x1024xf32>, tensor<8192x1024xf32>) -> tensor<8x4096x8192xf32>
    %y = xf.linear %h, %w2 {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} : (tensor<8x4096x8192xf32>, tensor<1024x8192xf32>) -> tensor<8x4096x1024xf32>
    %dw2 = xf.linear_weight_grad %h, %y {leading = 2 : i64, xf.provenance = #xf.provenance<backward>} : (tensor<8x4096x8192xf32>, tensor<8x4096x1024xf32>) -> tensor<1024x8192xf32>
    %dh = xf.linear %y, %w1 {contract = 1 : i64, xf.provenance = #xf.provenance<backward>} : (tensor<8x4096x1024xf32>, tensor<8192x1024xf32>) -> tensor<8x4096x8192xf32>
    %dw1 = xf.linear_weight_grad %x, %dh {leading = 2 : i64, xf.provenance = #xf.provenance<backward>} : (tensor<8x4096x1024xf32>, tensor<8x4096x8192xf32>) -> tensor<8192x1024xf32>
    xf.yield %dw1, %dw2 : tensor<8192x1024xf32>, tensor<1024x8192xf32>
  }
  %new_w1 = xf.add %w1, %g#0 : (tensor<8192x1024xf32>, tensor<8192x1024xf32>) -> tensor<8192x1024xf32>
  %new_w2 = xf.add %w2, %g#1 : (tensor<1024x8192xf32>, tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  xf.set @w1, %new_w1 : tensor<8192x1024xf32>
  xf.set @w2, %new_w2 : tensor<1024x8192xf32>
  return
}
