// RUN: cleave-translate --kernels-to-ptx %s | FileCheck %s
// RUN: cleave-translate --kernels-to-ptx %s | FileCheck %s --check-prefix=NONE

// Nothing from elsewhere, nothing spilt.
// NONE-NOT: .extern
// NONE-NOT: .local
// NONE-NOT: call

// CHECK: .target sm_90

// Two warps have a row, of which each thread reads 16 bytes four times, and the
// sum of its squares needs all of it. x is read once, though used twice; the
// weight, which is the same in all rows, when it is needed.
// CHECK-LABEL: .visible .entry rms_norm(
// CHECK: .maxntid 64
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.bfly.b32
// CHECK: st.shared.b32
// CHECK: bar.sync
// CHECK: sqrt.rn.f32
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
exec.kernel @rms_norm mode = row, rows = 256, columns = 1024,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1024), col = 1>,
              #exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1024), col = 1>] {
^bb0(%x: f32, %w: f32):
  %xx = arith.mulf %x, %x : f32
  %sum = exec.row_reduce sum %xx : f32
  %n = arith.constant 1024.0 : f32
  %mean = arith.divf %sum, %n : f32
  %r = math.rsqrt %mean : f32
  %xr = arith.mulf %x, %r : f32
  %y = arith.mulf %xr, %w : f32
  exec.yield %y : f32
}

// Eight threads share a row of 64 bf16: no shared memory, three shuffles.
// CHECK-LABEL: .visible .entry row_max(
// CHECK: .maxntid 128
// CHECK-NOT: .shared
// CHECK: ld.global.v4.b32
// CHECK-COUNT-3: shfl.sync.bfly.b32
// CHECK-NOT: shfl
// CHECK: st.global.b32
exec.kernel @row_max mode = row, rows = 256, columns = 64,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 64), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %max = exec.row_reduce max %x : f32
  exec.yield %max : f32
}

// A warp has a short row, and nothing waits for another one: layer norms of
// GPT-2.
// CHECK-LABEL: .visible .entry center(
// CHECK: .maxntid 128
// CHECK-NOT: .shared
// CHECK-COUNT-3: ld.global.v4.b32
// CHECK-NOT: {{ld.global|bar.sync}}
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK-NOT: {{ld.global|bar.sync}}
// CHECK: cvt.rn.bf16x2.f32
// CHECK: st.global.v4.b32
exec.kernel @center mode = row, rows = 256, columns = 768,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 768), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 768), col = 1>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  %n = arith.constant 768.0 : f32
  %mean = arith.divf %sum, %n : f32
  %y = arith.subf %x, %mean : f32
  exec.yield %y : f32
}

// A row too long to be kept. The sum follows the maximum, so that each trip
// reads but once, four vectors at a time: a loop, and one trip behind it. All
// columns of a group are nearly always below 50257; then nothing is compared.
// CHECK-LABEL: .visible .entry log_sum(
// CHECK: .maxntid 128
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: setp.gt.s32 [[PAST:%p[0-9]+]], {{%r[0-9]+}}, 50256
// CHECK: @[[PAST]] bra
// CHECK-NOT: {{setp|selp}}
// CHECK-COUNT-33: ex2.approx.ftz.f32
// CHECK-NOT: {{setp|selp|ex2}}
// CHECK: bra
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK: st.global.b32
exec.kernel @log_sum mode = row, rows = 4096, columns = 50304,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 50304), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %column = exec.column : i32
  %vocab = arith.constant 50257 : i32
  %in = arith.cmpi slt, %column, %vocab : i32
  %lowest = arith.constant -3.40282347e+38 : f32
  %inside = arith.select %in, %x, %lowest : f32
  %max = exec.row_reduce max %inside : f32
  %shifted = arith.subf %x, %max : f32
  %exp = math.exp %shifted : f32
  %zero = arith.constant 0.0 : f32
  %kept = arith.select %in, %exp, %zero : f32
  %sum = exec.row_reduce sum %kept : f32
  %log = math.log %sum : f32
  %y = arith.addf %max, %log : f32
  exec.yield %y : f32
}

// CHECK-LABEL: .visible .entry silu(
// CHECK: ld.global.v4.b32
// CHECK: ex2.approx.ftz.f32
// CHECK: div.full.f32
// CHECK-COUNT-4: cvt.rn.bf16x2.f32
// CHECK: st.global.v4.b32
exec.kernel @silu mode = flat, rows = 65536, columns = 1,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %minus = arith.negf %x : f32
  %e = math.exp %minus : f32
  %one = arith.constant 1.0 : f32
  %d = arith.addf %e, %one : f32
  %y = arith.divf %x, %d : f32
  exec.yield %y : f32
}

// Warps share the rows, of which each reads eight before it adds the first; the
// sums of each are added in order.
// CHECK-LABEL: .visible .entry bias_grad(
// CHECK: .maxntid 256
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: bar.sync
// CHECK-COUNT-8: ld.shared.v4.b32
// CHECK-NOT: atom
// CHECK: st.global.v4.b32
exec.kernel @bias_grad mode = column, rows = 64, columns = 4096,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 4096), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}

// A sigmoid divides in one instruction.
// CHECK-LABEL: .visible .entry sigmoid(
// CHECK: rcp.approx.ftz.f32
// CHECK-NOT: div
// CHECK: st.global.v4.b32
exec.kernel @sigmoid mode = flat, rows = 65536, columns = 1,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>] {
^bb0(%x: f32):
  %minus = arith.negf %x : f32
  %e = math.exp %minus : f32
  %one = arith.constant 1.0 : f32
  %d = arith.addf %e, %one : f32
  %y = arith.divf %one, %d : f32
  exec.yield %y : f32
}

// Many rows are in parts. Each block leaves its sums in scratch memory, before
// it counts itself; the last one adds up all of them.
// CHECK-LABEL: .visible .entry tall_bias_grad(
// CHECK: st.global.v4.b32
// CHECK: fence.acq_rel.gpu
// CHECK: bar.sync
// CHECK: atom{{.*}}.add
// CHECK: bar.sync
// CHECK: fence.acq_rel.gpu
// CHECK: ld.global.v4.b32
// CHECK: bar.sync
// CHECK: st.global.v4.b32
exec.kernel @tall_bias_grad mode = column, rows = 4096, columns = 1024,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 1024), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>] {
^bb0(%x: f32):
  exec.yield %x : f32
}
