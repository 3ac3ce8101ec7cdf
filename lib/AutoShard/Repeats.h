//===- Repeats.h - A problem with fewer of its equal parts ----------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_REPEATS_H
#define CLEAVE_LIB_AUTOSHARD_REPEATS_H

#include "cleave/AutoShard/Choose.h"

namespace cleave::autoshard {

/// One of equal parts that follow each other, whose end is its own beginning.
/// Its best choice is the best for all parts if all of them have the same.
struct Wheel {
  ShardingProblem problem;
  /// By op of the problem that it is of: the op of the wheel, if it has one.
  std::vector<std::optional<size_t>> ops;
};

/// A problem of which equal parts that follow each other, such as the layers of
/// a model, are left out until a few remain: what was read of a part that is
/// left out is read of the last one before it.
struct Reduced {
  ShardingProblem problem;
  /// For each part that remains: by op of the whole problem the op of this one
  /// that stands for it, if that part stands for those that are left out.
  std::vector<std::vector<size_t>> standing;
  Wheel wheel; ///< of `problem`
};

/// Finds the longest run of equal parts in that order of the ops: ops of equal
/// strategies and seconds, with equal tensors between them. Nothing if there
/// are not more than `mostParts` of them.
std::optional<Reduced> reduce(const ShardingProblem &problem,
                              llvm::ArrayRef<size_t> steps, size_t mostParts);

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_REPEATS_H
