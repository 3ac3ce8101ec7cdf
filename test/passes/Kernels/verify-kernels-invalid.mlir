// RUN: cleave-opt %s --cleave-verify-kernels --split-input-file \
// RUN:   -verify-diagnostics

// expected-error @+1 {{'func.func' op is left, where only instructions are expected}}
func.func @step() { return }
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

// A kernel computes with scalars.
exec.kernel @k mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  // expected-error @+1 {{'xf.zeros' op is left, where only instructions are expected}}
  %t = xf.zeros : () -> tensor<f32>
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects 1 exec.program, got 0}}
module {
}

// -----

// expected-error @+1 {{expects 2 exec.program, by stage, got 1}}
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @stage_0 threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}
// expected-error @+1 {{expects to be named "stage_1"}}
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

// expected-error @+1 {{'exec.kernel' op is launched by no instruction}}
exec.kernel @k mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

exec.kernel @k mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %s = exec.shard_index : i32
  %f = arith.sitofp %s : i32 to f32
  exec.yield %f : f32
}
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{expects the shard_axes along which @k asks for its shard}}
    exec.launch(%a) -> (%a) {kernel = @k}
  }
  exec.run @all 0 first
}

// -----

exec.kernel @k mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.program @program threads 1 {
  %a = exec.buffer "a" 60 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{expects at least 16 elements of 'f32' in operand 0, got 60 bytes}}
    exec.launch(%a) -> (%a) {kernel = @k}
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{expects 8 elements of 'f32' in operand 0, got 64 bytes}}
    exec.all_reduce(%a) -> (%b) {elements = 8 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = []}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{expects 32 elements of 'f32' in operand 1, got 64 bytes}}
    exec.all_gather(%a) -> (%b) {outer = 1 : i64, inner = 16 : i64, type = f32,
      axes = ["dp"]}
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "a" 32 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{expects as many bytes in operand 1 as in operand 0, got 32 and 64}}
    exec.copy(%a) -> (%b)
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  // expected-error @+1 {{expects a state named @w}}
  %a = exec.buffer "a" 64 pinned of @w : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

xf.state @w parameter : tensor<16xf32> {init = #xf.init<zeros, 0.0 : f64>}
exec.program @program threads 1 {
  // expected-note @+1 {{the first buffer}}
  %a = exec.buffer "a" 64 pinned of @w : !exec.buffer
  // expected-error @+1 {{is a second buffer of @w}}
  %b = exec.buffer "a" 64 pinned of @w : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 128 : !exec.buffer
  // expected-error @+1 {{expects places from byte 0 on: nothing is cut into parts yet}}
  %v = exec.view %a 64 from 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%v)
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  // expected-error @+1 {{expects at most as many places as the program has runs, 1, got 2}}
  %v = exec.view %a 32 places 2 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%v)
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  // expected-note @+1 {{the other view}}
  %v = exec.view %a 32 places 2 : !exec.buffer
  // expected-error @+1 {{cuts its buffer otherwise than another view}}
  %u = exec.view %a 16 places 4 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%v)
  }
  exec.run @all 0 first
  exec.run @all 1
  exec.run @all 2
  exec.run @all 3
}

// -----

exec.program @program threads 1 {
  // expected-note @+1 {{the buffer}}
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{for micro-batch 0 reads a buffer that nothing has written}}
    exec.copy(%a) -> (%b)
  }
  exec.run @all 0 first
}

// -----

// The sum of the first run is never begun.
exec.kernel @k mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    accumulate = always {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  // expected-note @+1 {{the buffer}}
  %b = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{for micro-batch 0 reads a buffer that nothing has written}}
    exec.launch(%a) -> (%b) {kernel = @k}
  }
  exec.run @all 0 first
}

// -----

// Eight of sixteen elements are written.
exec.kernel @k mode = flat, rows = 8, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  // expected-note @+1 {{the buffer}}
  %b = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{for micro-batch 0 reads a buffer that nothing has written}}
    exec.launch(%a) -> (%b) {kernel = @k}
  }
  exec.run @all 0 first
}

// -----

// One place, and the next micro-batch has taken it.
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  // expected-note @+1 {{the buffer}}
  %b = exec.buffer "a" 64 : !exec.buffer
  %c = exec.buffer "a" 64 : !exec.buffer
  exec.segment @forward {
    exec.fill() -> (%b)
  }
  exec.segment @backward {
    // expected-error @+1 {{for micro-batch 0 reads what was written for micro-batch 1}}
    exec.copy(%b) -> (%c)
  }
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @backward 0 first
  exec.run @backward 1
}

// -----

