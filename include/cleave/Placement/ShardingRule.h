//===- ShardingRule.h - How the placements of an op hang together ---------===//
//
// One einsum-like statement per op, from which type checking and propagation
// follow. A *factor* is a loop of the op: each tensor dim is one factor, or
// several in a compound dim (heads = kv heads x query heads of each). Splitting
// a factor over an axis splits every dim that has it.
//
//   linear          b s h, f h -> b s f | reduce h | pass 0 | pass 1
//   add             b s h, b s h -> b s h | pass 0 1
//   grouped heads   b q (v g) d, b k v d, b k v d -> b q (v g) d | block k ...
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PLACEMENT_SHARDINGRULE_H
#define CLEAVE_PLACEMENT_SHARDINGRULE_H

#include "cleave/Placement/Placement.h"

namespace cleave {

using Factor = unsigned;
/// The factors of one dim, major first. Empty: the dim cannot be split.
using DimFactors = llvm::SmallVector<Factor, 1>;
/// The dims of one tensor.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;
/// The axes that split each factor of a rule, major first.
using FactorAxes = llvm::SmallVector<AxisList, 8>;

struct FactorInfo {
  std::string name;
  int64_t size = 1;
  /// Set: a result without this factor is this reduction over it. Unset: every
  /// result has it, or it is blocked.
  std::optional<Reduction> reduction;
  /// Not empty: the factor may not be split, for this reason.
  std::string blocked;

  bool operator==(const FactorInfo &) const = default;
};

/// Operands that the op is jointly linear in (for Max: that it commutes with
/// the maximum of): if all of them, and no other operand, are partial over an
/// axis, then so are the results.
struct PassGroup {
  llvm::SmallVector<unsigned, 2> operands; ///< ascending
  Reduction reduction = Reduction::Sum;

  bool operator==(const PassGroup &) const = default;
};

struct ShardingRule {
  llvm::SmallVector<FactorInfo, 8> factors;
  llvm::SmallVector<TensorFactors, 4> operands, results;
  llvm::SmallVector<PassGroup, 2> passes;
  /// Operands, ascending, that are added once, outside of any reduced factor: a
  /// bias. Where a reduced factor is split, each rank adds its own, so they
  /// must be partial over the same axes.
  llvm::SmallVector<unsigned, 1> addends;

  bool operator==(const ShardingRule &) const = default;

  /// Checks the rule itself: indices in range, a factor at most once in a
  /// tensor, sizes of at least 1, and every factor that some result lacks
  /// either reduced or blocked.
  llvm::Error verify() const;

  std::optional<Factor> getFactor(llvm::StringRef name) const;

  /// Global shape of a tensor of the rule; a dim without factors has size 1.
  llvm::SmallVector<int64_t, 4> getShape(const TensorFactors &tensor) const;

  /// Reads the notation at the top of this file and checks the rule:
  ///
  ///   rule   ::= tensors `->` tensors (`|` clause)*
  ///   tensor ::= dim+ | `.`                  `.` is a tensor of rank 0
  ///   dim    ::= name | `(` name* `)` | `1`
  ///   clause ::= `reduce` name+ | `max` name+          reduction of factors
  ///            | `pass` operand+ | `passmax` operand+  one PassGroup
  ///            | `add` operand+                        addends
  ///            | `block` name+ `:` reason              up to the next `|`
  ///
  /// Factors are numbered as they appear. `sizes` gives factors their sizes by
  /// name; every factor needs one.
  static llvm::Expected<ShardingRule>
  parse(llvm::StringRef text,
        llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizes);

  /// The notation that `parse` reads, without sizes.
  std::string toString() const;
};

/// The type checker of an op: succeeds exactly if an op that keeps to `rule`,
/// run on each rank's shards alone, gives each rank its shard of the results.
/// (A whole value is also an addend of its own maximum; types keep them apart.)
///
/// 1. A factor is split by the same axes wherever it appears; an axis splits at
///    most one factor; sizes divide; blocked factors are whole; a factor in a
///    compound dim is split only if every factor major to it is split down
///    to 1.
/// 2. Along an axis that splits a reduced factor, results without the factor
///    are partial, addends are partial, and no other operand is.
/// 3. Along an axis that splits no factor, results are partial if the partial
///    operands are those of one pass group, and whole if none is.
/// 4. Along any other axis nothing is partial.
///
/// The placements must verify against the shapes of the rule.
llvm::Error checkRule(const Mesh &mesh, const ShardingRule &rule,
                      llvm::ArrayRef<Placement> operands,
                      llvm::ArrayRef<Placement> results);

/// Part 1 of checkRule without placements: whether factors may be split so.
llvm::Error checkFactorAxes(const Mesh &mesh, const ShardingRule &rule,
                            const FactorAxes &factorAxes);

/// The axes of each factor of one tensor as its placement has them; factors of
/// other tensors have none. In a compound dim, axes go to the major factor
/// until it is split down to 1, then to the next. Fails if an axis does not fit
/// in a factor.
llvm::Expected<FactorAxes> getFactorAxes(const Mesh &mesh,
                                         const ShardingRule &rule,
                                         const TensorFactors &tensor,
                                         const Placement &placement);

/// How a tensor is split when its factors are split so; nothing is partial.
Placement getPlacement(const TensorFactors &tensor,
                       const FactorAxes &factorAxes);

struct RulePlacements {
  llvm::SmallVector<Placement, 4> operands, results;
};

/// The placements with which an op runs when its factors are split as
/// `factorAxes`, given the operands as they are: `operands` need resharding to
/// where the answer differs. A partial operand stays partial where the rule
/// lets it pass, and is to be reduced elsewhere. The answer passes checkRule.
/// Fails if checkFactorAxes does, if an addend would have to become partial, or
/// if a result would mix reductions.
llvm::Expected<RulePlacements>
inferPlacements(const Mesh &mesh, const ShardingRule &rule,
                const FactorAxes &factorAxes,
                llvm::ArrayRef<Placement> operands);

} // namespace cleave

#endif // CLEAVE_PLACEMENT_SHARDINGRULE_H
