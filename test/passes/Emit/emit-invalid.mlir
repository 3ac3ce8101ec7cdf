// RUN: split-file %s %t
// RUN: not cleave-translate --kernels-to-object %t/function.mlir 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not cleave-translate --kernels-to-ptx %t/function.mlir 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not cleave-translate --kernels-to-object %t/column.mlir 2>&1 | FileCheck %s --check-prefix=COLUMN
// RUN: not cleave-translate --kernels-to-object %t/division.mlir 2>&1 | FileCheck %s --check-prefix=DIVISION
// RUN: not cleave-translate --kernels-to-object %t/empty.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not cleave-translate --kernels-to-ptx %t/named.mlir 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: not cleave-translate --kernels-to-object --cpu=pdp11 %t/good.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not cleave-translate --kernels-to-object --cpu=x86-64-v2 %t/good.mlir 2>&1 | FileCheck %s --check-prefix=OLD

//--- function.mlir
// FUNCTION: 'math.cosh' op has no expansion in a kernel body
exec.kernel @k mode = flat, rows = 8, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %y = math.cosh %x : f32
  exec.yield %y : f32
}

//--- column.mlir
// COLUMN: expects an output with colStride 0 not to depend on the column
exec.kernel @k mode = row, rows = 8, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

//--- division.mlir
// DIVISION: 'arith.divsi' op has no expansion in a kernel body
exec.kernel @k mode = flat, rows = 8, columns = 1,
    inputs = [#exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<i32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: i32):
  %y = arith.divsi %x, %x : i32
  exec.yield %y : i32
}

//--- empty.mlir
// EMPTY: expects at least one row and column, got 0 and 8
exec.kernel @k mode = row, rows = 0, columns = 8,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 8), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

//--- named.mlir
// NAMED: expects no other kernel @k_multi, which is what several launches of it at once are
#flat = #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>
exec.kernel @k mode = flat, rows = 8, columns = 1, inputs = [#flat],
    outputs = [#flat] {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.kernel @k_multi mode = flat, rows = 9, columns = 1, inputs = [#flat],
    outputs = [#flat] {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.program @program threads 1 {
  %a = exec.buffer "x" 32 : !exec.buffer
  %b = exec.buffer "x" 32 : !exec.buffer
  %c = exec.buffer "x" 32 : !exec.buffer
  exec.segment @step {
    exec.launch(%a) -> (%b) {kernel = @k}
    exec.launch(%a) -> (%c) {kernel = @k}
  }
  exec.run @step 0 first
}

//--- good.mlir
// UNKNOWN: unknown x86-64 CPU "pdp11"
// OLD: expects an x86-64 CPU with AVX2 and FMA, got "x86-64-v2"
exec.kernel @k mode = flat, rows = 8, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  exec.yield %x : f32
}