// Likewise, with two places for three micro-batches.
exec.program @program threads 1 {
  // expected-note @+1 {{the buffer}}
  %a = exec.buffer "a" 128 : !exec.buffer
  %b = exec.buffer "a" 64 : !exec.buffer
  exec.segment @forward {
    %v = exec.view %a 64 places 2 : !exec.buffer
    exec.fill() -> (%v)
  }
  exec.segment @backward {
    %v = exec.view %a 64 places 2 : !exec.buffer
    // expected-error @+1 {{for micro-batch 0 reads what was written for micro-batch 2}}
    exec.copy(%v) -> (%b)
  }
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @forward 2
  exec.run @backward 0 first
  exec.run @backward 1
  exec.run @backward 2
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  // expected-note @+1 {{the buffer}}
  %b = exec.buffer "a" 64 : !exec.buffer
  %c = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    exec.all_reduce(%a) -> (%b) {elements = 32 : i64, type = bf16,
      reduction = #exec<reduction sum>, axes = []}
    // expected-error @+1 {{for micro-batch 0 reads elements of another type than were written: 'f32' and 'bf16'}}
    exec.all_reduce(%b) -> (%c) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = []}
  }
  exec.run @all 0 first
}

// -----

// Two segments begin the same sum.
exec.kernel @k mode = flat, rows = 16, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    accumulate = after_first {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "a" 64 : !exec.buffer
  exec.segment @one {
    exec.fill() -> (%a)
    // expected-note @+1 {{a part of it}}
    exec.launch(%a) -> (%b) {kernel = @k}
  }
  exec.segment @two {
    // expected-error @+1 {{for micro-batch 0 overwrites a sum that nothing has read}}
    exec.launch(%a) -> (%b) {kernel = @k}
  }
  exec.run @one 0 first
  exec.run @two 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
  // expected-error @+1 {{expects to be `first` where it is its segment's first run, and nowhere else}}
  exec.run @all 1 first
}

// -----

xf.state @w parameter : tensor<16xf32> {init = #xf.init<zeros, 0.0 : f64>}
exec.program @program threads 1 {
  %w = exec.buffer "a" 64 pinned of @w : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{writes @w before the update begins}}
    exec.fill() -> (%w)
  }
  exec.run @all 0 first
}

// -----

xf.state @c constant : tensor<16xf32> {init = #xf.init<zeros, 0.0 : f64>}
exec.program @program threads 1 {
  %w = exec.buffer "a" 64 pinned of @c : !exec.buffer
  exec.segment @all updates {
    // expected-error @+1 {{writes @c, which is constant}}
    exec.fill() -> (%w)
  }
  exec.run @all 0 first
}

// -----

xf.state @w parameter : tensor<16xf32> {init = #xf.init<zeros, 0.0 : f64>}
exec.program @program threads 1 {
  %w = exec.buffer "a" 64 pinned of @w : !exec.buffer
  exec.segment @all updates {
    // expected-note @+1 {{updated here}}
    exec.fill() -> (%w)
    // expected-error @+1 {{updates @w a second time}}
    exec.fill() -> (%w)
  }
  exec.run @all 0 first
}

// -----

xf.state @w parameter : tensor<16xf32> {init = #xf.init<zeros, 0.0 : f64>}
exec.program @program threads 1 {
  // expected-error @+1 {{holds @w, which nothing updates}}
  %w = exec.buffer "a" 64 pinned of @w : !exec.buffer
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.copy(%w) -> (%a)
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "a" 64 : !exec.buffer
  // expected-error @+1 {{is a buffer that nothing has written}}
  exec.output "b" %b : tensor<16xf32>
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "a" 64 : !exec.buffer
  // expected-error @+1 {{expects elements of 'i32', got 'f32'}}
  exec.output "b" %b : tensor<16xi32>
  exec.segment @all {
    exec.fill() -> (%a)
    exec.all_reduce(%a) -> (%b) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = []}
  }
  exec.run @all 0 first
}

// -----

%a = exec.buffer "a" 64 : !exec.buffer
exec.program @program threads 1 {
  exec.segment @all {
    // expected-error @+1 {{expects operand 0 to be a buffer of the program, or a view of one}}
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

%a = exec.buffer "a" 64 : !exec.buffer
exec.program @program threads 1 {
  // expected-error @+1 {{expects a buffer of the program}}
  %v = exec.view %a 32 places 2 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%v)
  }
  exec.run @all 0 first
  exec.run @all 1
}

// -----

%a = exec.buffer "a" 64 : !exec.buffer
exec.program @program threads 1 {
  %b = exec.buffer "b" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%b)
  }
  exec.run @all 0 first
  // expected-error @+1 {{expects a buffer of the program}}
  exec.output "x" %a : tensor<16xf32> {logical = array<i64: 16>}
}

// -----

exec.program @program threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    // expected-error @+1 {{expects axes of the module's mesh, got "dp"}}
    exec.all_reduce(%a) -> (%a) {elements = 16 : i64, type = f32,
        reduction = #exec<reduction sum>, axes = ["dp"]}
  }
  exec.run @all 0 first
}
