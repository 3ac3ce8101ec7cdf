// RUN: cleave-translate --kernels-to-llvm-ir --cpu=x86-64-v4 %s | FileCheck %s
// RUN: cleave-translate --kernels-to-llvm-ir --cpu=x86-64-v3 %s | FileCheck %s --check-prefix=AVX2
// RUN: cleave-translate --kernels-to-object --cpu=x86-64-v3 %s -o %t.o
// RUN: %{llvm}/llvm-readelf -SsW %t.o | FileCheck %s --check-prefix=ELF

// The table that the runtime reads, and the program, which the linker keeps.
// CHECK: @cleave_kernels = constant [4 x { ptr, ptr }] [{ ptr, ptr } { ptr @{{.*}}, ptr @rms_norm }
// CHECK: @cleave_program = {{.*}}section ".cleave.program", align 64

// ELF: .cleave.program PROGBITS {{.*}} AR
// ELF-DAG: OBJECT GLOBAL DEFAULT {{.*}} cleave_kernels
// ELF-DAG: OBJECT GLOBAL DEFAULT {{.*}} cleave_kernel_count
// ELF-DAG: OBJECT GLOBAL DEFAULT {{.*}} cleave_program
// ELF-DAG: OBJECT GLOBAL DEFAULT {{.*}} cleave_program_size
// ELF-NOT: UND {{[a-z]}}

// Four accumulators, then one scale per row; the tail of 32 needs no mask.
// CHECK-LABEL: define internal void @rms_norm(
// CHECK-COUNT-4: call <16 x float> @llvm.fma.v16f32
// CHECK-COUNT-3: fadd <16 x float>
// CHECK: call reassoc float @llvm.vector.reduce.fadd.v16f32
// CHECK: call float @llvm.sqrt.f32
// CHECK-NOT: masked
// CHECK: ret void
// AVX2-LABEL: define internal void @rms_norm(
// AVX2-COUNT-4: call <8 x float> @llvm.fma.v8f32
exec.kernel @rms_norm mode = row, rows = 256, columns = 800,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 800), col = 1>,
              #exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 800), col = 1>] {
^bb0(%x: f32, %w: f32):
  %xx = arith.mulf %x, %x : f32
  %sum = exec.row_reduce sum %xx : f32
  %n = arith.constant 800.0 : f32
  %mean = arith.divf %sum, %n : f32
  %r = math.rsqrt %mean : f32
  %xr = arith.mulf %x, %r : f32
  %y = arith.mulf %xr, %w : f32
  exec.yield %y : f32
}

// What is dear to compute is kept from one pass over the row to the next: one
// exp per element, in the second of three loops.
// CHECK-LABEL: define internal void @softmax(
// CHECK: alloca [1008 x float], align 64
// CHECK: @llvm.vector.reduce.fmaximum.v16f32
// CHECK: @llvm.fma.v16f32
// CHECK: @llvm.vector.reduce.fadd.v16f32
// CHECK-NOT: @llvm.fma.v16f32
// CHECK: fdiv <16 x float>
// CHECK: @llvm.masked.store.v16f32
// CHECK: ret void
exec.kernel @softmax mode = row, rows = 4, columns = 1005,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 1005), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 0, 1005), col = 1>] {
^bb0(%x: f32):
  %max = exec.row_reduce max %x : f32
  %shifted = arith.subf %x, %max : f32
  %exp = math.exp %shifted : f32
  %sum = exec.row_reduce sum %exp : f32
  %y = arith.divf %exp, %sum : f32
  exec.yield %y : f32
}

// Rows of 24 do not matter where nothing depends on them: 72 per 3 rows, as one
// loop. Storage is bf16, rounded by integer arithmetic.
// CHECK-LABEL: define internal void @scale(
// CHECK-SAME: i64 %[[BEGIN:[0-9]+]], i64 %{{[0-9]+}})
// CHECK: mul i64 %[[BEGIN]], 24
// CHECK: load <16 x i16>
// CHECK: fmul <16 x float>
// CHECK: store <16 x i16>
// CHECK: @llvm.masked.load.v16i16
// CHECK-NOT: br label
// CHECK: @llvm.masked.store.v16i16
exec.kernel @scale mode = row, rows = 3, columns = 24,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 24), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 24), col = 1>] {
^bb0(%x: f32):
  %c = arith.constant 3.0 : f32
  %y = arith.mulf %x, %c : f32
  exec.yield %y : f32
}

// Four rows at a time onto sums that stay in the first cache level.
// CHECK-LABEL: define internal void @bias_grad(
// CHECK: alloca [1024 x float], align 64
// CHECK: fadd <16 x float>
// CHECK: fadd <16 x float>
// CHECK: fadd <16 x float>
exec.kernel @bias_grad mode = column, rows = 64, columns = 4096,
    inputs = [#exec.access<f32, offset = 0, row = (1, 0, 4096), col = 1>],
    outputs = [#exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>],
    accumulate = after_first {
^bb0(%x: f32):
  exec.yield %x : f32
}
