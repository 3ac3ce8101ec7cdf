//===- KernelTable.h - Distinct kernels by content ------------------------===//
#ifndef CLEAVE_PASSES_KERNELS_KERNELTABLE_H
#define CLEAVE_PASSES_KERNELS_KERNELTABLE_H

#include "dialects/exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Kernels/FuseKernels.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

/// A kernel and what a launch of it reads and writes, in order.
struct BuiltKernel {
  mlir::FlatSymbolRefAttr symbol;
  llvm::SmallVector<mlir::Value> inputs, outputs;
  int64_t rows = 0; ///< of a `foldRows` kernel: values left to sum
};

/// Builds `exec.kernel`s before `anchor`; kernels with the same content, names
/// apart, are one.
class KernelTable {
public:
  explicit KernelTable(mlir::Operation *anchor) : anchor(anchor) {}

  /// The kernel of a group. Values that no op outside of the group reads are
  /// not stored. `accumulate` as in exec.kernel.
  BuiltKernel build(const KernelGroup &group, exec::Accumulate accumulate);

  /// `output[r] (+)= input[r]` over `size` elements of f32.
  mlir::FlatSymbolRefAttr buildSum(int64_t size, exec::Accumulate accumulate);

  /// `output[0] (+)= sum of input[0 .. size)`, f32.
  mlir::FlatSymbolRefAttr buildFold(int64_t size, exec::Accumulate accumulate);

  size_t size() const { return known.size(); }

private:
  /// The kernel that has `kernel`'s content: itself, or an earlier one.
  mlir::FlatSymbolRefAttr intern(exec::KernelOp kernel);
  exec::KernelOp create(mlir::Location loc, exec::KernelMode mode, int64_t rows,
                        int64_t columns, llvm::ArrayRef<mlir::Attribute> inputs,
                        llvm::ArrayRef<mlir::Attribute> outputs,
                        exec::Accumulate accumulate);

  mlir::Operation *anchor;
  llvm::StringMap<mlir::FlatSymbolRefAttr> known; ///< by text without name
  llvm::StringMap<int64_t> names;
};

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_KERNELTABLE_H
