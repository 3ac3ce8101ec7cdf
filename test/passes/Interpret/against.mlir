// RUN: split-file %s %t
// RUN: cleave-translate --interpret-step --against=%t/right.mlir %t/right.mlir
// RUN: not cleave-translate --interpret-step --against=%t/right.mlir \
// RUN:   %t/wrong.mlir 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not cleave-translate --interpret-step --against=%t/right.mlir \
// RUN:   %t/other.mlir 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not cleave-translate --interpret-step %t/unknown.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// RUN: not cleave-translate --interpret-step %t/large.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LARGE
// RUN: not cleave-translate --interpret-step %t/short.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SHORT
// RUN: not cleave-translate --interpret-step %t/none.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NONE

//--- right.mlir
xf.state @w parameter : tensor<4xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %w = xf.get @w : tensor<4xf32>
  %x = xf.scale %w {factor = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  xf.set @w, %x : tensor<4xf32>
  return
}

//--- wrong.mlir
xf.state @w parameter : tensor<4xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %w = xf.get @w : tensor<4xf32>
  %x = xf.scale %w {factor = 0.25 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  xf.set @w, %x : tensor<4xf32>
  return
}
// WRONG: error: state "w": element 0 is {{.*}} after 1 step, expects {{.*}}

//--- other.mlir
xf.state @v parameter : tensor<4xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
// OTHER: error: 'xf.state' op is not a state of the step that it is compared with

//--- unknown.mlir
func.func @step(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %c = arith.constant 1.0 : f32
  return
}
// UNKNOWN: error: 'arith.constant' op has no meaning in f64 (InterpretableOpInterface)

//--- none.mlir
func.func @forward(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
// NONE: error: expects a function named "step" of ids and targets, or an exec.program

//--- large.mlir
func.func @step(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  return
}
xf.state @w parameter : tensor<65536x65536xf32> {init = #xf.init<zeros, 0.0 : f64>}
// LARGE: error: 'xf.state' op is of a step too large to interpret: expects at most 33554432 elements on all ranks; a small model of the same structure will do

//--- short.mlir
exec.program @program threads 1 {
  %a = exec.buffer "a" 16 : !exec.buffer
  %b = exec.buffer "b" 16 : !exec.buffer
  exec.segment @all {
    exec.gemm(%a, %a) -> (%b) {m = 2 : i64, n = 2 : i64, k = 3 : i64, trans_a = false, trans_b = false, type_a = f32, type_b = f32, type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @all 0 first
}
// SHORT: error: 'exec.gemm' op expects 24 bytes where a buffer has 16
