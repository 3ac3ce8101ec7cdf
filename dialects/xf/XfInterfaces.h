//===- XfInterfaces.h - What passes may ask of a training-graph op --------===//
#ifndef CLEAVE_DIALECTS_XF_XFINTERFACES_H
#define CLEAVE_DIALECTS_XF_XFINTERFACES_H

#include "cleave/Cost/Work.h"
#include "cleave/Placement/ShardingRule.h"
#include "dialects/exec/Exec.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace cleave::xf {

/// Checks the placements of an op's types against its rule; succeeds where no
/// type has one.
mlir::LogicalResult verifyShardingRule(mlir::Operation *op);

/// Bytes of all tensor operands and results.
double getTensorBytes(mlir::Operation *op);

/// How a kernel finds one tensor; see exec.access. `operand` numbers the op's
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
  int64_t mode = 0;         ///< 0 overwrite, 1 accumulate, 2 after the first
  int64_t threads = 1;      ///< of a rank; sizes the workspace
};

} // namespace cleave::xf

#include "dialects/xf/XfInterfaces.h.inc"

#endif // CLEAVE_DIALECTS_XF_XFINTERFACES_H
