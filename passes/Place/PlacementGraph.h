//===- PlacementGraph.h - A function as a problem of placements -----------===//
//
// What lib/AutoShard chooses from, made of a function, and the choice written
// back. Example, a weight of a training step that ZeRO-3 would split:
//
//   %w = xf.get @w                            made by the update that sets @w
//   held: %w -> %f, %b                        once a step; one placement
//   xf.accumulate
//     %y = xf.linear %x, %f                   gathers %f, for each micro-batch
//     kept: %x -> %k                          from here to the backward pass
//     %dx = xf.linear %dy, %b                 gathers %b again
//     %dw = xf.linear_weight_grad %k, %dy
//     yielded: %dw -> %g                      reduced for each micro-batch, or
//   %new, ... = xf.adamw %w, ..., %g          once, here
//   xf.set @w, %new
//
// Held, kept and yielded are ops of the problem alone, which do nothing but say
// where a tensor is for as long: there it takes memory, and from there it is
// moved as often as those that read it run. A sum of many numbers, as the norm
// of all gradients is, adds those first that are partial along the same axes,
// so it leaves each of them where it is made.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_PLACE_PLACEMENTGRAPH_H
#define CLEAVE_PASSES_PLACE_PLACEMENTGRAPH_H

#include "cleave/AutoShard/Choose.h"
#include "dialects/dist/Placements.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Place/OpPricer.h"

namespace cleave {

/// A function without placements: straight-line, or with one `xf.accumulate`.
class PlacementGraph {
public:
  /// `mesh`: of a pipeline that of one stage. `price` is of collectives on it.
  PlacementGraph(mlir::func::FuncOp function, mlir::FlatSymbolRefAttr meshName,
                 const Mesh &mesh, const Machine &machine,
                 const Profile &profile, CollectivePricer price);

  /// Makes `problem`; reads the pins, and takes them off.
  mlir::LogicalResult build();
  /// Says in remarks what is chosen, and whether that is the best.
  void report(const ShardingChoice &choice);
  /// Gives every tensor its type, and adds reshards.
  void write(const ShardingChoice &choice);

  /// The axes that split a micro-batch's samples.
  AxisList getBatchAxes(const ShardingChoice &choice) const;
  int64_t getNumMicroBatches() {
    return accumulate ? int64_t(accumulate.getCount()) : 1;
  }

  ShardingProblem problem;

  /// What an op of the problem stands for: an op with a rule, one without that
  /// is replicated, one that is the end of a value, or where a value is for
  /// longer.
  struct Site {
    enum Kind {
      Ruled,
      Replicated,
      End,
      Held,
      Kept,
      Yielded,
      Summed
    } kind = Ruled;
    mlir::Operation *op = nullptr; ///< of all but Held and Kept
    unsigned operand = 0;          ///< of End and Yielded
    mlir::Value value;             ///< of Held, Kept

    /// Whether it is an op of the function's.
    bool computes() const { return kind == Ruled || kind == Replicated; }
  };

private:
  /// How often an op runs and, of a micro-batch, in which pass. What one of
  /// these has is another tensor to another.
  enum class When { Once, Forward, Backward };
  /// A value as ops at one time see it.
  using Seen = std::pair<mlir::Value, unsigned>;

  /// What is known of a tensor besides.
  struct Known {
    /// See PlacedOp::at. Of what forward ops read, that of the first of them;
    /// of others, of the op that makes it.
    std::optional<double> at;
    bool isForward = false;          ///< read or made in the forward pass
    std::optional<Placement> pinned; ///< where its op has to make it
    bool isState = false;            ///< it is kept, so no partial sum
  };

  /// Sums of many tensors become sums of two, so that some of them may be added
  /// before the sum is moved, and that it is decided one by one; and back.
  void splitSums();
  void joinSums();
  void markOptimizer();
  mlir::LogicalResult addStates();
  mlir::LogicalResult addArguments();
  mlir::LogicalResult addOp(mlir::Operation &op);
  mlir::LogicalResult addGet(xf::GetOp op);
  mlir::LogicalResult addRuled(xf::ShardingRuleOpInterface op);
  /// An op without a rule that every rank is to do whole.
  mlir::LogicalResult addReplicated(mlir::Operation &op);
  mlir::LogicalResult addReturn(mlir::Operation &op);
  mlir::LogicalResult addAccumulate(xf::AccumulateOp op);
  void addYields(xf::AccumulateOp op);
  void addSum(xf::AdditionOpInterface op);
  void writeSum(xf::AdditionOpInterface op);
  /// The end of a value, which may be in these placements.
  void addEnd(mlir::Operation *op, unsigned operand,
              llvm::ArrayRef<Placement> allowed);

