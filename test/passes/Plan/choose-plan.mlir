// A step of one layer, of which nothing is known but its ops: what the planner finds for
// it is an attribute, and the next passes go by that, or by what a person makes of it.
// RUN: cleave-opt %s --cleave-choose-plan="cluster=h100-sxm:4 pin=tp=2,pp=1" -o %t.mlir 2>%t.remarks
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: cleave-opt %s --cleave-choose-plan="cluster=h100-sxm:4" -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHERS
// RUN: cleave-opt %t.mlir --cleave-place-tensors 2>/dev/null | FileCheck %s --check-prefix=PLACED
// RUN: sed -e 's/heads = \["tp"\], //; s/, recompute = \[[^]]*\]//; s/micro_batches = 2/recompute = ["norms"], micro_batches = 2/' %t.mlir > %t.edited.mlir
// RUN: cleave-opt %t.edited.mlir --cleave-recompute --cleave-place-tensors 2>/dev/null | FileCheck %s --check-prefix=EDITED
// RUN: cleave-opt %t.edited.mlir --cleave-choose-plan="cluster=h100-sxm:4" 2>/dev/null | FileCheck %s --check-prefix=KEPT
// RUN: sed -e 's/heads = \["tp"\]/heads = ["xp"]/' %t.mlir > %t.axis.mlir
// RUN: not cleave-opt %t.axis.mlir --cleave-place-tensors 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: sed -e 's/micro_batches = 2/micro_batches = 3/' %t.mlir > %t.batches.mlir
// RUN: not cleave-opt %t.batches.mlir --cleave-place-tensors 2>&1 | FileCheck %s --check-prefix=BATCHES
// RUN: not cleave-opt %s --cleave-choose-plan="cluster=h100-sxm:4 pin=tp=3" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %s --cleave-choose-plan="cluster=h100-sxm:4 pin=tq=3" 2>&1 | FileCheck %s --check-prefix=FIELD
// RUN: not cleave-opt %s --cleave-choose-plan="cluster=h100-sxm:4 headroom=100" 2>&1 | FileCheck %s --check-prefix=HEADROOM
// RUN: sed -e 's/"head_dim"/"width"/g' %s > %t.names.mlir
// RUN: not cleave-opt %t.names.mlir --cleave-choose-plan="cluster=h100-sxm:4" 2>&1 | FileCheck %s --check-prefix=NAMES

// CHECK: module attributes {dist.plan = {
// CHECK-SAME: heads = ["tp"]
// CHECK-SAME: mesh = [{name = "dp", size = 2 : i64}, {name = "tp", size = 2 : i64}]
// CHECK-SAME: micro_batches = 2 : i64
// REMARK: remark: tp 2, pp 1, dp 2, {{.*}}: {{.*}} a step, {{.*}} of a device{{$}}
// OTHERS: remark: {{.*}} % more time
// PLACED: xf.state @q parameter : tensor<4x16x64xf32, #dist.on<@mesh, [{tp
// EDITED: xf.state @q parameter : tensor<4x16x64xf32, #dist.on<@mesh, [{}, {}, {}]>>
// EDITED: recomputed = true
// KEPT: recompute = ["norms"]
// AXIS: error: dist.plan: key "dims.heads": expects axes of the mesh ["dp"=2, "tp"=2], got "xp"
// BATCHES: error: dist.plan: the plan has 3 micro-batches, the step 2: expects --cleave-build-step=micro-batches=3
// NONE: error: {{.*}}tp
// HEADROOM: error: headroom 100{{.*}}: expects percents from 0 to 90
// FIELD: error: pin {{.*}}tq
// NAMES: error: layer 0: expects parameters with dims "heads", "head_dim" and "intermediate"

xf.state @table parameter : tensor<32x64xf32> {dims = ["vocab", "hidden"], init = #xf.init<ones, 1.0 : f64>}
xf.state @norm parameter : tensor<64xf32> {dims = ["hidden"], init = #xf.init<ones, 1.0 : f64>}
xf.state @q parameter : tensor<4x16x64xf32> {dims = ["heads", "head_dim", "hidden"], init = #xf.init<ones, 1.0 : f64>}
xf.state @up parameter : tensor<128x64xf32> {dims = ["intermediate", "hidden"], init = #xf.init<ones, 1.0 : f64>}
xf.state @down parameter : tensor<64x128xf32> {dims = ["hidden", "intermediate"], init = #xf.init<ones, 1.0 : f64>}
func.func @step(%ids: tensor<2x8x16xi32>) {
  %table = xf.get @table : tensor<32x64xf32>
  %norm = xf.get @norm : tensor<64xf32>
  %q = xf.get @q : tensor<4x16x64xf32>
  %up = xf.get @up : tensor<128x64xf32>
  %down = xf.get @down : tensor<64x128xf32>
  %all:2 = xf.accumulate 2 (%ids) : (tensor<2x8x16xi32>) -> (tensor<4x16x64xf32>, tensor<64x128xf32>) {
  ^bb0(%i: tensor<8x16xi32>):
    %x = xf.embedding %i, %table {xf.provenance = #xf.provenance<forward>} : (tensor<8x16xi32>, tensor<32x64xf32>) -> tensor<8x16x64xf32>
    %n, %r = xf.rms_norm %x, %norm {eps = 0.1 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = norms>} : (tensor<8x16x64xf32>, tensor<64xf32>) -> (tensor<8x16x64xf32>, tensor<8x16xf32>)
    %h = xf.linear %n, %q {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : (tensor<8x16x64xf32>, tensor<4x16x64xf32>) -> tensor<8x16x4x16xf32>
    %u = xf.linear %n, %up {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = up>} : (tensor<8x16x64xf32>, tensor<128x64xf32>) -> tensor<8x16x128xf32>
    %y = xf.linear %u, %down {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = down>} : (tensor<8x16x128xf32>, tensor<64x128xf32>) -> tensor<8x16x64xf32>
    %dq = xf.linear_weight_grad %n, %h {leading = 2 : i64, xf.provenance = #xf.provenance<backward, layer = 0, module = qkv>} : (tensor<8x16x64xf32>, tensor<8x16x4x16xf32>) -> tensor<4x16x64xf32>
    %dd = xf.linear_weight_grad %u, %y {leading = 2 : i64, xf.provenance = #xf.provenance<backward, layer = 0, module = down>} : (tensor<8x16x128xf32>, tensor<8x16x64xf32>) -> tensor<64x128xf32>
    xf.yield %dq, %dd : tensor<4x16x64xf32>, tensor<64x128xf32>
  }
  return
}
