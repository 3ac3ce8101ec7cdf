//===- Parts.h - Instructions in parts of their rows ----------------------===//
#ifndef CLEAVE_PASSES_OVERLAP_PARTS_H
#define CLEAVE_PASSES_OVERLAP_PARTS_H

#include "passes/Overlap/OverlapModel.h"
#include "llvm/ADT/BitVector.h"
#include <map>

namespace cleave {

/// What each of some parts of an instruction has of its operands.
using Shares = llvm::SmallVector<exec::Share>;

/// Instructions that stand one behind the other, and which of them can be done
/// in parts of their rows. Members of a window are those that are, by index and
/// in order.
class Window {
public:
  explicit Window(Instructions list);

  /// Nothing where the rows of the instruction cannot be cut so that each part
  /// of an operand begins where operands may.
  const std::optional<Shares> &getShares(size_t i, int64_t parts) const;
  /// Whether two instructions access the same byte, one of them to write it.
  bool dependsOn(size_t later, size_t earlier) const;
  /// Whether parts of members get in each other's way by nothing but the same
  /// part of the same bytes.
  bool areApart(llvm::ArrayRef<size_t> members, int64_t parts) const;
  /// Of those that stand between members: which of them must go ahead of all
  /// members; nothing if some stands between two for good.
  std::optional<llvm::SmallVector<bool>>
  findBefore(llvm::ArrayRef<size_t> members) const;

  exec::InstructionOpInterface get(size_t i) const { return list[i]; }
  bool isOutput(size_t i, unsigned operand) const {
    return operand >= get(i).getInputs().size();
  }

  Instructions list;

private:
  std::optional<Shares> computeShares(size_t i, int64_t parts) const;

  /// On earlier ones, by later one; empty until someone asks.
  mutable std::vector<llvm::BitVector> dependences;
  mutable std::map<std::pair<size_t, int64_t>, std::optional<Shares>>
      shares; ///< that were asked for
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
