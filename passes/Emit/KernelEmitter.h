//===- KernelEmitter.h - What emitters of all targets do ------------------===//
#ifndef CLEAVE_PASSES_EMIT_KERNELEMITTER_H
#define CLEAVE_PASSES_EMIT_KERNELEMITTER_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Emit/LaneEmitter.h"

namespace cleave::emit {

/// Evaluates pieces of a kernel at the builder's insertion point: its scalars,
/// and one vector of lanes of a phase. A target adds the walk over the space.
class KernelEmitter {
protected:
  /// `lanes` 0: one element at a time, scalars. `hasBf16` as in LaneEmitter.
  KernelEmitter(KernelInfo &info, mlir::OpBuilder &b, mlir::Location loc,
                int64_t lanes, bool hasBf16)
      : info(info), b(b), e(b, loc, hasBf16), width(lanes) {}

  /// Sets what the kernel's own parameters decide.
  void setParameters(llvm::function_ref<mlir::Value()> loadShardIndex,
                     llvm::function_ref<mlir::Value()> loadMicroBatch);

  mlir::scf::ForOp
  emitFor(mlir::Value begin, mlir::Value end, int64_t step,
          mlir::ValueRange init,
          llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                            mlir::ValueRange)>
              body);
  /// The same with nothing carried.
  void emitFor(mlir::Value begin, mlir::Value end, int64_t step,
               llvm::function_ref<void(mlir::Value)> body);
  void emitIf(mlir::Value condition, llvm::function_ref<void()> body);
  /// The values of one of two branches.
  llvm::SmallVector<mlir::Value>
  emitIf(mlir::Value condition,
         llvm::function_ref<llvm::SmallVector<mlir::Value>()> ifTrue,
         llvm::function_ref<llvm::SmallVector<mlir::Value>()> ifFalse);

  /// Reads the lane-invariant inputs that depend on the row, or those that
  /// don't.
  void loadScalars(mlir::IRMapping &map, bool uniform, mlir::Value row);
  /// Evaluates those scalars of `phase` that `map` does not know yet.
  void evaluateScalars(Phase &phase, mlir::IRMapping &map);
  /// Base pointers moved to `row`.
  llvm::SmallVector<mlir::Value> getRowBases(llvm::ArrayRef<Access> accesses,
                                             mlir::ValueRange bases,
                                             mlir::Value row);

  /// Reads inputs `numbers`, and evaluates a phase, as far as `map` does not
  /// know them yet, in the lanes from `index` on: columns, or rows in flat
  /// mode. Lanes that `mask` leaves out are evaluated on zeros.
  void loadLanes(llvm::ArrayRef<unsigned> numbers, mlir::IRMapping &map,
                 llvm::ArrayRef<mlir::Value> rowBases, mlir::Value index,
                 mlir::Value mask);
  void evaluateLanes(Phase &phase, mlir::IRMapping &map, mlir::Value index);
  void storeLane(unsigned output, mlir::Value value, mlir::Value rowBase,
                 mlir::Value index, mlir::Value mask);
  /// Stores the outputs that have one value a row.
  void storeScalars(mlir::IRMapping &map, llvm::ArrayRef<mlir::Value> rowBases);
  /// value, or value + old where this launch accumulates.
  mlir::Value accumulateOnto(mlir::Value value, mlir::Value old);

  KernelInfo &info;
  mlir::OpBuilder &b;
  LaneEmitter e;
  int64_t width;
  /// Of vector accesses, in bytes at most; 0: only elements are aligned.
  int64_t vectorAlignment = 0;

  llvm::SmallVector<mlir::Value> inputs, outputs; // base pointers
  mlir::IRMapping uniforms; // what holds for the whole call
  mlir::Value accumulates;  // i1, null where outputs are overwritten
  /// Arrays of the values that are saved from one phase to a later one.
  llvm::DenseMap<mlir::Value, mlir::Value> scratch;

private:
  mlir::Value saveSlot(mlir::Value saved, mlir::Value index);
  mlir::Value getPointers(const Access &access, mlir::Value base,
                          mlir::Value index);
  bool isGeneral(const Access &access) {
    return info.mode == exec::KernelMode::Flat &&
           !access.isContiguousAlongRows();
  }
  int64_t getAlignment(const Access &access);
};

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_KERNELEMITTER_H
