// What stages of a pipeline do that cannot be, and what is said of it. A step
// ends where it does, though the other stages would go on.

// RUN: split-file %s %t
// RUN: not cleave-translate --interpret-step %t/never.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NEVER
// RUN: not cleave-translate --interpret-step %t/left.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LEFT
// RUN: not cleave-translate --interpret-step %t/both.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BOTH
// RUN: not cleave-translate --interpret-step %t/alone.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ALONE
// RUN: not cleave-translate --interpret-step %t/other.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OTHER
// RUN: not cleave-translate --interpret-step %t/stale.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=STALE
// RUN: not cleave-translate --interpret-step %t/outputs.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OUTPUTS
// RUN: not cleave-translate --interpret-step %t/size.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SIZE
// RUN: not cleave-translate --interpret-step %t/bytes.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BYTES
// RUN: not cleave-translate --interpret-step %t/order.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ORDER
// RUN: not cleave-translate --interpret-step %t/one.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: not cleave-translate --interpret-step %t/more.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MORE
// RUN: not cleave-translate --interpret-step %t/whole.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WHOLE
// RUN: not cleave-translate --interpret-step %t/data.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DATA
// RUN: not cleave-translate --interpret-step %t/split.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SPLIT
// RUN: not cleave-translate --interpret-step %t/global.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GLOBAL

//--- never.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %x = dist.recv from 0 channel 3 : tensor<f32>
  return
}
// NEVER: error: 'dist.recv' op waits for a message of stage 0 over channel 3, which never comes

//--- left.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  dist.send %n to 1 channel 3 : tensor<f32>
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
// LEFT: error: 'dist.send' op sends to stage 1 over channel 3 what nothing receives, for micro-batch 0

//--- both.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %x = dist.recv from 1 channel 1 : tensor<f32>
  dist.send %x to 1 channel 0 : tensor<f32>
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %x = dist.recv from 0 channel 0 : tensor<f32>
  dist.send %x to 0 channel 1 : tensor<f32>
  return
}
// BOTH: error: 'dist.recv' op waits for a message of stage 1 over channel 1, which never comes
// BOTH: note: stage 1 waits for a message of stage 0 over channel 0 here

//--- alone.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  %m = dist.all_reduce %n axes ["pp"] : tensor<f32> to tensor<f32>
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
// ALONE: error: 'dist.all_reduce' op waits for the same collective of each other stage, which never comes

//--- other.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  %m = dist.all_reduce %n axes ["pp"] : tensor<f32> to tensor<f32>
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  %m = dist.all_reduce %n axes ["pp"] reduction max : tensor<f32> to tensor<f32>
  return
}
// OTHER: error: 'dist.all_reduce' op meets another collective of stage 0
// OTHER: note: which is here
// OTHER-NOT: error

//--- stale.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
xf.state @w parameter : tensor<2xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %w = xf.get @w : tensor<2xf32>
  %x = xf.scale %w {factor = 0.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  xf.set @w, %x : tensor<2xf32>
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %w = xf.get @w : tensor<2xf32>
  return
}
// STALE: error: state "w" differs between stages 0 and 1: element 0 is {{-?0}} and {{-?0\.[0-9]+$}}

//--- outputs.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  xf.output "tokens", %n : tensor<f32>
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  %m = xf.scale %n {factor = 0.5 : f64} : (tensor<f32>) -> tensor<f32>
  xf.output "tokens", %m : tensor<f32>
  return
}
// OUTPUTS: error: output "tokens" differs between stages 0 and 1: element 0 is 1 and 0.5

//--- size.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
xf.state @w parameter : tensor<2xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %w = xf.get @w : tensor<2xf32>
  dist.send %w to 1 channel 0 : tensor<2xf32>
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %x = dist.recv from 0 channel 0 : tensor<4xf32>
  return
}
// SIZE: error: 'dist.recv' op receives a value of 2 elements as 'tensor<4xf32>'
// SIZE: note: which is sent here

//--- bytes.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @stage_0 threads 1 {
  %a = exec.buffer "a" 16 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    exec.send(%a) -> () {stage = 1 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}
exec.program @stage_1 threads 1 {
  %a = exec.buffer "a" 12 : !exec.buffer
  exec.segment @all {
    exec.recv() -> (%a) {stage = 0 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}
// BYTES: error: 'exec.recv' op receives 16 bytes in a buffer of 12
// BYTES: note: which are sent here

//--- order.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @stage_0 threads 1 {
  %a = exec.buffer "a" 16 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    exec.send(%a) -> () {stage = 1 : i64, channel = 0 : i64}
  }
  exec.run @all 1 first
  exec.run @all 0
}
exec.program @stage_1 threads 1 {
  %a = exec.buffer "a" 16 : !exec.buffer
  exec.segment @all {
    exec.recv() -> (%a) {stage = 0 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
  exec.run @all 1
}
// ORDER: error: 'exec.recv' op receives for micro-batch 0 what stage 0 sends for micro-batch 1

//--- one.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @step(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %n = xf.count_tokens %targets : (tensor<1x2xi32>) -> tensor<f32>
  dist.send %n to 1 channel 0 : tensor<f32>
  return
}
// ONE: error: 'dist.send' op expects a step of several stages

//--- more.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
// MORE: error: expects a function named "step" of ids and targets, or an exec.program, or one of them for each stage of the mesh, "stage_0" and so on

//--- whole.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
xf.state @w parameter : tensor<2xf32, #dist.on<@mesh, [{pp}]>> {
  init = #xf.init<zeros, 0.0 : f64>}
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
// WHOLE: error: 'xf.state' op expects a value that stages have whole, got 'tensor<2xf32, #dist.on<@mesh, [{pp}]>>'

//--- data.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x4xi32>) {
  return
}
// DATA: error: 'func.func' op expects the data of other stages, 'tensor<1x2xi32>', got 'tensor<1x4xi32>'

//--- split.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @stage_0 threads 1 {
}
func.func @stage_1(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  return
}
exec.program @stage_2 threads 1 {
}
// SPLIT: error: expects a function named "step" of ids and targets

//--- global.mlir
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
!n = tensor<f32, #dist.on<@mesh, []>>
!ids = tensor<1x2xi32, #dist.on<@mesh, [{}, {}]>>
func.func @stage_0(%ids: !ids, %targets: !ids) {
  %n = xf.count_tokens %targets : (!ids) -> !n
  return
}
func.func @stage_1(%ids: !ids, %targets: !ids) {
  return
}
// GLOBAL: error: 'func.func' op expects local types in the stages of a pipeline
