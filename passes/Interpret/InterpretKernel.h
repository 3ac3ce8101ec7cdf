//===- InterpretKernel.h - exec.kernel, in f64 ----------------------------===//
#ifndef CLEAVE_PASSES_INTERPRET_INTERPRETKERNEL_H
#define CLEAVE_PASSES_INTERPRET_INTERPRETKERNEL_H

#include "dialects/exec/Exec.h"
#include <vector>

namespace cleave {

/// An operand's elements, whatever their storage, as f64.
using KernelOperand = std::vector<double>;

/// How many elements the operand of `access` has in `kernel`; more than
/// `maxElements` where the kernel has more.
int64_t countElements(exec::KernelOp kernel, exec::AccessAttr access);

/// Where it reads or writes that operand, in the order of rows and columns.
std::vector<int64_t> getIndices(exec::KernelOp kernel, exec::AccessAttr access);

struct KernelLaunch {
  int64_t shardIndex = 0;
  bool isFirst = true; ///< of those that add to the same sums
  /// Rounds to bf16 where the body says so; else a rounding is no change.
  bool rounds = true;
};

/// Runs `kernel` over all its rows. `operands`: inputs, then outputs, which
/// hold what they held before. Fails, with an error, on an op that it does not
/// know.
llvm::LogicalResult interpretKernel(exec::KernelOp kernel,
                                    std::vector<KernelOperand> &operands,
                                    const KernelLaunch &launch);

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_INTERPRETKERNEL_H
