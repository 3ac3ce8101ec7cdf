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
  }];
  let dependentDialects = ["::cleave::xf::XfDialect"];
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
    the kernel reads are never stored. Kernels are told apart by their content, so
    identical layers share theirs.

    ```mlir
    %x = xf.add %a, %b : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
    %y, %rstd = xf.rms_norm %x, %w {eps = 1.0e-6 : f64} : ...
    // becomes
    exec.launch(%a, %b, %w) -> (%x, %y, %rstd) {kernel = @add_rms_norm, ...}
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

#endif
