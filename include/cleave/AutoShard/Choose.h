//===- Choose.h - The cheapest placements of a graph's tensors ------------===//
#ifndef CLEAVE_AUTOSHARD_CHOOSE_H
#define CLEAVE_AUTOSHARD_CHOOSE_H

#include "cleave/AutoShard/Strategies.h"
#include "cleave/Reshard/Reshard.h"
#include <array>
#include <functional>
#include <limits>
#include <numeric>

namespace cleave {

/// A tensor of a graph. One that no op makes is an input: it is where the
/// choice wants it, of the placements it may have, at no cost; of equally good
/// ones in the smallest shards.
struct PlacedTensor {
  llvm::SmallVector<int64_t, 4> shape;
  int64_t elementBytes = 4;
  std::vector<Placement> allowed; ///< of an input; not empty
  double moves = 1;   ///< how often a step makes each of its reshards
  double copies = 0;  ///< shards of it that are kept, where it is made
  double movedTo = 0; ///< and in each further placement that it is moved to
  /// It is moved for the optimizer, where ranks do not wait for one another.
  bool isForOptimizer = false;

  /// Of a rank's shard.
  double getBytes(const Mesh &mesh, const Placement &placement) const;
};

/// What steps of reshards take besides what collectives are priced at.
struct MoveSeconds {
  /// Of a byte of what a rank cuts out of what it has: it is a copy.
  double ofSlice = 0;
  /// That a collective takes longer which compute waits for: until the last of
  /// its ranks is there (Profile::rankSkew).
  double ofSkew = 0;

  auto operator<=>(const MoveSeconds &) const = default;
};

/// What an op stands for that says where tensors are for long; None: an op that
/// computes. What runs once a step, updates and what they read of gradients, is
/// of the Optimizer.
enum class Keeps { None, Parameters, Gradients, Optimizer, Activations };

/// An op, with the seconds of a rank in each of its strategies. It may read
/// what it makes, as an update reads the state that it changes.
struct PlacedOp {
  std::string name;   ///< for messages
  std::string label;  ///< what its author calls it, or nothing
  int64_t layer = -1; ///< that it is of; -1: of none
  Keeps keeps = Keeps::None;
  /// By factor of its strategies: bit k says that dims of it are what
  /// ShardingProblem::dims[k] names.
  llvm::SmallVector<uint32_t, 8> dims;
  std::vector<std::string> factors; ///< their names; may be left out
  /// Bit i: rows of the first result are made of the same rows of operand i and
  /// of nothing else of it, so that both may be done in parts. Rows are the
  /// dims that both begin with: of the one with fewer all but the last.
  uint32_t rowsOf = 0;
  bool isProduct = false; ///< it is worth to run beside communication
  /// Seconds that a product takes longer in so many parts of its rows; empty:
  /// none.
  std::function<double(const Strategy &, int64_t)> getLonger;
  llvm::SmallVector<size_t, 4> operands, results; ///< numbers of tensors
  StrategyList strategies;
  std::vector<double> seconds;
  /// Those with the highest are decided first, of equal ones the last. Where
  /// all states are kept, that says how long a search takes, and else also what
  /// it finds. Ops that belong together, such as one and those of its gradient,
  /// should be near each other.
  double at = 0;
  std::string phase;  ///< forward, backward, or step: once a step
  std::string heldBy; ///< a person's words that left it fewer strategies

  /// What an axis splits in one of its strategies, as `dims`.
  uint32_t getSplitDims(const Strategy &strategy, Axis axis) const;
};

/// Ops, each tensor made by at most one of them. An op that reads a graph's
/// result without making anything says where that may be.
struct ShardingProblem {
  Mesh mesh;
  std::vector<PlacedTensor> tensors;
  std::vector<PlacedOp> ops;
  std::vector<std::string> dims; ///< names of dims of tensors, at most 32
  /// So many of them, the first ones, are those of samples: batch, sequence.
  unsigned sampleDims = 0;
  MoveSeconds moveSeconds;
  /// Bytes of a rank, for all shards that are kept.
  double memory = std::numeric_limits<double>::infinity();
  /// Whether they are also for what ops need only while they run, as far as is
  /// seen without a program (getBytesInUse).
  bool holdsTemporaries = false;

