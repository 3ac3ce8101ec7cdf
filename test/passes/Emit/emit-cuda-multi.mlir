// A kernel that neighbouring launches have in common is there a second time, for several
// of them at once: the operands' addresses and the shard index are read from the row of a
// table that the block's y says.
//
// RUN: cleave-translate --kernels-to-ptx %s | FileCheck %s \
// RUN:   --implicit-check-not=alone_multi --implicit-check-not=apart_multi \
// RUN:   --implicit-check-not=sums_multi

// CHECK-LABEL: .visible .entry twice(
// CHECK: .visible .entry twice_multi(
// CHECK-NEXT: .param .u64 .ptr .global {{.*}}twice_multi_param_0,
// CHECK-NEXT: .param .u64 twice_multi_param_1
// CHECK: %ctaid.y
// CHECK: ld.global.b64
// CHECK: ld.global.b64
// CHECK: ld.global.v4.b32
// CHECK: st.global.v4.b32
#flat = #exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>
exec.kernel @twice mode = flat, rows = 4096, columns = 1, inputs = [#flat],
    outputs = [#flat] {
^bb0(%x: f32):
  %y = arith.addf %x, %x : f32
  exec.yield %y : f32
}

// Launched once, and with another instruction in between.
exec.kernel @alone mode = flat, rows = 4096, columns = 1, inputs = [#flat],
    outputs = [#flat] {
^bb0(%x: f32):
  exec.yield %x : f32
}
exec.kernel @apart mode = flat, rows = 4096, columns = 1, inputs = [#flat],
    outputs = [#flat] {
^bb0(%x: f32):
  %y = arith.mulf %x, %x : f32
  exec.yield %y : f32
}

// Its blocks meet in memory that a stream has once.
exec.kernel @sums mode = column, rows = 65536, columns = 64,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 64), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

exec.program @program threads 1 {
  %a = exec.buffer "x" 16777216 : !exec.buffer
  %b = exec.buffer "x" 16777216 : !exec.buffer
  exec.segment @step {
    exec.launch(%a) -> (%b) {kernel = @twice}
    exec.launch(%a) -> (%b) {kernel = @sums}
    exec.launch(%b) -> (%a) {kernel = @twice}
    exec.launch(%a) -> (%b) {kernel = @sums}
    exec.launch(%a) -> (%b) {kernel = @alone}
    exec.launch(%a) -> (%b) {kernel = @apart}
    exec.fill() -> (%a)
    exec.launch(%a) -> (%b) {kernel = @apart}
  }
  exec.run @step 0 first
}
