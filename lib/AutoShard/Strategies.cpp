//===- Strategies.cpp - The ways to run an op on a mesh -------------------===//
#include "cleave/AutoShard/Strategies.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;

bool Strategy::addsSums(Axis axis) const {
  return !placements.operands.empty() &&
         llvm::all_of(placements.operands, [&](const Placement &operand) {
           return operand.isPartialOver(axis);
         });
}

/// Calls `visit` with all numbers of as many digits as the mesh has axes, a
/// digit of an axis of one rank being 0 and others below `base`.
static void
visitDigits(const Mesh &mesh, unsigned base,
            llvm::function_ref<void(llvm::ArrayRef<unsigned>)> visit) {
  llvm::SmallVector<unsigned, 4> digits(mesh.getNumAxes(), 0);
  auto advance = [&] {
    for (unsigned axis = mesh.getNumAxes(); axis-- > 0;) {
      if (mesh.getSize(axis) > 1 && ++digits[axis] < base)
        return true;
      digits[axis] = 0;
    }
    return false;
  };
  do
    visit(digits);
  while (advance());
}

namespace {
/// One strategy as it is put together, axis by axis.
class Builder {
public:
  Builder(const Mesh &mesh, const ShardingRule &rule)
      : mesh(mesh), rule(rule) {}

  /// By axis: 0, 1 + factor, or 1 + factors + pass group.
  std::optional<Strategy> build(llvm::ArrayRef<unsigned> digits) {
    Strategy strategy;
    strategy.axes.resize(rule.factors.size());
    for (auto [axis, digit] : llvm::enumerate(digits))
      if (digit > 0 && digit <= rule.factors.size())
        strategy.axes[digit - 1].push_back(Axis(axis));
    RulePlacements &placements = strategy.placements;
    for (const TensorFactors &tensor : rule.operands)
      placements.operands.push_back(getPlacement(tensor, strategy.axes));
    for (const TensorFactors &tensor : rule.results)
      placements.results.push_back(getPlacement(tensor, strategy.axes));
    for (auto [axis, digit] : llvm::enumerate(digits)) {
      if (digit == 0)
        continue;
      bool fits = digit <= rule.factors.size()
                      ? splitFactor(placements, Axis(axis), digit - 1)
                      : letPass(placements, Axis(axis),
                                rule.passes[digit - 1 - rule.factors.size()]);
      if (!fits)
        return std::nullopt;
    }
    if (llvm::Error error =
            checkRule(mesh, rule, placements.operands, placements.results)) {
      llvm::consumeError(std::move(error));
      return std::nullopt;
    }
    return strategy;
  }

private:
  static bool has(const TensorFactors &tensor, Factor factor) {
    return llvm::any_of(tensor, [&](const DimFactors &dim) {
      return llvm::is_contained(dim, factor);
    });
  }

  /// False if it is partial by another reduction already.
  static bool makePartial(Placement &placement, Axis axis,
                          Reduction reduction) {
    if (placement.isPartial() && placement.reduction != reduction)
      return false;
    placement.partial.push_back(axis);
    placement.reduction = reduction;
    return true;
  }

  bool splitFactor(RulePlacements &placements, Axis axis, Factor factor) {
    std::optional<Reduction> reduction = rule.factors[factor].reduction;
    if (!reduction)
      return true;
    bool isReduced = false;
    for (auto [tensor, placement] :
         llvm::zip_equal(rule.results, placements.results)) {
      if (has(tensor, factor))
        continue;
      isReduced = true;
      if (!makePartial(placement, axis, *reduction))
        return false;
    }
    return !isReduced || llvm::all_of(rule.addends, [&](unsigned operand) {
      return makePartial(placements.operands[operand], axis, *reduction);
    });
  }

  static bool letPass(RulePlacements &placements, Axis axis,
                      const PassGroup &pass) {
    auto make = [&](Placement &placement) {
      return makePartial(placement, axis, pass.reduction);
    };
    return llvm::all_of(pass.operands,
                        [&](unsigned operand) {
                          return make(placements.operands[operand]);
                        }) &&
           llvm::all_of(placements.results, make);
  }

  const Mesh &mesh;
  const ShardingRule &rule;
};
} // namespace

std::vector<Strategy> cleave::getStrategies(const Mesh &mesh,
                                            const ShardingRule &rule) {
  std::vector<Strategy> strategies;
  Builder builder(mesh, rule);
  visitDigits(mesh, unsigned(1 + rule.factors.size() + rule.passes.size()),
              [&](llvm::ArrayRef<unsigned> digits) {
                if (std::optional<Strategy> strategy = builder.build(digits))
                  strategies.push_back(std::move(*strategy));
              });
  return strategies;
}

Placement cleave::dropSingleRankAxes(const Mesh &mesh, Placement placement) {
  auto drop = [&](AxisList &axes) {
    llvm::erase_if(axes, [&](Axis axis) { return mesh.getSize(axis) == 1; });
  };
  llvm::for_each(placement.dims, drop);
  drop(placement.partial);
  return placement;
}

std::optional<Axis> cleave::findIdleAxis(const Mesh &mesh,
                                         llvm::ArrayRef<StrategyList> all) {
  std::vector<bool> splits;
  for (const MeshAxis &axis : mesh.getAxes())
    splits.push_back(axis.size == 1);
  for (const StrategyList &strategies : all)
    for (const Strategy &strategy : strategies)
      for (const AxisList &axes : strategy.axes)
        for (Axis axis : axes)
          splits[axis] = true;
  auto idle = llvm::find(splits, false);
  if (all.empty() || idle == splits.end())
    return std::nullopt;
  return Axis(idle - splits.begin());
}

static std::vector<Placement> getPlacements(const Mesh &mesh,
                                            llvm::ArrayRef<int64_t> shape,
                                            bool canBePartial) {
  std::vector<Placement> placements;
  unsigned rank = unsigned(shape.size());
  visitDigits(mesh, 1 + rank + canBePartial,
              [&](llvm::ArrayRef<unsigned> digits) {
                Placement placement = Placement::getReplicated(rank);
                for (auto [axis, digit] : llvm::enumerate(digits))
                  if (digit > rank)
                    placement.partial.push_back(Axis(axis));
                  else if (digit > 0)
                    placement.dims[digit - 1].push_back(Axis(axis));
                if (llvm::Error error = placement.verify(mesh, shape))
                  llvm::consumeError(std::move(error));
                else
                  placements.push_back(std::move(placement));
              });
  return placements;
}

std::vector<Placement>
cleave::getWholePlacements(const Mesh &mesh, llvm::ArrayRef<int64_t> shape) {
  return getPlacements(mesh, shape, /*canBePartial=*/false);
}

std::vector<Placement> cleave::getSumPlacements(const Mesh &mesh,
                                                llvm::ArrayRef<int64_t> shape) {
  return getPlacements(mesh, shape, /*canBePartial=*/true);
}
