//===- Repeats.h - A problem with fewer of its equal parts ----------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_REPEATS_H
#define CLEAVE_LIB_AUTOSHARD_REPEATS_H

#include "cleave/AutoShard/Choose.h"

namespace cleave::autoshard {

/// Steps [begin, begin + size) of a problem, such as a layer of a model. Parts
/// of one kind are equal, and have equal tensors between them.
struct Part {
  size_t begin = 0, size = 0, kind = 0;
};

/// A problem in which one of each kind of parts stands for all of it, so that a
/// choice costs what it does where all parts of a kind have the same: its ops
/// take as long as theirs together, and so do moves of what it makes. What
/// parts of a kind read of others, of whatever kind or of none, it reads all
/// of, in the same placements; and what some of them make for others than the
/// rest do, it makes besides. Example, of layers between an embedding and a
/// head:
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
  /// By op of this one: the one of the whole problem that stands for all.
  std::vector<size_t> standing;
};

/// Nothing if parts of a kind do not use tensors in the same way.
std::optional<Tied> tie(const ShardingProblem &problem, ShardingProblem rest,
                        llvm::ArrayRef<size_t> steps,
                        llvm::ArrayRef<Part> parts);

/// A problem of which equal parts that follow each other are left out until a
/// few remain: what was read of a part that is left out is read of the last one
/// before it.
struct Few {
  ShardingProblem problem;
  /// For each part that remains: by op of the whole problem the op of this one
  /// that stands for it, if that part stands for those that are left out.
  std::vector<std::vector<size_t>> standing;
};

/// A problem with parts of a few kinds, made smaller.
struct Reduced {
  Tied tied;
  /// Nothing where more steps lie outside of the longest run of equal parts
  /// than as many of its parts have as would be left.
  std::optional<Few> few;
  /// By op of the whole problem: the number of its part, in the order of steps,
  /// if it is of one.
  std::vector<std::optional<size_t>> parts;
  size_t numParts = 0;
};

/// Finds the longest run of equal parts in that order of the ops, ops of equal
/// strategies and seconds, with equal tensors between them; and what else there
/// is of such parts. Nothing if there are not more than `mostParts` of the run.
std::optional<Reduced> reduce(const ShardingProblem &problem,
                              llvm::ArrayRef<size_t> steps, size_t mostParts);

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_REPEATS_H
