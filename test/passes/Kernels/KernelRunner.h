//===- KernelRunner.h - A kernel description, executed in f64 -------------===//
#ifndef CLEAVE_TEST_PASSES_KERNELS_KERNELRUNNER_H
#define CLEAVE_TEST_PASSES_KERNELS_KERNELRUNNER_H

#include "passes/Interpret/Array.h"
#include "passes/Kernels/LoweringInterfaces.h"

namespace cleave::xf {

/// The results of the kernel that `op` describes, on these operands and on the
/// given shard. Its output accesses must write each element of a result once,
/// unless results start as zeros or as a copy.
llvm::SmallVector<Array>
runKernel(KernelOpInterface op, llvm::ArrayRef<Array> operands, int64_t shard);

} // namespace cleave::xf

#endif // CLEAVE_TEST_PASSES_KERNELS_KERNELRUNNER_H
