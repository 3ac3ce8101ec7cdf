// RUN: cleave-opt %s -split-input-file -verify-diagnostics

// Each error of the dialect's verifiers.

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// expected-error @+1 {{expects its body to end in exec.yield}}
exec.kernel @no_yield mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  %y = arith.addf %x, %x : f32
}

// -----

// expected-error @+1 {{expects 1 block arguments, one per input, got 2}}
exec.kernel @arguments mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32, %z: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects 1 yielded values, one per output, got 2}}
exec.kernel @yields mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x, %x : f32, f32
}

// -----

// expected-error @+1 {{expects input 0 to be 'f32', got 'i32'}}
exec.kernel @input_type mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: i32):
  %y = arith.constant 0.0 : f32
  exec.yield %y : f32
}

// -----

// expected-error @+1 {{expects input 0 to be 'f32', got 'bf16'}}
exec.kernel @widened_input mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: bf16):
  %y = arith.constant 0.0 : f32
  exec.yield %y : f32
}

// -----

// expected-error @+1 {{expects output 0 to be 'f32', got 'i32'}}
exec.kernel @output_type mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  %c = exec.column : i32
  exec.yield %c : i32
}

// -----

// expected-error @+1 {{expects the colStride of input 0 to be 0 or 1, got 2}}
exec.kernel @input_stride mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 2>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects the colStride of output 0 to be 0 or 1, got -1}}
exec.kernel @output_stride mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = -1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects the rowDiv of input 0 to be at least 1 and rowMod at least 0}}
exec.kernel @row_divisor mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (0, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects the rowDiv of input 0 to be at least 1 and rowMod at least 0}}
exec.kernel @row_modulus mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, -1, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

exec.kernel @accumulate mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    // expected-error @+2 {{expected ::cleave::exec::Accumulate to be one of: never, always, after_first}}
    // expected-error @+1 {{failed to parse Exec_AccumulateAttr parameter 'value'}}
    accumulate = sometimes {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects one column in flat mode, got 8}}
exec.kernel @flat_columns mode = flat, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects exec.row_reduce in row mode only}}
exec.kernel @flat_reduction mode = flat, rows = 4, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %s = exec.row_reduce sum %x : f32
  exec.yield %s : f32
}

// -----

// expected-error @+1 {{expects exec.row_reduce in row mode only}}
exec.kernel @column_reduction mode = column, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>] {
^bb0(%x: f32):
  %s = exec.row_reduce sum %x : f32
  exec.yield %s : f32
}

// -----

// expected-error @+1 {{expects output 0 to be a vector along the columns in column mode}}
exec.kernel @column_output_of_rows mode = column, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects output 0 to be a vector along the columns in column mode}}
exec.kernel @column_output_of_one mode = column, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 1, 0), col = 0>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

func.func @yield_outside(%x: f32) {
  // expected-error @+1 {{expects parent op 'exec.kernel'}}
  exec.yield %x : f32
}

// -----

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

// expected-error @+1 {{expects 1 to 70368744177664 bytes, got 0}}
%b = exec.buffer "activations" 0 : !exec.buffer

// -----

// expected-error @+1 {{expects 1 to 70368744177664 bytes, got 9223372036854775807}}
%b = exec.buffer "activations" 9223372036854775807 : !exec.buffer

// -----

// expected-error @+1 {{expects an offset that is a multiple of 64, and at most 70368744177664, got 32}}
%b = exec.buffer "activations" 4096 at 32 : !exec.buffer

// -----

// expected-error @+1 {{expects an offset that is a multiple of 64, and at most 70368744177664, got }}
%b = exec.buffer "activations" 4096 at -64 : !exec.buffer

// -----

