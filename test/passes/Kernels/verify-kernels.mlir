// RUN: cleave-opt %s --cleave-verify-kernels | FileCheck %s

// A parameter's gradient is summed over three micro-batches, of which two at a
// time keep what they computed, and updates it.
// CHECK: exec.program @program
dist.mesh @mesh [#dist.axis<"dp" = 2>]
xf.state @w parameter : tensor<16xf32, #dist.on<@mesh, [{}]>>
    {init = #xf.init<zeros, 0.0 : f64>}
xf.state @c constant : tensor<16xf32, #dist.on<@mesh, [{dp}]>>
    {init = #xf.init<zeros, 0.0 : f64>}
exec.kernel @double mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %y = arith.addf %x, %x : f32
  exec.yield %y : f32
}
exec.kernel @add mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    accumulate = after_first {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.program @program threads 1 {
  %w = exec.buffer "parameters" 64 pinned of @w : !exec.buffer
  %c = exec.buffer "constants" 32 pinned of @c : !exec.buffer
  %ids = exec.buffer "data" 192 pinned {data = "ids"} : !exec.buffer
  %all = exec.buffer "activations" 64 : !exec.buffer
  %kept = exec.buffer "activations" 128 : !exec.buffer
  %mine = exec.view %kept 64 places 2 : !exec.buffer
  %sum = exec.buffer "gradients" 64 : !exec.buffer
  %shown = exec.buffer "outputs" 192 pinned : !exec.buffer
  exec.output "ids" %shown : tensor<3x16xi32>
  exec.segment @before {
    exec.all_gather(%c) -> (%all) {outer = 1 : i64, inner = 8 : i64, type = f32,
      axes = ["dp"]}
  }
  exec.segment @forward {
    %own = exec.view %ids 64 places 3 : !exec.buffer
    %out = exec.view %shown 64 places 3 : !exec.buffer
    exec.launch(%all) -> (%mine) {kernel = @double}
    exec.copy(%own) -> (%out)
  }
  exec.segment @backward {
    exec.launch(%mine) -> (%sum) {kernel = @add}
  }
  exec.segment @update updates {
    exec.launch(%sum) -> (%w) {kernel = @double}
  }
  exec.run @before 0 first
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @backward 0 first
  exec.run @forward 2
  exec.run @backward 1
  exec.run @backward 2
  exec.run @update 0 first
}
