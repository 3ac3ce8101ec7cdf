//===- SimulatedRanks.h - What ranks hold while a program is interpreted --===//
#ifndef CLEAVE_PASSES_INTERPRET_SIMULATEDRANKS_H
#define CLEAVE_PASSES_INTERPRET_SIMULATEDRANKS_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "passes/Interpret/Array.h"
#include "passes/Interpret/Memory.h"
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace cleave {

/// The most elements of one value that are interpreted, and of all values of
/// all ranks together: what a few hundred megabytes hold.
constexpr int64_t maxElements = int64_t(1) << 25;

/// The product of sizes, if none is negative and it is at most `maxElements`.
std::optional<int64_t> countElements(llvm::ArrayRef<int64_t> sizes);

/// The ranks of a mesh, that run one program in lockstep: an op is computed on
/// all of them before the next one is. A program without placements runs on one
/// rank; so does one whose types are global, which says what all ranks together
/// compute.
class SimulatedRanks {
public:
  /// State by name, and what a program gave as its outputs, for one rank.
  struct Rank {
    std::map<std::string, Array> states, outputs;
    /// The step's arguments: ids and targets.
    std::vector<Array> data;
    /// Of buffers.
    Memory memory;
    std::map<void *, Array> values;
  };

  explicit SimulatedRanks(Mesh mesh = Mesh());

  int64_t size() const { return int64_t(ranks.size()); }
  const Mesh &getMesh() const { return mesh; }
  Rank &operator[](int64_t rank) { return ranks[size_t(rank)]; }

  /// A tensor value that has been computed, or that is about to be.
  const Array &get(mlir::Value value, int64_t rank) const;
  Array &value(mlir::Value value, int64_t rank);
  /// A new array of zeros for an op's result.
  Array &make(mlir::Value result, int64_t rank);

  /// The number of this rank's shard along the axes that `op` names as
  /// `shard_axes`; 0 if it names none.
  int64_t getShardIndex(mlir::Operation *op, int64_t rank) const;
  AxisList getAxes(mlir::ArrayAttr names) const;

  /// Runs all ops of a block. An op that says nothing of its meaning is an
  /// error, unless it ends the block.
  llvm::LogicalResult run(mlir::Block &block);
  llvm::LogicalResult run(mlir::Operation &op);

  /// Where a buffer lies in the memory of each rank, and how long it is: what
  /// a view shows in this run.
  struct Range {
    int64_t offset = 0, bytes = 0;
  };
  llvm::DenseMap<mlir::Value, Range> buffers;
  /// Of a buffer, or of the place of a view that the run at hand has.
  Range getRange(mlir::Value buffer) const;
  /// The run at hand, of instructions.
  int64_t microBatch = 0;
  bool isFirst = true;

  /// The step's number, and how many a run has.
  int64_t step = 0, totalSteps = 2;
  /// Called before and after each op.
  std::function<void(mlir::Operation &)> observeBefore, observeAfter;

private:
  Mesh mesh;
  std::vector<Rank> ranks;
};

} // namespace cleave

#include "passes/Interpret/Interpretable.h.inc"

#endif // CLEAVE_PASSES_INTERPRET_SIMULATEDRANKS_H
