// RUN: cleave-opt %s --cleave-cut-turn="parts=3" --split-input-file \
// RUN:   --verify-diagnostics

// Parts have as many rows each, and begin at multiples of 64 bytes.
module {
exec.kernel @loss_grad mode = row, rows = 512, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  %d = arith.subf %x, %sum : f32
  exec.yield %d : f32
}
exec.program @uneven threads 1 {
  %x = exec.buffer "activations" 262144 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %logits = exec.buffer "activations" 4194304 : !exec.buffer
  %dlogits = exec.buffer "activations" 4194304 : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  exec.segment @step {
    // expected-error @+1 {{cannot be done in 3 parts of its rows; legal are 1, 2, 4, 8, 16, 32, 64, 128, 256, 512}}
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 512 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate never>, has_bias = false, k = 512 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}

// -----

// Who copies logits does not say that it does so row by row.
// expected-error @+1 {{has nothing between its forward and its backward pass that can be done in parts of its rows}}
module {
exec.kernel @loss_grad mode = row, rows = 768, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  %d = arith.subf %x, %sum : f32
  exec.yield %d : f32
}
exec.program @copied threads 1 {
  %x = exec.buffer "activations" 393216 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %logits = exec.buffer "activations" 6291456 : !exec.buffer
  %dlogits = exec.buffer "activations" 6291456 : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  %copy = exec.buffer "logits" 6291456 pinned : !exec.buffer
  exec.segment @step {
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 768 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.copy(%logits) -> (%copy) {xf.provenance = #xf.provenance<forward>}
    exec.launch(%logits) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate never>, has_bias = false, k = 768 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}

// -----

// A sum that is kept in bf16 would be rounded by each part: only the logits
// could be in parts, and what their gradient is of is all of it.
// expected-error @+1 {{has nothing between its forward and its backward pass}}
module {
exec.program @gradient_itself threads 1 {
  %x = exec.buffer "activations" 393216 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %logits = exec.buffer "activations" 6291456 : !exec.buffer
  %dlogits = exec.buffer "activations" 6291456 : !exec.buffer
  %dw = exec.buffer "gradients" 2097152 pinned : !exec.buffer
  exec.segment @step {
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 768 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.gemm(%logits, %x) -> (%dw) {accumulate = #exec<accumulate never>, has_bias = false, k = 768 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @step 0 first
}
}

// -----

// A stage in the middle of a pipeline: the next one waits for what its forward
// pass computes last.
// expected-error @+1 {{has nothing between its forward and its backward pass}}
module {
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
exec.kernel @loss_grad mode = row, rows = 768, columns = 4096,
    inputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>],
    outputs = [#exec.access<bf16, offset = 0, row = (1, 0, 4096), col = 1>] {
^bb0(%x: f32):
  %sum = exec.row_reduce sum %x : f32
  %d = arith.subf %x, %sum : f32
  exec.yield %d : f32
}
exec.program @stage_0 threads 1 {
  %x = exec.buffer "activations" 393216 pinned : !exec.buffer
  %w = exec.buffer "parameters" 2097152 pinned : !exec.buffer
  %all_logits = exec.buffer "activations" 12582912 : !exec.buffer
  %dlogits = exec.buffer "activations" 6291456 : !exec.buffer
  %dw = exec.buffer "gradients" 4194304 pinned : !exec.buffer
  %logits = exec.view %all_logits 6291456 places 2 : !exec.buffer
  exec.segment @forward {
    exec.gemm(%x, %w) -> (%logits) {accumulate = #exec<accumulate never>, has_bias = false, k = 256 : i64, m = 768 : i64, n = 4096 : i64, trans_a = false, trans_b = true, type_a = bf16, type_b = bf16, type_c = bf16, xf.provenance = #xf.provenance<forward>}
    exec.send(%logits) -> () {channel = 0 : i64, stage = 1 : i64, xf.provenance = #xf.provenance<forward>}
  }
  exec.segment @backward {
    exec.launch(%logits) -> (%dlogits) {kernel = @loss_grad, xf.provenance = #xf.provenance<backward>}
    exec.gemm(%dlogits, %x) -> (%dw) {accumulate = #exec<accumulate after_first>, has_bias = false, k = 768 : i64, m = 4096 : i64, n = 256 : i64, trans_a = true, trans_b = false, type_a = bf16, type_b = bf16, type_c = f32, xf.provenance = #xf.provenance<backward>}
  }
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @backward 0 first
  exec.run @backward 1
}
}