// A kernel's names are its own, also while the file is read.
exec.kernel @uses mode = row, rows = 2, columns = 2,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 2), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 2), col = 1>] {
^bb0(%x: f32):
  // expected-error @+1 {{use of undeclared SSA value name}}
  exec.yield %other : f32
}
exec.kernel @has mode = row, rows = 2, columns = 2,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 2), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 2), col = 1>] {
^bb0(%x: f32):
  %other = arith.mulf %x, %x : f32
  exec.yield %other : f32
}

// -----

//===----------------------------------------------------------------------===//
// What instructions and outputs name
//===----------------------------------------------------------------------===//

dist.mesh @mesh [#dist.axis<"tp" = 4>]
%a = exec.buffer "activations" 32 : !exec.buffer
%b = exec.buffer "activations" 32 : !exec.buffer
// expected-error @+1 {{'exec.all_reduce' op expects axes of ["tp"=4], got "zz"}}
exec.all_reduce(%a) -> (%b) {elements = 8 : i64, type = f32, reduction = #exec<reduction sum>, axes = ["zz"]}

// -----

%a = exec.buffer "activations" 32 : !exec.buffer
// expected-error @+1 {{'exec.launch' op expects a kernel named @missing}}
exec.launch(%a) -> (%a) {kernel = @missing}

// -----

exec.kernel @copy mode = flat, rows = 8, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  exec.yield %x : f32
}
%a = exec.buffer "activations" 32 : !exec.buffer
// expected-error @+1 {{'exec.launch' op expects the 1 inputs and 1 outputs of @copy, got 2 and 1}}
exec.launch(%a, %a) -> (%a) {kernel = @copy}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 4>]
%a = exec.buffer "outputs" 4 : !exec.buffer
// expected-error @+1 {{'exec.output' op expects a value that is whole or partial by sum}}
exec.output "loss" %a : tensor<f32, #dist.on<@mesh, [], max = {tp}>>

// -----

dist.mesh @mesh [#dist.axis<"tp" = 4>]
%a = exec.buffer "outputs" 32 : !exec.buffer
// expected-error @+1 {{'exec.output' op expects a buffer of this rank's shard}}
exec.output "logits" %a : tensor<8xf32, #dist.on<@mesh, [{tp}]>>

// -----

// expected-error @+1 {{expects at least one row and column, got 0 and 8}}
exec.kernel @no_rows mode = row, rows = 0, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects the offset and rowStride of input 0 to be at least 0}}
exec.kernel @before_the_buffer mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f32, offset = -1, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

// expected-error @+1 {{expects input 0 of f32, bf16 or i32, got 'f16'}}
exec.kernel @half mode = row, rows = 4, columns = 8,
    inputs = [#exec.access<f16, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

//===----------------------------------------------------------------------===//
// Segments and runs
//===----------------------------------------------------------------------===//

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects 4 places of 2048 bytes from 0 on in a buffer of 4096}}
%v = exec.view %b 2048 places 4 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects 4 places of 1000 bytes from 0 on in a buffer of 4096}}
%v = exec.view %b 1000 places 4 stride 1088 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects a stride of at least the 1000 bytes of a place, and places, got 960}}
%v = exec.view %b 1000 places 4 stride 960 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects a stride of at least the 1000 bytes of a place, and places, got 1024}}
%v = exec.view %b 1000 stride 1024 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects a stride of at least the 64 bytes of a place, and places, got -64}}
%v = exec.view %b 64 places 2 stride -64 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects at least one byte, and no places or some, got 64 and -1}}
%v = exec.view %b 64 places -1 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects to begin at a multiple of 64 bytes, got 32}}
%v = exec.view %b 64 from 32 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
// expected-error @+1 {{expects 0 places of 1024 bytes from 3136 on in a buffer of 4096}}
%v = exec.view %b 1024 from 3136 : !exec.buffer

// -----

%b = exec.buffer "activations" 4096 : !exec.buffer
%v = exec.view %b 2048 places 2 : !exec.buffer
// expected-error @+1 {{expects a view of an exec.buffer}}
%w = exec.view %v 64 places 2 : !exec.buffer

