// What may be one kernel is brought together: the sum of a norm's gradient and the
// residual stream's is computed with the former, though sums over rows stand between
// them; sums over the same rows are one kernel; and the second launches of sums of all
// elements follow the first ones of their neighbours, so that launches which have nothing
// to do with each other are neighbours, which GPUs make one.
//
// RUN: cleave-opt %s --split-input-file --cleave-lower-to-exec | FileCheck %s
// RUN: cleave-opt %s --split-input-file --cleave-lower-to-exec="fuse=false" \
// RUN:   | FileCheck %s --check-prefix=ALONE

// CHECK-LABEL: exec.segment @before
// CHECK-NEXT: exec.launch({{.*}}) -> ({{.*}}) {kernel = @layer_norm_grad_add
// CHECK-NEXT: exec.launch({{.*}}) -> (%{{.*}}, %{{.*}}) {kernel = @norm_weight_grad_reduce_leading
// CHECK-NOT: exec.launch
// CHECK: exec.run

// ALONE-LABEL: exec.segment @before
// ALONE-NEXT: exec.launch({{.*}}kernel = @layer_norm_grad}
// ALONE-NEXT: exec.launch({{.*}}kernel = @norm_weight_grad}
// ALONE-NEXT: exec.launch({{.*}}kernel = @reduce_leading}
// ALONE-NEXT: exec.launch({{.*}}kernel = @add}
!x = tensor<4x64xf32>
!row = tensor<64xf32>
!stat = tensor<4xf32>
xf.state @x parameter : !x {init = #xf.init<zeros, 0.0 : f64>}
xf.state @w parameter : !row {init = #xf.init<zeros, 0.0 : f64>}
xf.state @mean constant : !stat {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<8xi32>, %targets: tensor<8xi32>) {
  %x = xf.get @x : !x
  %w = xf.get @w : !row
  %mean = xf.get @mean : !stat
  %dx = xf.layer_norm_grad %x, %w, %mean, %mean, %x : (!x, !row, !stat, !stat, !x) -> !x
  %dw = xf.norm_weight_grad %x, %mean, %x, %mean : (!x, !stat, !x, !stat) -> !row
  %db = xf.reduce_leading %x : (!x) -> !row
  %sum = xf.add %x, %dx : (!x, !x) -> !x
  xf.output "dw", %dw : !row
  xf.output "db", %db : !row
  xf.output "sum", %sum : !x
  return
}

// -----

// A sum that reads another one comes after both of its launches.
// CHECK-LABEL: exec.segment @before
// CHECK-NEXT: exec.launch({{.*}}) -> (%[[ROWS:.*]]) {kernel = @square_sum
// CHECK-NEXT: exec.launch(%[[ROWS]]) -> (%[[SUM:.*]]) {kernel = @fold
// CHECK-NEXT: exec.launch(%[[SUM]]) -> ({{.*}}) {kernel = @square_sum
!x = tensor<4x64xf32>
!one = tensor<f32>
xf.state @x parameter : !x {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<8xi32>, %targets: tensor<8xi32>) {
  %x = xf.get @x : !x
  %a = xf.square_sum %x : (!x) -> !one
  %b = xf.square_sum %a : (!one) -> !one
  xf.output "n", %b : !one
  return
}

// -----

// A kernel has eight sums over rows at most.
// CHECK-LABEL: exec.segment @before
// CHECK-COUNT-2: exec.launch({{.*}}kernel = @reduce_leading
// CHECK-NOT: exec.launch
// CHECK: exec.run
!x = tensor<4x64xf32>
!row = tensor<64xf32>
xf.state @x parameter : !x {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<8xi32>, %targets: tensor<8xi32>) {
  %x = xf.get @x : !x
  %0 = xf.reduce_leading %x : (!x) -> !row
  %1 = xf.reduce_leading %x : (!x) -> !row
  %2 = xf.reduce_leading %x : (!x) -> !row
  %3 = xf.reduce_leading %x : (!x) -> !row
  %4 = xf.reduce_leading %x : (!x) -> !row
  %5 = xf.reduce_leading %x : (!x) -> !row
  %6 = xf.reduce_leading %x : (!x) -> !row
  %7 = xf.reduce_leading %x : (!x) -> !row
  %8 = xf.reduce_leading %x : (!x) -> !row
  xf.output "0", %0 : !row
  xf.output "1", %1 : !row
  xf.output "2", %2 : !row
  xf.output "3", %3 : !row
  xf.output "4", %4 : !row
  xf.output "5", %5 : !row
  xf.output "6", %6 : !row
  xf.output "7", %7 : !row
  xf.output "8", %8 : !row
  return
}

// -----

// CHECK-LABEL: exec.segment @before
// CHECK-NEXT: exec.launch(%[[X:.*]]) -> (%[[ROWS1:.*]]) {kernel = @square_sum
// CHECK-NEXT: exec.launch(%{{.*}}) -> (%[[ROWS2:.*]]) {kernel = @square_sum
// CHECK-NEXT: exec.launch(%[[ROWS1]]) -> (%[[SUM1:.*]]) {kernel = @fold
// CHECK-NEXT: exec.launch(%[[ROWS2]]) -> (%[[SUM2:.*]]) {kernel = @fold
// CHECK-NEXT: exec.launch(%[[SUM1]], %[[SUM2]]) -> (%{{.*}}) {kernel = @add
!x = tensor<4x64xf32>
!one = tensor<f32>
xf.state @x parameter : !x {init = #xf.init<zeros, 0.0 : f64>}
xf.state @y parameter : !x {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<8xi32>, %targets: tensor<8xi32>) {
  %x = xf.get @x : !x
  %y = xf.get @y : !x
  %a = xf.square_sum %x : (!x) -> !one
  %b = xf.square_sum %y : (!x) -> !one
  %n = xf.add %a, %b : (!one, !one) -> !one
  xf.output "n", %n : !one
  return
}
