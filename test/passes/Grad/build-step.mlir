// RUN: cleave-opt %s --cleave-build-step="micro-batches=2 optimizer=sgd" \
// RUN:   | FileCheck %s
// RUN: cleave-opt %s --check-meaning --cleave-build-step="micro-batches=2" \
// RUN:   --cleave-verify-step -o /dev/null

// A model of one layer, a scaled table. What is read once a step stands before
// the micro-batches; each of these adds to the sum of losses and of gradients.

// CHECK: xf.state @table parameter
// CHECK: xf.state @"table/momentum" moment1 : tensor<8x4xf32>
xf.state @table parameter : tensor<8x4xf32> {init = #xf.init<normal, 1.0 : f64>, dims = ["vocab", "hidden"], decay}

// CHECK: func.func @step(%[[IDS:.*]]: tensor<2x1x3xi32>, %[[TARGETS:.*]]: tensor<2x1x3xi32>) {
// CHECK: %[[N:.*]] = xf.count_tokens %[[TARGETS]] {xf.provenance = #xf.provenance<forward>}
// CHECK: %[[SCALE:.*]] = xf.reciprocal %[[N]] {xf.provenance = #xf.provenance<forward>}
// CHECK: %[[TABLE:.*]] = xf.get @table {xf.provenance = #xf.provenance<forward>}
// CHECK: %[[SUMS:.*]]:2 = xf.accumulate 2(%[[IDS]], %[[TARGETS]])
// CHECK: ^bb0(%[[ID:.*]]: tensor<1x3xi32>, %[[TARGET:.*]]: tensor<1x3xi32>):
func.func @forward(%ids: tensor<1x3xi32>, %targets: tensor<1x3xi32>) -> tensor<f32> {
  %t = xf.get @table : tensor<8x4xf32>
  // CHECK: %[[X:.*]] = xf.embedding %[[ID]], %[[TABLE]]
  %x = xf.embedding %ids, %t : (tensor<1x3xi32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
  // CHECK: %[[Y:.*]] = xf.scale %[[X]] {factor = 2.{{.*}}, xf.provenance = #xf.provenance<forward, layer = 0, module = residual>}
  %y = xf.scale %x {factor = 2.0 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = residual>} : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
  // CHECK: %[[Z:.*]] = xf.linear %[[Y]], %[[TABLE]]
  %z = xf.linear %y, %t {contract = 1 : i64} : (tensor<1x3x4xf32>, tensor<8x4xf32>) -> tensor<1x3x8xf32>
  // CHECK: %[[LOSS:.*]], %[[LSE:.*]] = xf.cross_entropy %[[Z]], %[[TARGET]]
  %loss, %lse = xf.cross_entropy %z, %targets {vocab = 8 : i64} : (tensor<1x3x8xf32>, tensor<1x3xi32>) -> (tensor<f32>, tensor<1x3xf32>)
  return %loss : tensor<f32>
}
// CHECK: %[[DZ:.*]] = xf.cross_entropy_grad %[[Z]], %[[LSE]], %[[TARGET]], %[[SCALE]] {{.*}}#xf.provenance<backward>
// CHECK: %[[DY:.*]] = xf.linear %[[DZ]], %[[TABLE]] {{.*}}inputs_first
// CHECK: %[[HEAD:.*]] = xf.linear_weight_grad %[[Y]], %[[DZ]]
// The gradient of a layer's op is of the layer.
// CHECK: %[[DX:.*]] = xf.scale %[[DY]] {factor = 2.{{.*}}, xf.provenance = #xf.provenance<backward, layer = 0, module = residual>}
// CHECK: %[[LOOKUP:.*]] = xf.embedding_grad %[[ID]], %[[DX]]
// What reads the table twice has two gradients.
// CHECK: %[[DT:.*]] = xf.add %[[HEAD]], %[[LOOKUP]]
// CHECK: xf.yield %[[LOSS]], %[[DT]]

// CHECK: %[[RATES:.*]] = xf.schedule
// CHECK: xf.output "local_loss_sum", %[[SUMS]]#0
// CHECK: %[[MEAN:.*]] = xf.mul %[[SUMS]]#0, %[[SCALE]]
// CHECK: %[[SQUARES:.*]] = xf.square_sum %[[SUMS]]#1 {xf.provenance = #xf.provenance<optimizer>}
// CHECK: %[[NORM:.*]], %[[FACTOR:.*]] = xf.clip_factor
// CHECK: %[[COUNTS:.*]] = xf.guard %[[FACTOR]], %[[MEAN]], %[[NORM]], %[[RATES]]
// CHECK: xf.output "update_factor", %[[COUNTS]]
// CHECK: %[[MOMENT:.*]] = xf.get @"table/momentum"
// CHECK: %[[NEW:.*]], %[[NEWM:.*]] = xf.sgd %[[TABLE]], %[[MOMENT]], %[[SUMS]]#1, %[[COUNTS]], %[[RATES]]
// CHECK: xf.set @table, %[[NEW]]
// CHECK: xf.set @"table/momentum", %[[NEWM]]
