// RUN: cleave-opt %s --cleave-build-step="micro-batches=3 optimizer=sgd" \
// RUN:   --cleave-cut-stages="schedule=zb-h1" --cleave-verify-stages | FileCheck %s
// RUN: cleave-opt %s --cleave-build-step="micro-batches=3 optimizer=sgd" \
// RUN:   --cleave-cut-stages --check-meaning | FileCheck %s --check-prefix=ORDER
// RUN: cleave-opt %s --cleave-build-step="micro-batches=2 optimizer=sgd" \
// RUN:   --cleave-cut-stages="layers=2,0 schedule=gpipe" --check-meaning \
// RUN:   | FileCheck %s --check-prefix=ENDS
// RUN: cleave-opt %s --cleave-build-step="micro-batches=2 optimizer=sgd" \
// RUN:   --cleave-cut-stages="layers=0,2 schedule=gpipe" --check-meaning \
// RUN:   | FileCheck %s --check-prefix=FRONT
// RUN: not cleave-opt %s --cleave-build-step \
// RUN:   --cleave-cut-stages="schedule=zb-v" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not cleave-opt %s --cleave-build-step \
// RUN:   --cleave-cut-stages="schedule=2f2b" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not cleave-opt %s --cleave-build-step --cleave-cut-stages="layers=1,2" \
// RUN:   2>&1 | FileCheck %s --check-prefix=LAYERS
// RUN: not cleave-opt %s --cleave-build-step \
// RUN:   --cleave-cut-stages="virtual-stages=3 schedule=interleaved" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EMPTY
// RUN: not cleave-opt %s --cleave-cut-stages 2>&1 | FileCheck %s --check-prefix=STEP

// CHUNKS: error: 'func.func' op schedule zb-v has 2 virtual stages of a stage, got 1
// NAME: error: 'func.func' op has no schedule "2f2b"; legal are gpipe, 1f1b, 1f1b-eager, interleaved, zb-h1, zb-h2, zb-v, dualpipe-v
// LAYERS: error: 'func.func' op expects layers of stages that add up to 2
// EMPTY: error: 'func.func' op has 2 layers for 6 virtual stages: each but the first and the last has at least one
// STEP: error: expects a function named "step"

// A first stage without layers still embeds, as the weight is there.
// FRONT-LABEL: func.func @stage_0(
// FRONT: %[[X:.*]] = xf.embedding
// FRONT: dist.send %[[X]] to 1
// FRONT-LABEL: func.func @stage_1(
// FRONT-NOT: xf.embedding

// Two layers on two stages; the table is the first one's embedding and the
// second one's head.

// The first stage: what the second one needs is sent as soon as it is there, and
// gradients of weights wait for a segment of their own.
// CHECK-LABEL: func.func @stage_0(
// CHECK: %[[T:.*]] = xf.get @table
// CHECK: %[[SUM:.*]] = xf.accumulate 3({{.*}}) : {{.*}} segments ["forward", "backward_input", "backward_weight"] order [0, 0, 0, 1, 1, 0, 2, 0, 0, 2, 1, 1, 2, 1, 1, 2, 2, 2]
// CHECK-NEXT: ^bb0(%[[IDS:[a-z0-9]*]]: tensor<1x3xi32>
// CHECK-NEXT: %[[X:.*]] = xf.embedding %[[IDS]], %[[T]] {{.*}}xf.segment = 0
// CHECK-NEXT: %[[Y:.*]] = xf.scale %[[X]] {{.*}}layer = 0{{.*}}xf.segment = 0
// CHECK-NEXT: dist.send %[[Y]] to 1 channel 0 {{.*}}xf.segment = 0
// CHECK-NEXT: %[[DY:.*]] = dist.recv from 1 channel 1 {{.*}}xf.segment = 1
// CHECK-NEXT: %[[DX:.*]] = xf.scale %[[DY]] {{.*}}xf.segment = 1
// CHECK-NEXT: %[[DT:.*]] = xf.embedding_grad %[[IDS]], %[[DX]] {{.*}}xf.segment = 2
// CHECK-NEXT: xf.yield %[[DT]]
// Both stages have the table: they exchange its gradient, and add alike.
// CHECK: dist.send %[[SUM]] to 1 channel 2
// CHECK: %[[OTHER:.*]] = dist.recv from 1 channel 3
// CHECK: %[[GRAD:.*]] = xf.add %[[SUM]], %[[OTHER]]
// The loss is the last stage's; the norm counts the table once.
// CHECK: %[[ZERO:.*]] = xf.zeros
// CHECK: dist.all_reduce %[[ZERO]] axes ["pp"]
// CHECK: %[[SQUARE:.*]] = xf.square_sum %[[GRAD]]
// CHECK: %[[PART:.*]] = xf.add %[[SQUARE]]
// CHECK: %[[TOTAL:.*]] = dist.all_reduce %[[PART]] axes ["pp"]
// CHECK: xf.clip_factor %[[TOTAL]]
// CHECK: xf.set @table

