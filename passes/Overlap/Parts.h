//===- Parts.h - Instructions in parts of their rows ----------------------===//
#ifndef CLEAVE_PASSES_OVERLAP_PARTS_H
#define CLEAVE_PASSES_OVERLAP_PARTS_H

#include "cleave/Streams/Parts.h"
#include "passes/Overlap/OverlapModel.h"

namespace cleave {

/// Instructions that stand one behind the other.
class InstructionWindow : public Window {
public:
  explicit InstructionWindow(Instructions list);

  exec::InstructionOpInterface get(size_t i) const { return list[i]; }

  Instructions list;

private:
  /// Nothing, too, where a part of an operand would begin where operands may
  /// not.
  std::optional<Shares> computeShares(size_t i, int64_t parts) const override;
};

/// Makes parts of instructions, each before the whole of it, and what they work
/// on: views of the buffers that there were, or one buffer for all parts.
class PartBuilder {
public:
  /// Views are made before an operation.
  PartBuilder(int64_t parts, mlir::Operation *before)
      : parts(parts), before(before) {}

  /// From now on all parts of a value are the same bytes, of a new buffer.
  void share(mlir::Value value);
  exec::InstructionOpInterface makePart(exec::InstructionOpInterface op,
                                        int64_t number);
  /// What was made, users first.
  llvm::SmallVector<mlir::Operation *> getMade() const;

private:
  mlir::Value getPart(mlir::Value value, int64_t number);

  int64_t parts;
  mlir::Operation *before;
  llvm::MapVector<std::pair<mlir::Value, int64_t>, mlir::Value> views;
  llvm::MapVector<mlir::Value, mlir::Value> shared;
  llvm::SmallVector<mlir::Operation *> made;
};

/// Erases kernels that no instruction of the module launches: those of parts
/// that were not worth it, and of what is now in parts.
void eraseUnusedKernels(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_PARTS_H
