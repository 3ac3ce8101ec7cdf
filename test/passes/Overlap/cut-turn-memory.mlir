// RUN: cleave-opt %s --cleave-cut-turn="cluster=h100-sxm:2" --split-input-file \
// RUN:   2>/dev/null | FileCheck %s
// A device has 80 GB, of which 78.5 are a program's, and buffers in use have 95 %
// of those: 69 GiB.

// Logits and their gradient of 64 GiB each: halves fit, and quarters would, too.
module {
exec.kernel @loss_grad mode = row, rows = 262144, columns = 131072,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 131072), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 131072), col = 1>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  %d = arith.subf %x, %sum : f32
  exec.yield %d : f32
}
// CHECK-LABEL: exec.program @halves
exec.program @halves threads 1 {
  %x = exec.buffer "activations" 536870912 pinned : !exec.buffer
  %w = exec.buffer "parameters" 268435456 pinned : !exec.buffer
  %logits = exec.buffer "activations" 68719476736 : !exec.buffer
  %dlogits = exec.buffer "activations" 68719476736 : !exec.buffer
  %dw = exec.buffer "gradients" 536870912 pinned : !exec.buffer
  // CHECK-COUNT-2: exec.buffer "activations" 34359738368 :
  // CHECK: m = 131072 : i64
  exec.segment @step {
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 1024 : i64, m = 262144 : i64, n = 131072 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate never>, has_bias = false, k = 262144 : i64, m = 131072 : i64, n = 1024 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}

// -----

// Of 96 GiB each, thirds.
module {
exec.kernel @loss_grad mode = row, rows = 393216, columns = 131072,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 131072), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 131072), col = 1>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  %d = arith.subf %x, %sum : f32
  exec.yield %d : f32
}
// CHECK-LABEL: exec.program @quarters
exec.program @quarters threads 1 {
  %x = exec.buffer "activations" 805306368 pinned : !exec.buffer
  %w = exec.buffer "parameters" 268435456 pinned : !exec.buffer
  %logits = exec.buffer "activations" 103079215104 : !exec.buffer
  %dlogits = exec.buffer "activations" 103079215104 : !exec.buffer
  %dw = exec.buffer "gradients" 536870912 pinned : !exec.buffer
  // CHECK-COUNT-2: exec.buffer "activations" 34359738368 :
  // CHECK: m = 131072 : i64
  exec.segment @step {
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 1024 : i64, m = 393216 : i64, n = 131072 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate never>, has_bias = false, k = 393216 : i64, m = 131072 : i64, n = 1024 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}

// -----

// Of 32 GiB each, all of it fits.
module {
exec.kernel @loss_grad mode = row, rows = 131072, columns = 131072,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 131072), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 131072), col = 1>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  %d = arith.subf %x, %sum : f32
  exec.yield %d : f32
}
// CHECK-LABEL: exec.program @whole
exec.program @whole threads 1 {
  %x = exec.buffer "activations" 268435456 pinned : !exec.buffer
  %w = exec.buffer "parameters" 268435456 pinned : !exec.buffer
  %logits = exec.buffer "activations" 34359738368 : !exec.buffer
  %dlogits = exec.buffer "activations" 34359738368 : !exec.buffer
  %dw = exec.buffer "gradients" 536870912 pinned : !exec.buffer
  // CHECK: exec.buffer "activations" 34359738368 :
  // CHECK: m = 131072 : i64
  exec.segment @step {
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 1024 : i64, m = 131072 : i64, n = 131072 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate never>, has_bias = false, k = 131072 : i64, m = 131072 : i64, n = 1024 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}
