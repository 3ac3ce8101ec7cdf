//===- LoweringInterfaces.h - What becomes of a training-graph op ---------===//
#ifndef CLEAVE_PASSES_KERNELS_LOWERINGINTERFACES_H
#define CLEAVE_PASSES_KERNELS_LOWERINGINTERFACES_H

#include "dialects/exec/Exec.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace cleave {

/// How a kernel finds one tensor; see exec.access. `tensor` numbers the op's
/// operands, then its results.
struct KernelAccess {
  unsigned tensor;
  exec::AccessAttr access;
};

/// The iteration space of an op that becomes a kernel.
struct KernelSpace {
  exec::KernelMode mode = exec::KernelMode::Row;
  int64_t rows = 1, columns = 1;
  llvm::SmallVector<KernelAccess> inputs, outputs;
  /// The result starts as a copy of this operand; -1: it need not.
  int copyFrom = -1;
  /// The results start as zeros.
  bool zeroResults = false;
  /// The results are sums over the rows: a second kernel adds what the first
  /// writes for each row.
  bool foldRows = false;
};

/// Where an op becomes an instruction.
struct InstructionSite {
  mlir::ValueRange inputs;  ///< buffers of the op's operands
  mlir::ValueRange outputs; ///< buffers of its results
  /// How they meet what their buffers hold.
  exec::Accumulate accumulate = exec::Accumulate::Never;
  int64_t threads = 1; ///< of a rank; sizes the workspace
};

} // namespace cleave

#include "passes/Kernels/LoweringInterfaces.h.inc"

#endif // CLEAVE_PASSES_KERNELS_LOWERINGINTERFACES_H