  /// The number of a value's tensor as ops at that time see it.
  size_t getTensor(mlir::Value value, When when);
  void addHeld(mlir::Value value);
  void addKept(mlir::Value value, When when);
  size_t addTensor(mlir::Value value, When when,
                   std::vector<Placement> allowed = {});
  /// An input is where its pin has it, or may be anywhere.
  std::vector<Placement> getAllowed(mlir::Value value,
                                    const std::optional<Placement> &pin) const;
  /// An op of one operand, whose results are in the same one of `placements`.
  void addSame(Site site, size_t operand, llvm::ArrayRef<size_t> results,
               llvm::ArrayRef<Placement> placements, double at);
  void addToProblem(Site site, PlacedOp op, double at);
  /// Says that a tensor belongs to a forward op that reads it.
  void anchor(mlir::Value value, double at);
  double getAt(const PlacedOp &op, When when);
  StrategyList getShared(const ShardingRule &rule);
  /// Whether the strategy splits no dim of micro-batches, makes no result
  /// elsewhere than its pin has it, and no state a partial sum.
  bool mayKeep(mlir::Operation *op, const PlacedOp &placed,
               const Strategy &strategy) const;
  /// The strategy without the dims of micro-batches.
  Strategy unstack(mlir::Operation *op, Strategy strategy) const;
  /// The bit of a dim's name; 0 of none, and of names beyond the 32nd.
  uint32_t nameDim(llvm::StringRef name);
  void nameGradients(xf::AccumulateOp op);
  /// What an op's factors are, from the names of its operands' dims, and of its
  /// results' that are known already; names those of its results.
  llvm::SmallVector<uint32_t, 8> nameFactors(xf::ShardingRuleOpInterface op,
                                             const ShardingRule &rule);
  std::function<double(const Strategy &, int64_t)>
  makeLonger(mlir::Operation *op, const ShardingRule &rule) const;
  int64_t findLayer(const Site &site) const;
  /// A number, as a norm, is kept for nothing.
  Keeps getKeeps(const Site &site, bool isNumber) const;

  When getWhen(mlir::Operation *op) const;
  When getWhen(mlir::Value value) const;
  static Seen see(mlir::Value value, When when) {
    return {value, unsigned(when)};
  }
  /// Of an argument with a dim of micro-batches: what is split is behind it.
  bool isStacked(mlir::Value value) const {
    return accumulate && mlir::isa<mlir::BlockArgument>(value) &&
           getWhen(value) == When::Once;
  }

  mlir::FailureOr<std::optional<Placement>>
  readPin(mlir::Operation *op, mlir::Attribute pin, mlir::Type type) const;

  mlir::RankedTensorType getPlaced(mlir::Value value,
                                   const Placement &placement) const;
  void setPlacement(mlir::Value value, const Placement &placement) {
    value.setType(getPlaced(value, placement));
  }
  /// `value` in that placement: moved before `before`, or by what has moved it
  /// so at that time already.
  mlir::Value move(mlir::Value value, const Placement &placement, When when,
                   mlir::Operation *before, mlir::Operation *origin);
  /// Moves an op's operand to where it is needed.
  void moveOperand(mlir::OpOperand &operand, const Placement &need, When when,
                   mlir::Operation *before, mlir::Operation *origin);

  mlir::func::FuncOp function;
  xf::AccumulateOp accumulate; ///< null if there is none
  mlir::FlatSymbolRefAttr meshName;
  const Mesh &mesh;
  const Machine &machine;
  const Profile &profile;
  CollectivePricer price;
  std::shared_ptr<const Device> device; ///< the machine's, for long
  mlir::OpBuilder b;
  llvm::DenseMap<Seen, size_t> numbers; ///< of tensors
  std::vector<Known> known;             ///< by tensor
  /// Those of rules.
  std::vector<std::pair<ShardingRule, StrategyList>> strategies;
  /// By state: the value that it is set to, which is in the state's place.
  llvm::DenseMap<mlir::Operation *, mlir::Value> updates;
  llvm::DenseMap<mlir::Operation *, size_t> states; ///< the tensors of states
  std::optional<size_t> tokens; ///< what all inputs of micro-batches are
  std::vector<Site> sites;      ///< of the problem's ops
  double next = 0;              ///< number of the next forward op
  std::vector<mlir::Operation *> parts; ///< of sums, the last one first
  /// Of an op that is a part of a sum: its share of what the whole sum takes,
  /// over what it takes itself. Parts that end up together take no more.
  llvm::DenseMap<mlir::Operation *, double> shares;
  /// By value and dim: the bits of its names.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<uint32_t, 4>> dims;
  llvm::DenseMap<mlir::Value, int64_t> layers; ///< that values are of
  /// While it writes: what stands for a value at a time, and what has been
  /// moved.
  llvm::DenseMap<Seen, mlir::Value> now;
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Type, unsigned>, mlir::Value>
      moved;
};

} // namespace cleave

#endif // CLEAVE_PASSES_PLACE_PLACEMENTGRAPH_H
