//===- Reshard.h - From one placement to another by collectives -----------===//
#ifndef CLEAVE_RESHARD_RESHARD_H
#define CLEAVE_RESHARD_RESHARD_H

#include "cleave/Placement/Placement.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <memory>
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
  static constexpr size_t numKinds = 5;

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

/// `all_reduce`
llvm::StringRef getName(Step::Kind kind);

/// Seconds of a collective of this kind over all groups of ranks that differ
/// along `axes` only, if each rank holds `bytes` before it. It is not asked of
/// a slice, nor of one rank.
using CollectivePricer = llvm::function_ref<double(
    Step::Kind kind, llvm::ArrayRef<Axis> axes, double bytes)>;

/// The placement after `step` (whose `after` is not read) of a tensor that is
/// placed as `before`. Fails, and says why, where the step cannot be taken.
llvm::Expected<Placement> applyStep(const Mesh &mesh,
                                    llvm::ArrayRef<int64_t> globalShape,
                                    const Placement &before, const Step &step);

/// What `price` says of a step; 0 of a slice and among one rank. A multiple of
/// 2^-40, so that sums are exact and ties are ties.
double getStepSeconds(const Mesh &mesh, llvm::ArrayRef<int64_t> globalShape,
                      const Placement &before, const Step &step,
                      int64_t elementBytes, CollectivePricer price);

/// The cheapest steps from `from` to `to`; none if they are equal. Among
/// equally cheap ones: the fewest collectives, then the fewest slices, then
/// always the same. Fails if a placement does not fit the shape, or if `to` is
/// partial where `from` is not, or otherwise partial.
llvm::Expected<std::vector<Step>>
planReshard(const Mesh &mesh, llvm::ArrayRef<int64_t> globalShape,
            const Placement &from, const Placement &to, int64_t elementBytes,
            CollectivePricer price);

/// planReshard for many pairs of placements of one tensor. It remembers which
/// steps lead where, and how far it has looked from the last `from`: pairs with
/// the same one should follow each other.
class ReshardPlanner {
public:
  /// The mesh and what `price` refers to must outlive it.
  ReshardPlanner(const Mesh &mesh, llvm::ArrayRef<int64_t> globalShape,
                 int64_t elementBytes, CollectivePricer price);
  ReshardPlanner(ReshardPlanner &&) noexcept;
  ~ReshardPlanner();

  llvm::Expected<std::vector<Step>> plan(const Placement &from,
                                         const Placement &to);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace cleave

#endif // CLEAVE_RESHARD_RESHARD_H
