//===- Styles.cpp - Manners to begin a search with ------------------------===//
#include "Styles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <numeric>

using namespace cleave;
using namespace cleave::autoshard;

using Role = Styles::Role;

/// By dim: the others that are another factor of some op that has it.
static std::vector<uint32_t> findMeetings(const ShardingProblem &problem) {
  std::vector<uint32_t> meets(problem.dims.size(), 0);
  for (const PlacedOp &op : problem.ops)
    for (auto [number, own] : llvm::enumerate(op.dims))
      for (auto [other, theirs] : llvm::enumerate(op.dims))
        if (number != other)
          for (size_t dim = 0; dim != meets.size(); ++dim)
            if (own >> dim & 1)
              meets[dim] |= theirs & ~own;
  return meets;
}

/// The largest set of dims besides the samples' that never meet, grown from
/// each of them in turn.
static uint32_t findApart(const ShardingProblem &problem) {
  std::vector<uint32_t> meets = findMeetings(problem);
  uint32_t largest = 0;
  for (size_t first = problem.sampleDims; first != meets.size(); ++first) {
    uint32_t set = uint32_t(1) << first, met = meets[first];
    for (size_t dim = problem.sampleDims; dim != meets.size(); ++dim)
      if ((met >> dim & 1) == 0 && (meets[dim] & set) == 0) {
        set |= uint32_t(1) << dim;
        met |= meets[dim];
      }
    if (llvm::popcount(set) > llvm::popcount(largest))
      largest = set;
  }
  return largest;
}

/// Whether some op can: of one sample none can split the batch.
static bool canSplit(const ShardingProblem &problem, uint32_t dim) {
  return llvm::any_of(problem.ops, [&](const PlacedOp &op) {
    return llvm::any_of(op.strategies, [&](const Strategy &strategy) {
      return llvm::any_of(llvm::zip(op.dims, strategy.axes), [&](auto factor) {
        const auto &[dims, axes] = factor;
        return (dims & dim) != 0 && !axes.empty();
      });
    });
  });
}

static std::vector<Role> getRoles(const ShardingProblem &problem) {
  std::vector<Role> roles;
  for (unsigned dim = 0; dim != problem.sampleDims; ++dim)
    if (canSplit(problem, uint32_t(1) << dim))
      roles.push_back({uint32_t(1) << dim});
  if (uint32_t apart = findApart(problem); llvm::popcount(apart) > 1) {
    if (!roles.empty())
      roles.push_back({apart, roles.back()[0]});
    roles.push_back({apart});
  }
  roles.push_back({});
  return roles;
}

/// Whether a strategy does along an axis what the role asks of its op.
static bool keepsTo(const ShardingProblem &problem, const PlacedOp &op,
                    const Strategy &strategy, Axis axis, const Role &role) {
  if (strategy.addsSums(axis))
    return true;
  uint32_t splits = op.getSplitDims(strategy, axis);
  uint32_t samples = (uint32_t(1) << problem.sampleDims) - 1;
  for (uint32_t set : role)
    if (llvm::any_of(op.dims, [&](uint32_t dims) { return (dims & set) != 0; }))
      return (splits & set) != 0;
  return (splits & samples) == 0;
}

Styles::Styles(const ShardingProblem &problem, const StrategyLists &usable)
    : usable(usable) {
  if (problem.sampleDims == 0)
    return;
  roles = getRoles(problem);
  for (const Role &role : roles)
    splitsSamples.push_back(role.empty() || role[0] >> problem.sampleDims == 0);
  llvm::SmallVector<Axis, 4> axes;
  for (unsigned axis = 0; axis != problem.mesh.getNumAxes(); ++axis)
    if (problem.mesh.getSize(Axis(axis)) > 1)
      axes.push_back(Axis(axis));
  numAxes = axes.size();
  for (auto [op, list] : llvm::zip_equal(problem.ops, usable)) {
    Op &own = ops.emplace_back();
    own.hasNames = !op.dims.empty();
    for (auto [number, role] : llvm::enumerate(roles))
      for (uint32_t set : role)
        if (llvm::any_of(op.dims,
                         [&](uint32_t dims) { return (dims & set) != 0; }))
          own.roles |= uint32_t(1) << number;
    for (uint32_t strategy : list)
      for (Axis axis : axes)
        own.along.push_back(
            describe(problem, op, op.strategies[strategy], axis));
  }
}

