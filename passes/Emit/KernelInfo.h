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
#include <optional>

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
  /// Whether each row has elements of its own, one a column.
  bool isOfRow() const { return rowStride != 0 && column; }
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
  /// CUDA: a maximum of the phase before this one that its folds, all sums, can
  /// follow while it is not yet known: beside m in its place, the i-th sum is
  /// 2^(rates[i] (maximum - m)) times as large. So one pass over the row finds
  /// them all (Milakov and Gimelshein, "Online normalizer calculation for
  /// softmax", 2018). Null: these sums need the maximum.
  exec::RowReduceOp followed;
  llvm::SmallVector<double> rates;

  bool hasLoop() const { return stores || !reduces.empty(); }
};

/// A comparison that differs between lanes by their column alone: column +
/// shift < bound, or column + shift == bound, of which the latter two are the
/// same in all lanes. So it is the same in all of a vector, but where the bound
/// falls into it.
struct ColumnTest {
  mlir::Value result;
  bool isLess;       // else it is for equality
  mlir::Value shift; // null: 0
  mlir::Value bound;
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
  llvm::SmallVector<ColumnTest> columnTests;

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
  void findFollowers();
  std::optional<double> getRate(mlir::Value value, exec::RowReduceOp max);
  void findColumnTests();

  bool trySave(Phase &phase, mlir::Value value);

  int64_t savedBytesLeft = 0;

  llvm::DenseSet<mlir::Value> varying;
  /// The phase before whose loop a lane-invariant value is known, or in whose
  /// loop a varying one can first be computed.
  llvm::DenseMap<mlir::Value, unsigned> level;
};

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_KERNELINFO_H
