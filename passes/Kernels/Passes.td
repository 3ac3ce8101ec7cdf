#ifndef CLEAVE_PASSES_KERNELS_PASSES_TD
#define CLEAVE_PASSES_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerToExecPass : Pass<"cleave-lower-to-exec", "::mlir::ModuleOp"> {
  let summary = "Turn one rank's step into instructions on buffers";
  let description = [{
    Before: `@step` on local tensors. After: an `exec.program` of instructions on
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
