//===- SimulatedRanks.h - What ranks hold while a program is interpreted --===//
#ifndef CLEAVE_PASSES_INTERPRET_SIMULATEDRANKS_H
#define CLEAVE_PASSES_INTERPRET_SIMULATEDRANKS_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "passes/Interpret/Array.h"
#include "passes/Interpret/Memory.h"
#include "passes/Interpret/StageExchange.h"
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace cleave {

/// The most elements of one value that are interpreted, and of all values of
/// all ranks together: what a few hundred megabytes hold.
constexpr int64_t maxElements = int64_t(1) << 25;

/// The product of sizes, if none is negative and it is at most `maxElements`.
std::optional<int64_t> countElements(llvm::ArrayRef<int64_t> sizes);

/// What a rank's group gives to a collective.
struct GroupParts {
  /// In the order of the group; `index` is the rank's own.
  llvm::SmallVector<const Array *> parts;
  int64_t index;

  int64_t size() const { return int64_t(parts.size()); }
};

/// What the groups of all ranks that run an op give to it.
class Gathered {
public:
  /// `inputs` are by rank of `mesh`. `numbers` has for each rank that runs the
  /// op the number that it has there.
  Gathered(const Mesh &mesh, AxisList axes, std::vector<Array> inputs,
           std::vector<int64_t> numbers)
      : mesh(mesh), axes(std::move(axes)), inputs(std::move(inputs)),
        numbers(std::move(numbers)) {}

  GroupParts getGroup(int64_t rank) const;

private:
  Mesh mesh;
  AxisList axes;
  std::vector<Array> inputs;
  std::vector<int64_t> numbers;
};

/// The ranks of a mesh, or of one stage of its pipeline, that run one program
/// in lockstep: an op is computed on all of them before the next one is. A
/// program without placements runs on one rank; so does one whose types are
/// global, which says what all ranks together compute.
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
  /// Those of `world` whose coordinate along `stageAxis` is `stage`. They have
  /// numbers of their own, on a mesh that has one rank along that axis.
  SimulatedRanks(const Mesh &world, Axis stageAxis, int64_t stage,
                 StageExchange &exchange);

  int64_t size() const { return int64_t(ranks.size()); }
  const Mesh &getMesh() const { return mesh; }
  /// The number that a rank has among those of all stages.
  int64_t getWorldRank(int64_t rank) const;
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

  /// Gives a message to the same ranks of another stage.
  llvm::LogicalResult send(mlir::Operation *op, int64_t to, int64_t channel,
                           Message message);
  /// Waits for a message from the same ranks of another stage.
  llvm::FailureOr<Message> receive(mlir::Operation *op, int64_t from,
                                   int64_t channel);
  /// How many ranks a group along the axes called `names` has.
  int64_t getGroupSize(mlir::ArrayAttr names) const;
  /// What the groups of a collective give, along the axes called `names`.
  /// `inputs` are those of these ranks; where groups span stages, waits for the
  /// others.
  llvm::FailureOr<Gathered> gather(mlir::Operation *op, mlir::ArrayAttr names,
                                   std::vector<Array> inputs);

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
  /// What loss and gradient norm must be below for an update.
  double limit = std::numeric_limits<float>::max();
  /// Called before and after each op.
  std::function<void(mlir::Operation &)> observeBefore, observeAfter;

private:
  /// Which stage of a pipeline it is.
  struct Stage {
    Mesh world;
    Axis axis;
    int64_t number;
    StageExchange *exchange;
  };
  int64_t getWorldRank(int64_t rank, int64_t stage) const;

  Mesh mesh;
  std::optional<Stage> stage;
  std::vector<Rank> ranks;
};

} // namespace cleave

#include "passes/Interpret/Interpretable.h.inc"

#endif // CLEAVE_PASSES_INTERPRET_SIMULATEDRANKS_H
