//===- Repeats.h - A problem with fewer of its equal parts ----------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_REPEATS_H
#define CLEAVE_LIB_AUTOSHARD_REPEATS_H

#include "cleave/AutoShard/Choose.h"

namespace cleave::autoshard {

/// A problem in which one of equal parts stands for all of them, so that a
/// choice costs what it does where all parts have the same: its ops take as
/// long as theirs together, and so do moves of what it makes. What a part reads
/// of the one before it, it reads of itself; what the first one reads instead,
/// it reads, too, in the same placements; and what is read of the last one, it
/// makes besides. Example, of layers between an embedding and a head:
///
///   e = embedding            e = embedding
///   x1 = layer e             x, x3 = layer x, e    three times the seconds
///   x2 = layer x1                                  x moved twice
///   x3 = layer x2
///   y = head x3              y = head x3
struct Tied {
  ShardingProblem problem;
  /// By op of the whole problem: the op of this one that it does as.
  std::vector<size_t> ops;
};

/// A problem of which equal parts that follow each other, such as the layers of
/// a model, are left out until a few remain: what was read of a part that is
/// left out is read of the last one before it.
struct Reduced {
  ShardingProblem problem;
  /// For each part that remains: by op of the whole problem the op of this one
  /// that stands for it, if that part stands for those that are left out.
  std::vector<std::vector<size_t>> standing;
  /// By op of the whole problem: the number of its part, in the order of steps,
  /// if it is of one.
  std::vector<std::optional<size_t>> parts;
  size_t numParts = 0;
  Tied tied;
};

/// Finds the longest run of equal parts in that order of the ops: ops of equal
/// strategies and seconds, with equal tensors between them. Nothing if there
/// are not more than `mostParts` of them.
std::optional<Reduced> reduce(const ShardingProblem &problem,
                              llvm::ArrayRef<size_t> steps, size_t mostParts);

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_REPEATS_H
