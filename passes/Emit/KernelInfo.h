//===- KernelInfo.h - What an emitter knows of a kernel -------------------===//
//
// A kernel description, prepared and analysed for code generation, the same
// for every target: which values vary along the lanes, in which pass over a
// row each value is known, what each pass must read and compute.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_EMIT_KERNELINFO_H
#define CLEAVE_PASSES_EMIT_KERNELINFO_H

#include "dialects/exec/Exec.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

namespace cleave::emit {

/// An `exec.access` without needless generality: rowDiv, rowMod and rowStride
/// are as small as they can be for the kernel's rows. rowStride 0 means that
/// the row does not matter.
struct Access {
  mlir::Type type;
  int64_t offset, rowDiv, rowMod, rowStride;
  /// Whether the column matters.
  bool column;

  bool isUniform() const { return rowStride == 0 && !column; }
  /// Element i of the operand for element i of the space.
  bool isContiguousAlongRows() const {
    return !column && rowDiv == 1 && rowMod == 0 && rowStride == 1;
  }
};

/// One pass over the lanes. Its results are the row reductions it feeds and,
/// if it is the last, the outputs.
struct Phase {
  /// Lane-invariant ops to evaluate before the pass, in order.
  llvm::SmallVector<mlir::Operation *> scalars;
  /// Inputs to read per lane.
  llvm::SmallVector<unsigned> loads;
  /// Lane-varying ops to evaluate, in order.
  llvm::SmallVector<mlir::Operation *> lanes;
  /// Costly lane-varying values computed here and needed by a later phase.
  llvm::SmallVector<mlir::Value> saves;
  /// Such values from an earlier phase that this one reads.
  llvm::SmallVector<mlir::Value> restores;
  /// Reductions over the row of a lane-varying value.
  llvm::SmallVector<exec::RowReduceOp> reduces;
  bool stores = false;

  bool hasLoop() const { return stores || !reduces.empty(); }
};

/// A prepared kernel. In row and column mode the lanes are the columns; in
/// flat mode they are the rows.
class KernelInfo {
public:
  /// Prepares `kernel` in place (its body is rewritten: math expanded, common
  /// subexpressions merged, multiply-adds formed) and analyses it. Emits an
  /// error and fails where a type or op has no lowering. Values are saved from
  /// one phase to a later one as long as a row of them fits `maxSavedBytes`.
  static mlir::FailureOr<KernelInfo>
  prepare(exec::KernelOp kernel, bool forCuda, int64_t maxSavedBytes);

  exec::KernelOp kernel;
  exec::KernelMode mode;
  int64_t rows, columns;
  /// A launch's range counts this many of the (prepared) kernel's rows.
  int64_t rangeScale = 1;
  llvm::SmallVector<Access> inputs, outputs;
  llvm::SmallVector<Phase, 0> phases;

  bool isVarying(mlir::Value value) const { return varying.contains(value); }
  mlir::Block &getBody() { return kernel.getBody().front(); }
  exec::YieldOp getYield() {
    return mlir::cast<exec::YieldOp>(getBody().back());
  }
  /// Ops evaluated per lane over all phases: a measure of the body's size.
  unsigned getLaneCost() const;
  /// Whether any output is written per lane.
  bool hasLaneOutputs() const;

private:
  void normalizeAccesses();
  void flatten();
  void findVarying();
  void findPhases();
  void fillPhase(unsigned index, llvm::ArrayRef<mlir::Value> roots);

  bool trySave(Phase &phase, mlir::Value value);

  int64_t savedBytesLeft = 0;

  llvm::DenseSet<mlir::Value> varying;
  /// The phase before whose loop a lane-invariant value is known, or in whose
  /// loop a varying one can first be computed.
  llvm::DenseMap<mlir::Value, unsigned> level;
};

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_KERNELINFO_H
