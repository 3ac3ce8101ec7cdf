//===- Strategies.h - The ways to run an op on a mesh ---------------------===//
#ifndef CLEAVE_AUTOSHARD_STRATEGIES_H
#define CLEAVE_AUTOSHARD_STRATEGIES_H

#include "cleave/Placement/ShardingRule.h"
#include <memory>
#include <vector>

namespace cleave {

/// A way to run an op: how its factors are split, and the placements that its
/// operands then need and its results have. They pass checkRule.
struct Strategy {
  FactorAxes axes;
  RulePlacements placements;

  /// Whether all that the op reads are sums that are yet to be reduced along an
  /// axis.
  bool addsSums(Axis axis) const;
  /// Where an op has what it is about: a parameter and its update, a gradient.
  const Placement &getKept() const {
    return placements.operands.empty() ? placements.results.front()
                                       : placements.operands.front();
  }
};

/// Strategies that are not changed any more, so that ops that have the same may
/// share them: on three axes an op has hundreds.
class StrategyList {
public:
  StrategyList() = default;
  StrategyList(std::initializer_list<Strategy> strategies)
      : StrategyList(std::vector<Strategy>(strategies)) {}
  StrategyList(std::vector<Strategy> strategies)
      : list(std::make_shared<const std::vector<Strategy>>(
            std::move(strategies))) {}

  size_t size() const { return list ? list->size() : 0; }
  bool empty() const { return size() == 0; }
  const Strategy &operator[](size_t number) const { return (*list)[number]; }
  const Strategy *begin() const { return list ? list->data() : nullptr; }
  const Strategy *end() const { return begin() + size(); }
  /// Whether these are shared, not only equal.
  bool isSameAs(const StrategyList &other) const { return list == other.list; }

private:
  std::shared_ptr<const std::vector<Strategy>> list;
};

/// All of them: each axis of more than one rank splits a factor, or lets the
/// operands of a pass group stay partial along it, or does neither, so that its
/// ranks compute the same. Of axes that split one factor the mesh's earlier one
/// is major. Always in the same order; the first one splits nothing.
///
/// A product on ["x"=2], `b h, f h -> b f | reduce h | pass 0 | pass 1`, has
/// six: whole, b, h or f split, and either operand partial.
std::vector<Strategy> getStrategies(const Mesh &mesh, const ShardingRule &rule);

/// The same placement without axes of one rank, which split nothing and which
/// no strategy has.
Placement dropSingleRankAxes(const Mesh &mesh, Placement placement);

/// An axis of several ranks along which ops with these strategies, if there are
/// any, can split nothing, so that its ranks all do the same; nothing if there
/// is none.
std::optional<Axis> findIdleAxis(const Mesh &mesh,
                                 llvm::ArrayRef<StrategyList> all);

/// Where a tensor may be kept: each axis splits a dim, the mesh's earlier one
/// as the major one, or none; nothing is partial. The first is replicated.
std::vector<Placement> getWholePlacements(const Mesh &mesh,
                                          llvm::ArrayRef<int64_t> shape);

/// Where a tensor may be while others are added to it: the same, but an axis
/// may also leave it a partial sum.
std::vector<Placement> getSumPlacements(const Mesh &mesh,
                                        llvm::ArrayRef<int64_t> shape);

} // namespace cleave

#endif // CLEAVE_AUTOSHARD_STRATEGIES_H
