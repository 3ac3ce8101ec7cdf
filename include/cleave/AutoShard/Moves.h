//===- Moves.h - What a choice of placements moves ------------------------===//
#ifndef CLEAVE_AUTOSHARD_MOVES_H
#define CLEAVE_AUTOSHARD_MOVES_H

#include "cleave/AutoShard/Choose.h"

namespace cleave {

/// One collective of a move, or a cut of what a rank has.
struct MoveStep {
  Step step;
  double bytes = 0;   ///< of a rank's shard, before it or behind: the larger
  double input = 0;   ///< of the shard before it
  double seconds = 0; ///< once; a multiple of 2^-40
  /// Of a step of training: that compute waits for it, or is slower
  /// (timeBeside).
  double exposed = 0;
};

/// The steps of a reshard of a tensor, with what each takes, one after the
/// other with all else.
std::vector<MoveStep> priceSteps(const Mesh &mesh, const PlacedTensor &tensor,
                                 const Placement &from, std::vector<Step> steps,
                                 CollectivePricer price, MoveSeconds besides);

/// A tensor on its way from where it is made to where ops need it.
struct Move {
  size_t tensor = 0;
  Placement from, to;
  std::vector<size_t> ops; ///< that need it there
  double times = 1;        ///< a step does it so often
  std::vector<MoveStep> steps;

  double getSeconds() const; ///< of a step, all times
};

/// All moves of a choice, by tensor: what it takes besides the ops' seconds.
std::vector<Move> getMoves(const ShardingProblem &problem,
                           const ShardingChoice &choice,
                           CollectivePricer price);

/// The collectives of one kind along the same axes, or the cuts.
struct CollectiveTotal {
  Step::Kind kind = Step::Kind::AllReduce;
  AxisList axes;
  double count = 0, bytes = 0, seconds = 0; ///< of a step
  double exposed = 0;                       ///< of these seconds
};

/// The sums of moves, the one that takes longest first, without those that take
/// no time.
std::vector<CollectiveTotal> getTotals(llvm::ArrayRef<Move> moves);

} // namespace cleave

#endif // CLEAVE_AUTOSHARD_MOVES_H