// CHECK-LABEL: func.func @stage_1(
// CHECK: %[[SUMS:.*]]:2 = xf.accumulate 3({{.*}}) : {{.*}} order [0, 0, 1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 1, 2, 2, 1, 2, 2]
// CHECK: %[[Y:.*]] = dist.recv from 0 channel 0
// CHECK-NOT: xf.embedding
// CHECK: xf.cross_entropy
// CHECK: dist.send %{{.*}} to 0 channel 1 {{.*}}xf.segment = 1
// CHECK-NEXT: %[[DW:.*]] = xf.linear_weight_grad {{.*}}xf.segment = 2
// CHECK-NEXT: xf.yield %{{.*}}, %[[DW]]
// CHECK: dist.send %[[SUMS]]#1 to 0 channel 3
// CHECK: %[[OTHER:.*]] = dist.recv from 0 channel 2
// CHECK: xf.add %[[OTHER]], %[[SUMS]]#1
// CHECK: dist.all_reduce %[[SUMS]]#0 axes ["pp"]
// CHECK-NOT: xf.square_sum
// CHECK: %[[ZERO:.*]] = xf.zeros
// CHECK: dist.all_reduce %[[ZERO]] axes ["pp"]

// One forward, one backward: the first stage is one micro-batch ahead.
// ORDER-LABEL: func.func @stage_0(
// ORDER: segments ["forward", "backward"] order [0, 0, 0, 1, 1, 0, 0, 2, 1, 1, 1, 2]
// ORDER-LABEL: func.func @stage_1(
// ORDER: segments ["forward", "backward"] order [0, 0, 1, 0, 0, 1, 1, 1, 0, 2, 1, 2]

// All layers on the first stage: the second one has the head.
// ENDS-LABEL: func.func @stage_0(
// ENDS: segments ["forward", "backward"] order [0, 0, 0, 1, 1, 0, 1, 1]
// ENDS: layer = 1{{.*}}xf.segment = 0
// ENDS-LABEL: func.func @stage_1(
// ENDS-NOT: layer = 1, module = residual>, xf.segment = 1
// ENDS: xf.cross_entropy

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
xf.state @table parameter : tensor<8x4xf32> {init = #xf.init<normal, 1.0 : f64>, dims = ["vocab", "hidden"], decay}

func.func @forward(%ids: tensor<1x3xi32>, %targets: tensor<1x3xi32>) -> tensor<f32> {
  %t = xf.get @table : tensor<8x4xf32>
  %x = xf.embedding %ids, %t : (tensor<1x3xi32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
  %y = xf.scale %x {factor = 2.0 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = residual>} : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
  %z = xf.scale %y {factor = 0.5 : f64, xf.provenance = #xf.provenance<forward, layer = 1, module = residual>} : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
  %logits = xf.linear %z, %t {contract = 1 : i64} : (tensor<1x3x4xf32>, tensor<8x4xf32>) -> tensor<1x3x8xf32>
  %loss, %lse = xf.cross_entropy %logits, %targets {vocab = 8 : i64} : (tensor<1x3x8xf32>, tensor<1x3xi32>) -> (tensor<f32>, tensor<1x3xf32>)
  return %loss : tensor<f32>
}
