//===- Reshard.h - From one placement to another by collectives -----------===//
#ifndef CLEAVE_RESHARD_RESHARD_H
#define CLEAVE_RESHARD_RESHARD_H

#include "cleave/Placement/Placement.h"
#include <vector>

namespace cleave {

/// One collective, or the local cut that needs none, over the ranks that differ
/// along `axes` only, in the order of their shard index. On a mesh with the
/// axes x and y:
///
///   all_reduce     [{}] partial={x}    -> [{}]
///   reduce_scatter [{y}] partial={x}   -> [{y, x}]
///   all_gather     [{y, x}]            -> [{y}]
///   all_to_all     [{y, x}, {}]        -> [{y}, {x}]
///   slice          [{y}, {}]           -> [{y}, {x}]
///
/// Axes leave a dim at its minor end and join it there; so what a rank holds is
/// always one box of the tensor.
struct Step {
  enum class Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Slice };

  Kind kind = Kind::Slice;
  AxisList axes;
  /// The dim that is scattered, sliced or gathered; for AllToAll the one that
  /// is gathered. AllReduce has none.
  unsigned dim = 0;
  /// The dim that AllToAll splits.
  unsigned splitDim = 0;
  /// Where the value is afterwards.
  Placement after;

  /// `all_to_all over {x}, dim 0 to dim 1`
  std::string toString(const Mesh &mesh) const;
};

/// What one collective costs among the neighbours along one axis.
struct AxisCost {
  double latency = 0;   ///< seconds a hop
  double bandwidth = 1; ///< bytes a second, each way, for each rank
};

struct ReshardCosts {
  double launch = 0;                   ///< seconds for each collective
  llvm::SmallVector<AxisCost, 4> axes; ///< one for each axis of the mesh

  static ReshardCosts getUniform(const Mesh &mesh, double launch,
                                 AxisCost cost);
};

/// The placement after `step` (whose `after` is not read) of a tensor that is
/// placed as `before`. Fails, and says why, where the step cannot be taken.
llvm::Expected<Placement> applyStep(const Mesh &mesh,
                                    llvm::ArrayRef<int64_t> globalShape,
                                    const Placement &before, const Step &step);

/// Seconds of a step in the alpha-beta model of ring collectives (Thakur,
/// Rabenseifner and Gropp, "Optimization of Collective Communication Operations
/// in MPICH", 2005). With n ranks and b bytes a rank before the step:
///
///   all_reduce      launch + 2 (n-1) latency + 2 (n-1)/n b / bandwidth
///   reduce_scatter  launch +   (n-1) latency +   (n-1)/n b / bandwidth
///   all_gather      launch +   (n-1) latency +   (n-1)   b / bandwidth
///   all_to_all      launch +   (n-1) latency +   (n-1)/n b / bandwidth
///   slice           0, and so is any step among one rank
///
/// Over several axes a ring has the worst latency and bandwidth of them. The
/// seconds are a multiple of 2^-40, so that sums are exact and ties are ties.
double getStepSeconds(const Mesh &mesh, llvm::ArrayRef<int64_t> globalShape,
                      const Placement &before, const Step &step,
                      int64_t elementBytes, const ReshardCosts &costs);

/// The cheapest steps from `from` to `to`; none if they are equal. Among
/// equally cheap ones: the fewest collectives, then the fewest slices, then
/// always the same. Fails if a placement does not fit the shape, or if `to` is
/// partial where `from` is not, or otherwise partial.
llvm::Expected<std::vector<Step>>
planReshard(const Mesh &mesh, llvm::ArrayRef<int64_t> globalShape,
            const Placement &from, const Placement &to, int64_t elementBytes,
            const ReshardCosts &costs);

} // namespace cleave

#endif // CLEAVE_RESHARD_RESHARD_H
