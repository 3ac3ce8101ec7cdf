#ifndef CLEAVE_PASSES_KERNELS_PASSES_TD
#define CLEAVE_PASSES_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandCompositesPass : Pass<"cleave-expand-composites"> {
  let summary = "Put the ops that compute an op of several in its place";
  let description = [{
    Before: `@step` on local tensors. After: the same, of ops that are a kernel or
    an instruction each.

    ```mlir
    %y = xf.orthogonalize %x {rows = 1 : i64, steps = 1 : i64, a = 3.4445 : f64,
                              b = -4.775 : f64, c = 2.0315 : f64,
                              eps = 1.0e-7 : f64}
        : (tensor<8x4xf32>) -> tensor<8x4xf32>
    // becomes
    %s = xf.square_sum %x : (tensor<8x4xf32>) -> tensor<f32>
    %n = xf.normalize %x, %s {eps = 1.0e-7 : f64} ...
    %g = xf.linear_weight_grad %n, %n {leading = 1 : i64} ... -> tensor<4x4xf32>
    %h = xf.linear %g, %g {contract = 1 : i64, inputs_first} ...
    // ... their sum, and its product with %n, scaled and added
    ```

    A sum of more tensors than a kernel can have becomes sums, in the same order,
    here with `most-addends=3`:

    ```mlir
    %s = xf.add %a, %b, %c, %d : ...
    // becomes
    %t = xf.add %a, %b, %c : ...
    %s = xf.add %t, %d : ...
    ```
  }];
  let dependentDialects = ["::cleave::xf::XfDialect"];
  let options = [
    Option<"mostAddends", "most-addends", "unsigned", "mostKernelTensors / 2",
           "tensors that one kernel may add, at least 2">,
  ];
}

def LowerToExecPass : Pass<"cleave-lower-to-exec", "::mlir::ModuleOp"> {
  let summary = "Turn one rank's step into instructions on buffers";
  let description = [{
    Before: `@step` on local tensors, of ops with a lowering to a kernel or to an
    instruction. After: an `exec.program` of instructions on
    `exec.buffer`s without offsets, and one `exec.kernel` for each distinct
    generated kernel. State is read and written in place; gradients are summed
    where they are computed.

    Consecutive ops that walk the same rows become one kernel: values that only
    the kernel reads are never stored. An op moves up to where it is consecutive:
    behind the one on the same rows that computes the last of its operands. Sums
    over the same rows become one kernel, too. A sum of all elements takes two
    launches, the second one over the sums of each row; of consecutive sums the
    second ones stand behind all first ones. Kernels are told apart by their
    content, so identical layers share theirs.

    ```mlir
    %x = xf.add %a, %b : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
    %y, %rstd = xf.rms_norm %x, %w {eps = 1.0e-6 : f64} : ...
    // becomes
    exec.launch(%a, %b, %w) -> (%x, %y, %rstd) {kernel = @add_rms_norm, ...}

    %d = xf.layer_norm_grad %x, %w, %mean, %rstd, %dy : ...
    %dw = xf.norm_weight_grad %x, %rstd, %dy, %mean : ...
    %db = xf.reduce_leading %dy : ...
    %sum = xf.add %r, %d : ...
    // becomes
    exec.launch(%x, %w, %mean, %rstd, %dy, %r) -> (%sum) {kernel = @layer_norm_grad_add, ...}
    exec.launch(%x, %rstd, %dy, %mean) -> (%dw, %db)
        {kernel = @norm_weight_grad_reduce_leading, ...}
    ```
  }];
  let dependentDialects = ["::cleave::exec::ExecDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    Option<"threads", "threads", "int64_t", "1", "compute threads of a rank">,
    Option<"fuse", "fuse", "bool", "true",
           "fuse kernels; off to look at ops one by one">,
  ];
  let statistics = [
    Statistic<"numOps", "ops", "ops that became kernels">,
    Statistic<"numLaunches", "launches", "kernel launches">,
    Statistic<"numKernels", "kernels", "distinct kernels">,
  ];
}

def VerifyKernelsPass : Pass<"cleave-verify-kernels", "::mlir::ModuleOp"> {
  let summary = "Check that instructions say all that the tensors said";
  let description = [{
    The contract at the end of this stage, of what verifiers of ops cannot see:

    1. Beside the mesh, states and the workload there are only kernels and one
       `exec.program`, or one for each pipeline stage in their order. Kernels
       compute with scalars only; each is launched, with `shard_axes` where it asks
       for its shard.
    2. Operands have as many bytes as their instruction or kernel asks for. The
       views of a buffer cut it alike, and a state has one buffer in a program.
    3. Gone through run by run, what an instruction reads was written before, for
       its own micro-batch or for all of them, and with elements of the type that
       it is read with. What is written in part was whole before. A sum is read
       before another one takes its place. The first run of a segment is `first`,
       and no other is.
    4. A parameter or moment gets its new value once, in a segment that `updates`; a
       constant gets none. Outputs are written, with elements of their type.

    Later stages move instructions and place buffers: they rely on it, and keep it.
  }];
}

#endif