// -----

exec.program @step threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  // expected-error @+1 {{expects to stand in an exec.segment}}
  exec.fill() -> (%b)
}

// -----

exec.program @step threads 1 {
  exec.segment @a {
  }
  // expected-error @+1 {{is a second segment named "a"}}
  exec.segment @a {
  }
  exec.run @a 0 first
}

// -----

exec.program @step threads 1 {
  exec.segment @a {
  }
  // expected-error @+1 {{expects a segment of this program, got @b}}
  exec.run @b 0 first
}

// -----

exec.program @step threads 1 {
  exec.segment @a {
  }
  // expected-error @+1 {{'exec.segment' op is never run}}
  exec.segment @b {
  }
  exec.run @a 0 first
}

// -----

exec.program @step threads 1 {
  exec.segment @a {
  }
  exec.segment @b {
  }
  // expected-error @+1 {{runs @b before the segment @a, which stands before it}}
  exec.run @b 0 first
  exec.run @a 0 first
}

// -----

exec.program @step threads 1 {
  exec.segment @a {
  }
  exec.segment @update updates {
  }
  exec.run @a 0 first
  exec.run @update 0 first
  // expected-error @+1 {{runs @a after a segment that updates}}
  exec.run @a 1
}

// -----

exec.program @step threads 1 {
  exec.segment @a {
  }
  // expected-error @+1 {{expects a micro-batch of at least 0, got -1}}
  exec.run @a -1 first
}

// -----

// expected-error @+1 {{expects at most 70368744177664 elements, got 256 rows of 9223372036854775807 columns}}
exec.kernel @too_large mode = row, rows = 256, columns = 9223372036854775807,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @send_too_far threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.send' op expects a stage below 2, got 2}}
    exec.send(%b) -> () {stage = 2 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @recv_below_0 threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.recv' op expects a stage of at least 0, got -1}}
    exec.recv() -> (%b) {stage = -1 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @send_channel threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.send' op expects a channel of at least 0, got -1}}
    exec.send(%b) -> () {stage = 1 : i64, channel = -1 : i64}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @recv_channel threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.recv' op expects a channel of at least 0, got -1}}
    exec.recv() -> (%b) {stage = 1 : i64, channel = -1 : i64}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @send_nothing threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.send' op expects 1 inputs and 0 outputs, got}}
    exec.send() -> () {stage = 1 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @send_back threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.send' op expects 1 inputs and 0 outputs, got}}
    exec.send(%b) -> (%b) {stage = 1 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @recv_nothing threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.recv' op expects 0 inputs and 1 outputs, got}}
    exec.recv() -> () {stage = 1 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.program @recv_two threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.recv' op expects 0 inputs and 1 outputs, got}}
    exec.recv() -> (%b, %b) {stage = 1 : i64, channel = 0 : i64}
  }
  exec.run @all 0 first
}

// -----

exec.program @no_stream threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{expects a stream of 0 to 7, got 8}}
    exec.fill() -> (%b) {exec.order = #exec.order<8, event = 0>}
  }
  exec.run @all 0 first
}

// -----

exec.program @no_event threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{expects an event of 0 to 16777215, got -1}}
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = -1>}
  }
  exec.run @all 0 first
}

// -----

exec.program @high_event threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{expects an event of 0 to 16777215, got 9223372036854775807}}
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = 9223372036854775807>}
  }
  exec.run @all 0 first
}

// -----

exec.program @wait_for_no_event threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{expects to wait for events of 1 to 16777215, got 0}}
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = 1, waits = [0]>}
  }
  exec.run @all 0 first
}

// -----

exec.program @not_recorded threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.fill' op waits for event 2, which no instruction of its program records}}
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = 1, waits = [2]>}
  }
  exec.run @all 0 first
}

// -----

