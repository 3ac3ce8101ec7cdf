//===- Styles.h - Manners to begin a search with --------------------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_STYLES_H
#define CLEAVE_LIB_AUTOSHARD_STYLES_H

#include "Costs.h"

namespace cleave::autoshard {

/// Manners in which all ops of a problem can be done. In a style each axis of
/// more than one rank has one role for all ops:
///
///   - it splits one of the samples' dims, wherever an op has it;
///   - it splits, wherever an op has one, a dim of the largest set of other
///     dims of which no two meet in one op: of a decoder heads, the
///     intermediate size and the vocabulary;
///   - the same, and where an op has none of these the samples' last dim;
///   - none.
///
/// An op that has no dim of the role splits none of the samples' dims along the
/// axis; one that adds sums which are yet to be reduced along it keeps to any
/// role. A recipe is a style in which nearly all is decided: see getRecipes.
class Styles {
public:
  /// What an axis splits: dims of the first of these sets that an op has.
  using Role = llvm::SmallVector<uint32_t, 2>;
  /// By axis of more than one rank: the number of its role.
  using Style = llvm::SmallVector<size_t, 4>;

  struct Recipe {
    Style style;
    StrategyLists lists;
  };

  /// `usable` must outlive it.
  Styles(const ShardingProblem &problem, const StrategyLists &usable);

  /// By op: the strategies of `usable` that keep to the style, or all of an op
  /// that has none which do.
  StrategyLists getStyle(llvm::ArrayRef<size_t> style) const;

  /// All styles, and in each of them: what has no dim of an axis' role is not
  /// split along it, but that along axes which split samples or nothing what is
  /// kept for long may be, as in ZeRO. An op that cannot do this along an axis
  /// does nothing along it, or what it can. None where dims have no names; of
  /// too many axes the last roles are left out.
  std::vector<Recipe> getRecipes() const;

private:
  /// What a strategy does along an axis.
  struct Along {
    uint32_t roles = 0;  ///< a bit for each that it keeps to
    bool isIdle = false; ///< it splits nothing
    bool addsSums = false;
    bool splitsKept = false;
  };
  struct Op {
    bool hasNames = false;
    uint32_t roles = 0;       ///< a bit for each of which it has a dim
    std::vector<Along> along; ///< by usable strategy and axis
  };

  Along describe(const ShardingProblem &problem, const PlacedOp &op,
                 const Strategy &strategy, Axis axis) const;
  std::vector<size_t> narrow(const Op &op, llvm::ArrayRef<size_t> style) const;

  const StrategyLists &usable;
  std::vector<Role> roles;
  std::vector<bool> splitsSamples; ///< by role
  size_t numAxes = 0;
  std::vector<Op> ops;
};

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_STYLES_H
