//===- FuseKernels.h - Which ops become one kernel ------------------------===//
#ifndef CLEAVE_PASSES_KERNELS_FUSEKERNELS_H
#define CLEAVE_PASSES_KERNELS_FUSEKERNELS_H

#include "passes/Kernels/LoweringInterfaces.h"

namespace cleave {

/// Ops that one kernel computes, in program order, and the space it walks. The
/// accesses of each member are relative to that space.
struct KernelGroup {
  struct Member {
    mlir::Operation *op;
    KernelSpace space;
  };
  llvm::SmallVector<Member> members;

  const KernelSpace &getSpace() const { return members.front().space; }
  mlir::Operation *getLast() const { return members.back().op; }
};

/// Moves ops up to where they may be one kernel with another: an op on rows
/// right behind the one that computes the last of its operands, where that
/// walks the same rows and columns. So the sum of a norm's gradient and the
/// residual stream's is computed with the former, though sums over its rows
/// stand between.
void moveTogether(mlir::Block &block);

/// Partitions the kernel ops of a block: maximal runs of neighbours that walk
/// the same rows and columns and read each other's values only at the element
/// that they compute; ops on one element a row may join as well; of no more
/// tensors than a kernel may have. Sums over rows are one kernel where they are
/// neighbours over the same rows and columns, and none reads another. With
/// `fuse` unset each op is its own group. Ops that `isKernel` denies are not
/// there; `getAccumulate` says how a result meets what its buffer holds, which
/// is the same for all of a kernel.
llvm::SmallVector<KernelGroup>
groupKernels(mlir::Block &block, bool fuse,
             llvm::function_ref<bool(mlir::Operation *)> isKernel,
             llvm::function_ref<exec::Accumulate(mlir::Value)> getAccumulate);

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_FUSEKERNELS_H