exec.program @recorded_twice threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-note @+1 {{which this records, too}}
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = 1>}
    // expected-error @+1 {{'exec.fill' op records event 1}}
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = 1>}
  }
  exec.run @all 0 first
}

// -----

// expected-error @+1 {{'exec.kernel' op is no instruction, and has exec.order}}
exec.kernel @kernel mode = flat, rows = 4, columns = 1,
    inputs = [], outputs = [] {
  exec.yield
} {exec.order = #exec.order<1, event = 1>}

// -----

exec.program @other_attribute threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.fill' op expects exec.order to be an #exec.order, got 1}}
    exec.fill() -> (%b) {exec.order = 1 : i64}
  }
  exec.run @all 0 first
}

// -----

exec.program @unknown_attribute threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.fill' op has an attribute "exec.stream", which exec does not have}}
    exec.fill() -> (%b) {exec.stream = 1 : i64}
  }
  exec.run @all 0 first
}

// -----

// expected-error @+1 {{expects seq_len of at least 1, got 0}}
exec.workload {vocab = 8 : i64, seq_len = 0 : i64, global_batch = 4 : i64,
    micro_batches = 2 : i64, batch_axes = [], flops = 0.0 : f64}

// -----

// expected-error @+1 {{expects a global_batch that its 3 micro_batches divide, got 4}}
exec.workload {vocab = 8 : i64, seq_len = 4 : i64, global_batch = 4 : i64,
    micro_batches = 3 : i64, batch_axes = [], flops = 0.0 : f64}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>]
// expected-error @+1 {{expects axes of ["dp"=2], got "tp"}}
exec.workload {vocab = 8 : i64, seq_len = 4 : i64, global_batch = 4 : i64,
    micro_batches = 2 : i64, batch_axes = ["tp"], flops = 0.0 : f64}

// -----

// expected-error @+1 {{is not the only one of its module}}
exec.workload {vocab = 8 : i64, seq_len = 4 : i64, global_batch = 4 : i64,
    micro_batches = 2 : i64, batch_axes = [], flops = 0.0 : f64}
exec.workload {vocab = 8 : i64, seq_len = 4 : i64, global_batch = 4 : i64,
    micro_batches = 2 : i64, batch_axes = [], flops = 0.0 : f64}

// -----

exec.program @step threads 1 {
  %b = exec.buffer "data" 16 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{has type f64, which the program format does not have}}
    exec.all_gather(%b) -> (%b) {outer = 1 : i64, inner = 2 : i64, type = f64,
        axes = []}
  }
  exec.run @all 0 first
}

// -----

exec.program @step threads 1 {
  %b = exec.buffer "data" 16 : !exec.buffer
  // expected-error @+1 {{expects a logical shape that fits in 'tensor<4xf32>', got [5]}}
  exec.output "x" %b : tensor<4xf32> {logical = array<i64: 5>}
}

// -----

exec.program @step threads 1 {
  %b = exec.buffer "data" 16 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{expects 3 inputs and 1 outputs, got 2 and 1}}
    exec.gemm(%b, %b) -> (%b) {m = 2 : i64, n = 2 : i64, k = 2 : i64,
        trans_a = false, trans_b = false, type_a = f32, type_b = f32,
        type_c = f32, accumulate = #exec<accumulate never>, has_bias = true}
  }
  exec.run @all 0 first
}

// -----

exec.program @no_bucket threads 1 {
  %b = exec.buffer "activations" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.fill' op begins together with the next instruction, expects an all_reduce, all_gather or reduce_scatter}}
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = 0 with_next = true>}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 2>]
exec.program @no_blocks threads 1 {
  %x = exec.buffer "x" 64 : !exec.buffer
  %y = exec.buffer "y" 128 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{'exec.all_gather' op expects at least one block, got 0}}
    exec.all_gather(%x) -> (%y) {axes = ["tp"], blocks = 0 : i64, inner = 16 : i64, outer = 1 : i64, type = f32}
  }
  exec.run @all 0 first
}
