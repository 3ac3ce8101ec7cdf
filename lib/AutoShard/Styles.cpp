//===- Styles.cpp - Manners to begin a search with ------------------------===//
#include "Styles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

/// What an axis splits: dims of the first of these sets that an op has. None:
/// nothing of the samples.
using Role = llvm::SmallVector<uint32_t, 2>;

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
  std::vector<Role> roles = {Role()};
  for (unsigned dim = 0; dim != problem.sampleDims; ++dim)
    if (canSplit(problem, uint32_t(1) << dim))
      roles.push_back({uint32_t(1) << dim});
  if (uint32_t apart = findApart(problem); llvm::popcount(apart) > 1) {
    if (roles.size() > 1)
      roles.push_back({apart, roles.back()[0]});
    roles.push_back({apart});
  }
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

std::vector<std::vector<std::vector<uint32_t>>>
autoshard::getStyles(const ShardingProblem &problem,
                     llvm::ArrayRef<std::vector<uint32_t>> usable) {
  constexpr size_t most = 64;
  std::vector<std::vector<std::vector<uint32_t>>> styles;
  if (problem.sampleDims == 0)
    return styles;
  std::vector<Role> roles = getRoles(problem);
  auto count = [&] {
    size_t all = 1;
    for (const MeshAxis &axis : problem.mesh.getAxes())
      all *= axis.size > 1 ? roles.size() : 1;
    return all;
  };
  while (count() > most)
    roles.pop_back();
  if (roles.size() < 2)
    return styles;
  // A digit for each axis.
  std::vector<size_t> digits(problem.mesh.getNumAxes(), 0);
  for (size_t style = count(); style-- > 0;) {
    auto &lists = styles.emplace_back(usable.begin(), usable.end());
    for (auto [list, op] : llvm::zip_equal(lists, problem.ops)) {
      if (op.dims.empty())
        continue;
      std::vector<uint32_t> own = list;
      llvm::erase_if(own, [&, &op = op](uint32_t strategy) {
        for (auto [axis, digit] : llvm::enumerate(digits))
          if (problem.mesh.getSize(Axis(axis)) > 1 &&
              !keepsTo(problem, op, op.strategies[strategy], Axis(axis),
                       roles[digit]))
            return true;
        return false;
      });
      if (!own.empty())
        list = std::move(own);
    }
    for (size_t axis = 0; axis != digits.size(); ++axis) {
      if (problem.mesh.getSize(Axis(axis)) == 1)
        continue;
      if (++digits[axis] < roles.size())
        break;
      digits[axis] = 0;
    }
  }
  return styles;
}