  /// Cuts of inputs, tokens and constants of a step, count for nothing.
  MoveSeconds getMoveSeconds(const PlacedTensor &tensor) const {
    return {tensor.allowed.empty() ? moveSeconds.ofSlice : 0,
            tensor.isForOptimizer ? 0 : moveSeconds.ofSkew};
  }
};

/// How collectives may run beside compute.
struct BesideCompute {
  /// Of one over these axes the level of the network that it shares with others
  /// at the time; nothing: it may not. Empty: none may.
  std::function<std::optional<int64_t>(llvm::ArrayRef<Axis>)> getLevel;
  /// What compute loses for each second of a collective beside it.
  double slowdown = 0;

  bool mayHide() const { return getLevel && slowdown < 1; }
};

struct ShardingChoice {
  std::vector<size_t> strategies;    ///< by op
  std::vector<Placement> placements; ///< by tensor: where it is made or kept
  double seconds = 0; ///< of ops and reshards, one after the other
  /// Where collectives run beside compute, by timeBeside; else `seconds`.
  double besideSeconds = 0;
  double bytes = 0;       ///< of the shards that are kept
  double byteSeconds = 0; ///< what a byte cost when it was chosen
  /// No choice that fits takes less; equal to `seconds` if that is proven to be
  /// the least.
  double bound = 0;
  size_t states = 0; ///< the most that were kept at a time
};

/// The choice with the fewest seconds: of the ops in their strategies, and of
/// the cheapest reshards from where each tensor is made to each further
/// placement in which an op needs it, however many ops do. Times are rounded to
/// multiples of 2^-40 s, so that sums are exact. Among equally cheap choices
/// always the same.
///
/// Exact, by dynamic programming over the ops, in an order in which few tensors
/// lie between those that have been and those to come: a state says of each
/// such tensor where it is made, if that is known, and where it is needed. Of
/// two states one is dropped if the other can be met from it at no more cost.
/// So the work grows with the length of the graph, and with what lies between
/// its parts. If there are more than `mostStates` at a time, the dearest are
/// left out, and `bound` says how much better a choice among those could be.
///
/// Where the best choice does not fit into `memory`, bytes get a price (a
/// Lagrange multiplier), the least at which the cheapest choice fits: it is the
/// best one of those that lie on the convex hull of seconds and bytes, or one
/// of equal parts some of which are as in the next faster one; and `bound` says
/// how much better another could be. In a graph without equal parts that has no
/// more than `mostStates` ways at a time to be at some seconds and bytes, it is
/// the best of all that fit.
///
/// Where collectives run beside compute, what is least is that step. How much
/// of a move is waited for depends on all else, so it is found in turns: at
/// first all of it counts; then the least that may be of what is moved for
/// parameters and their gradients, and some of what is moved of activations;
/// then, for each reason to move, the share that the last choice waited for
/// (timeBeside). The best of these choices, and of some that searches came to
/// besides, is the result, and `bound` is of `seconds`, of whatever choice.
///
/// Fails, and names the op, if it has no strategy, or none from whose results
/// what other ops need can be had; and if nothing fits.
llvm::Expected<ShardingChoice>
chooseShardings(const ShardingProblem &problem, CollectivePricer price,
                size_t mostStates = 1 << 13, const BesideCompute &beside = {});

/// The front of seconds against bytes, from the fastest choice to the smallest:
/// corners of its convex hull, `most` at most, those that are furthest apart;
/// the bound of each is for choices that keep no more than it does.
/// Fails as chooseShardings does, but for memory, which does not count.
llvm::Expected<std::vector<ShardingChoice>>
computeShardingFront(const ShardingProblem &problem, CollectivePricer price,
                     size_t most, size_t mostStates = 1 << 13);

/// By strategy of an op: the best choice with that one which is like `choice`
/// in all but some two dozen ops before and behind it; nothing where there is
/// none. A byte costs what it does there, so the memory may be less or more.
std::vector<std::optional<ShardingChoice>>
getAlternatives(const ShardingProblem &problem, const ShardingChoice &choice,
                size_t op, CollectivePricer price, size_t mostStates = 64);

/// A number for each kind of step.
using ByStepKind = std::array<double, Step::numKinds>;
inline double getSum(const ByStepKind &numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.);
}

/// Seconds of the reshard that takes the fewest seconds of collectives, by the
/// kinds of its steps; nothing if there is none.
std::optional<ByStepKind>
getReshardSeconds(const Mesh &mesh, const PlacedTensor &tensor,
                  const Placement &from, const Placement &to,
                  CollectivePricer price, MoveSeconds besides);

} // namespace cleave

#endif // CLEAVE_AUTOSHARD_CHOOSE_H
