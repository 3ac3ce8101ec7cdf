// A parameter of no layer is moved in two steps for its gradient's sake: both are done
// on the stage that needs it, not with the head.
// RUN: cleave-opt %s --cleave-cut-stages="schedule=1f1b" --cleave-verify-stages | FileCheck %s
// CHECK-LABEL: func.func @stage_0(
// CHECK: %[[IN:.*]] = xf.get @in {
// CHECK: %[[WHOLE:.*]] = dist.all_gather %[[IN]] axes ["x"] {{.*}}backward
// CHECK: %[[OWN:.*]] = dist.slice %[[WHOLE]]
// CHECK: xf.linear %{{.*}}, %[[OWN]]
// CHECK-LABEL: func.func @stage_1(
// CHECK-NOT: @in
// CHECK-NOT: dist.all_gather
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"x" = 2>] stages "pp"
xf.state @table parameter : tensor<8x4xf32> {decay, dims = ["vocab", "embedding"], init = #xf.init<normal, 1.000000e+00 : f64>}
xf.state @in parameter : tensor<6x4xf32> {decay, dims = ["hidden", "embedding"], init = #xf.init<normal, 1.000000e+00 : f64>}
xf.state @out parameter : tensor<8x6xf32> {decay, dims = ["vocab", "hidden"], init = #xf.init<normal, 1.000000e+00 : f64>}
xf.state @"table/momentum" moment1 : tensor<8x4xf32> {dims = ["vocab", "embedding"], init = #xf.init<zeros, 0.000000e+00 : f64>}
xf.state @"in/momentum" moment1 : tensor<6x4xf32> {dims = ["hidden", "embedding"], init = #xf.init<zeros, 0.000000e+00 : f64>}
xf.state @"out/momentum" moment1 : tensor<8x6xf32> {dims = ["vocab", "hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>}
func.func @step(%arg0: tensor<1x1x3xi32>, %arg1: tensor<1x1x3xi32>) {
  %0 = xf.count_tokens %arg1 {xf.provenance = #xf.provenance<forward>} : (tensor<1x1x3xi32>) -> tensor<f32>
  xf.output "local_tokens", %0 {xf.provenance = #xf.provenance<forward>} : tensor<f32>
  %1 = xf.reciprocal %0 {xf.provenance = #xf.provenance<forward>} : (tensor<f32>) -> tensor<f32>
  %2 = xf.get @table {xf.provenance = #xf.provenance<forward>} : tensor<8x4xf32>
  %3 = xf.get @in {xf.provenance = #xf.provenance<forward>} : tensor<6x4xf32>
  %4 = xf.get @out {xf.provenance = #xf.provenance<forward>} : tensor<8x6xf32>
  %5:4 = xf.accumulate 1(%arg0, %arg1) : (tensor<1x1x3xi32>, tensor<1x1x3xi32>) -> (tensor<f32>, tensor<8x4xf32>, tensor<6x4xf32>, tensor<8x6xf32>) {
  ^bb0(%arg2: tensor<1x3xi32>, %arg3: tensor<1x3xi32>):
    %15 = xf.embedding %arg2, %2 {xf.provenance = #xf.provenance<forward>} : (tensor<1x3xi32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
    %16 = xf.linear %15, %3 {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} : (tensor<1x3x4xf32>, tensor<6x4xf32>) -> tensor<1x3x6xf32>
    %17 = xf.scale %16 {factor = 2.000000e+00 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = residual>} : (tensor<1x3x6xf32>) -> tensor<1x3x6xf32>
    %18 = xf.scale %17 {factor = 5.000000e-01 : f64, xf.provenance = #xf.provenance<forward, layer = 1, module = residual>} : (tensor<1x3x6xf32>) -> tensor<1x3x6xf32>
    %19 = xf.linear %18, %4 {contract = 1 : i64, xf.provenance = #xf.provenance<forward>} : (tensor<1x3x6xf32>, tensor<8x6xf32>) -> tensor<1x3x8xf32>
    %loss, %lse = xf.cross_entropy %19, %arg3 {vocab = 8 : i64, xf.provenance = #xf.provenance<forward>} : (tensor<1x3x8xf32>, tensor<1x3xi32>) -> (tensor<f32>, tensor<1x3xf32>)
    %20 = xf.cross_entropy_grad %19, %lse, %arg3, %1 {vocab = 8 : i64, xf.provenance = #xf.provenance<backward>} : (tensor<1x3x8xf32>, tensor<1x3xf32>, tensor<1x3xi32>, tensor<f32>) -> tensor<1x3x8xf32>
    %21 = xf.linear %20, %4 {contract = 1 : i64, inputs_first, xf.provenance = #xf.provenance<backward>} : (tensor<1x3x8xf32>, tensor<8x6xf32>) -> tensor<1x3x6xf32>
    %22 = xf.linear_weight_grad %18, %20 {leading = 2 : i64, xf.provenance = #xf.provenance<backward>} : (tensor<1x3x6xf32>, tensor<1x3x8xf32>) -> tensor<8x6xf32>
    %23 = xf.scale %21 {factor = 5.000000e-01 : f64, xf.provenance = #xf.provenance<backward, layer = 1, module = residual>} : (tensor<1x3x6xf32>) -> tensor<1x3x6xf32>
    %24 = xf.scale %23 {factor = 2.000000e+00 : f64, xf.provenance = #xf.provenance<backward, layer = 0, module = residual>} : (tensor<1x3x6xf32>) -> tensor<1x3x6xf32>
    %whole = dist.all_gather %3 axes ["x"] dim 0 {xf.provenance = #xf.provenance<backward>} : tensor<6x4xf32> to tensor<12x4xf32>
    %own = dist.slice %whole axes ["x"] dim 0 {xf.provenance = #xf.provenance<backward>} : tensor<12x4xf32> to tensor<6x4xf32>
    %25 = xf.linear %24, %own {contract = 1 : i64, inputs_first, xf.provenance = #xf.provenance<backward>} : (tensor<1x3x6xf32>, tensor<6x4xf32>) -> tensor<1x3x4xf32>
    %26 = xf.linear_weight_grad %15, %24 {leading = 2 : i64, xf.provenance = #xf.provenance<backward>} : (tensor<1x3x4xf32>, tensor<1x3x6xf32>) -> tensor<6x4xf32>
    %27 = xf.embedding_grad %arg2, %25 {xf.provenance = #xf.provenance<backward>} : (tensor<1x3xi32>, tensor<1x3x4xf32>) -> tensor<8x4xf32>
    xf.yield %loss, %27, %26, %22 : tensor<f32>, tensor<8x4xf32>, tensor<6x4xf32>, tensor<8x6xf32> {xf.provenance = #xf.provenance<backward>}
  } {xf.provenance = #xf.provenance<backward>}
  xf.output "local_loss_sum", %5#0 {xf.provenance = #xf.provenance<optimizer>} : tensor<f32>
  %6 = xf.mul %5#0, %1 {xf.provenance = #xf.provenance<optimizer>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  xf.output "loss", %6 {xf.provenance = #xf.provenance<optimizer>} : tensor<f32>
  %7 = xf.square_sum %5#1 {xf.provenance = #xf.provenance<optimizer>} : (tensor<8x4xf32>) -> tensor<f32>
  %8 = xf.square_sum %5#2 {xf.provenance = #xf.provenance<optimizer>} : (tensor<6x4xf32>) -> tensor<f32>
  %9 = xf.square_sum %5#3 {xf.provenance = #xf.provenance<optimizer>} : (tensor<8x6xf32>) -> tensor<f32>
  %10 = xf.add %7, %8, %9 {xf.provenance = #xf.provenance<optimizer>} : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  %norm, %factor = xf.clip_factor %10 {max_norm = 0.000000e+00 : f64, xf.provenance = #xf.provenance<optimizer>} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  xf.output "grad_norm", %norm {xf.provenance = #xf.provenance<optimizer>} : tensor<f32>
  %11 = xf.schedule {beta1 = 0.000000e+00 : f64, beta2 = 0.000000e+00 : f64, decay_steps = 0 : i64, kind = 1 : i32, lr = 3.000000e-04 : f64, min_lr = 3.000000e-05 : f64, stable_steps = 0 : i64, warmup_steps = 0 : i64, xf.provenance = #xf.provenance<optimizer>} : tensor<5xf32>
  xf.output "schedule", %11 {xf.provenance = #xf.provenance<optimizer>} : tensor<5xf32>
  %12 = xf.get @"table/momentum" {xf.provenance = #xf.provenance<optimizer>} : tensor<8x4xf32>
  %new_w, %new_m = xf.sgd %2, %12, %5#1, %factor, %11 {decay = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, xf.provenance = #xf.provenance<optimizer>} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  xf.set @table, %new_w {xf.provenance = #xf.provenance<optimizer>} : tensor<8x4xf32>
  xf.set @"table/momentum", %new_m {xf.provenance = #xf.provenance<optimizer>} : tensor<8x4xf32>
  %13 = xf.get @"in/momentum" {xf.provenance = #xf.provenance<optimizer>} : tensor<6x4xf32>
  %new_w_0, %new_m_1 = xf.sgd %3, %13, %5#2, %factor, %11 {decay = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, xf.provenance = #xf.provenance<optimizer>} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>)
  xf.set @in, %new_w_0 {xf.provenance = #xf.provenance<optimizer>} : tensor<6x4xf32>
  xf.set @"in/momentum", %new_m_1 {xf.provenance = #xf.provenance<optimizer>} : tensor<6x4xf32>
  %14 = xf.get @"out/momentum" {xf.provenance = #xf.provenance<optimizer>} : tensor<8x6xf32>
  %new_w_2, %new_m_3 = xf.sgd %4, %14, %5#3, %factor, %11 {decay = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, xf.provenance = #xf.provenance<optimizer>} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>)
  xf.set @out, %new_w_2 {xf.provenance = #xf.provenance<optimizer>} : tensor<8x6xf32>
  xf.set @"out/momentum", %new_m_3 {xf.provenance = #xf.provenance<optimizer>} : tensor<8x6xf32>
  return
}