Styles::Along Styles::describe(const ShardingProblem &problem,
                               const PlacedOp &op, const Strategy &strategy,
                               Axis axis) const {
  Along along;
  for (auto [number, role] : llvm::enumerate(roles))
    if (keepsTo(problem, op, strategy, axis, role))
      along.roles |= uint32_t(1) << number;
  along.isIdle = llvm::none_of(strategy.axes, [&](const AxisList &splits) {
    return llvm::is_contained(splits, axis);
  });
  along.addsSums = strategy.addsSums(axis);
  along.splitsKept = isOfParameter(op) && strategy.getKept().isSplitBy(axis);
  return along;
}

StrategyLists Styles::getStyle(llvm::ArrayRef<size_t> style) const {
  StrategyLists lists(usable);
  for (auto [list, op] : llvm::zip_equal(lists, ops)) {
    if (!op.hasNames)
      continue;
    std::vector<uint32_t> some;
    for (auto [number, strategy] : llvm::enumerate(list))
      if (llvm::all_of(llvm::enumerate(style), [&, &op = op,
                                                at = number](auto role) {
            return op.along[at * numAxes + role.index()].roles >> role.value() &
                   1;
          }))
        some.push_back(strategy);
    if (!some.empty())
      list = std::move(some);
  }
  return lists;
}

/// Numbers of an op's usable strategies that keep to a recipe.
std::vector<size_t> Styles::narrow(const Op &op,
                                   llvm::ArrayRef<size_t> style) const {
  std::vector<size_t> left(op.along.size() / numAxes);
  std::iota(left.begin(), left.end(), size_t(0));
  auto keepThose = [&](llvm::function_ref<bool(const Along *)> passes) {
    std::vector<size_t> some;
    llvm::copy_if(left, std::back_inserter(some), [&](size_t number) {
      return passes(&op.along[number * numAxes]);
    });
    if (some.empty())
      return false;
    left = std::move(some);
    return true;
  };
  for (auto [axis, role] : llvm::enumerate(style)) {
    bool keepsToRole =
        keepThose([&, axis = axis, role = role](const Along *along) {
          if (op.roles >> role & 1)
            return (along[axis].roles >> role & 1) != 0;
          return along[axis].isIdle ||
                 (splitsSamples[role] && along[axis].splitsKept);
        });
    if (!keepsToRole)
      keepThose(
          [&, axis = axis](const Along *along) { return along[axis].isIdle; });
  }
  // Sums along all axes of a role are reduced together.
  keepThose([&](const Along *along) {
    for (size_t axis = 0; axis != numAxes; ++axis)
      for (size_t other = 0; other != axis; ++other)
        if (style[axis] == style[other] &&
            along[axis].addsSums != along[other].addsSums)
          return false;
    return true;
  });
  return left;
}

std::vector<Styles::Recipe> Styles::getRecipes() const {
  constexpr size_t most = 64;
  std::vector<Recipe> recipes;
  if (roles.size() < 2 || numAxes == 0)
    return recipes;
  auto add = [&](llvm::ArrayRef<size_t> style) {
    Recipe &recipe = recipes.emplace_back();
    recipe.style.assign(style.begin(), style.end());
    for (auto [list, op] : llvm::zip_equal(usable, ops)) {
      std::vector<uint32_t> &own = recipe.lists.emplace_back();
      for (size_t number : narrow(op, style))
        own.push_back(list[number]);
    }
  };
  size_t count = 1, numRoles = roles.size();
  auto countAll = [&] {
    count = 1;
    for (size_t axis = 0; axis != numAxes; ++axis)
      count *= numRoles;
    return count;
  };
  while (countAll() > most)
    --numRoles;
  llvm::SmallVector<size_t, 4> style(numAxes, 0);
  for (size_t number = 0; number != count; ++number) {
    add(style);
    for (size_t &role : style) {
      if (++role < numRoles)
        break;
      role = 0;
    }
  }
  return recipes;
}
