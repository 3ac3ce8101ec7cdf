//===- Explore.h - A choice of placements as a person reads it ------------===//
#ifndef CLEAVE_AUTOSHARD_EXPLORE_H
#define CLEAVE_AUTOSHARD_EXPLORE_H

#include "cleave/AutoShard/Moves.h"
#include <map>

namespace cleave {

/// What an op does in a choice.
struct ExploredOp {
  std::string splits; ///< `batch {dp}, heads {tp}`; `nothing`
  /// Where its first result is; of an op without results, its operand.
  std::string placement;
  double seconds = 0; ///< of a step
  /// Of Exploration::moves: those that bring what it is the first to need.
  std::vector<size_t> moves;
};

/// Layers, from `first` to `last`, whose ops all do the same.
struct LayerKind {
  int64_t first = 0, last = 0; ///< -1: what is of no layer
  std::vector<size_t> ops;     ///< of the first layer, in their order
};

/// A choice, with what follows from it.
struct Exploration {
  ShardingChoice choice;
  std::vector<ExploredOp> ops; ///< by op of the problem
  std::vector<Move> moves;
  std::vector<CollectiveTotal> totals;
  std::vector<LayerKind> kinds;
  double compute = 0;            ///< seconds of ops; the rest are collectives
  std::map<Keeps, double> bytes; ///< of a rank, by what they are kept for
  double bytesInUse = 0;         ///< the most at a time (getBytesInUse)
};

/// `beside`: what may run beside compute.
Exploration explore(const ShardingProblem &problem, ShardingChoice choice,
                    CollectivePricer price, const BesideCompute &beside = {});

/// An exploration by a name, such as that of a file of tactics, with what was
/// to be chosen from.
struct NamedStrategy {
  std::string name;
  ShardingProblem problem;
  Exploration explored;

  /// Whether a rank has the bytes that are in use at most, as far as these are
  /// known; true where only what is kept has a limit.
  bool fits() const {
    return !problem.holdsTemporaries || explored.bytesInUse <= problem.memory;
  }
  /// Of a rank, of what an op says how long it is kept.
  double getKeptBytes(size_t op) const;
  /// Of an op, and of the moves that it is the first to need.
  double getSeconds(size_t op) const;
  /// What is moved for an op: `all_gather over {tp}, dim 1: 4.19 MB, 222.3 us`
  /// of a step; `; ` between several.
  std::string describeMoves(size_t op) const;
};

/// `layer 0`, `layers 1-31, each`, `outside of the layers`
std::string describeLayers(const LayerKind &kind);

/// `batch {dp}, heads {tp}`: what axes split, by the names of dims, and by the
/// letters of the op's rule where those have none.
std::string describeSplits(const ShardingProblem &problem, const PlacedOp &op,
                           const Strategy &strategy);

/// `all_gather over {tp}, dim 1`, of each collective of a move; ` + ` between
/// them.
std::string describeSteps(const Mesh &mesh, const Move &move);

/// What an op is called inside of its layer: `q` of `layers.3.q`.
std::string getShortName(const PlacedOp &op);

/// `parameters`
llvm::StringRef getName(Keeps keeps);

} // namespace cleave

#endif // CLEAVE_AUTOSHARD_EXPLORE_H
