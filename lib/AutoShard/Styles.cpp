//===- Styles.cpp - Manners to begin a search with ------------------------===//
#include "Styles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
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
  std::vector<Axis> axes;
  for (unsigned axis = 0; axis != problem.mesh.getNumAxes(); ++axis)
    if (problem.mesh.getSize(Axis(axis)) > 1)
      axes.push_back(Axis(axis));
  // By op, usable strategy and axis: a bit for each role that it keeps to.
  std::vector<std::vector<uint32_t>> kept(problem.ops.size());
  for (auto [op, list, own] : llvm::zip_equal(problem.ops, usable, kept))
    if (!op.dims.empty())
      for (uint32_t strategy : list)
        for (Axis axis : axes) {
          uint32_t &bits = own.emplace_back(0);
          for (auto [number, role] : llvm::enumerate(roles))
            if (keepsTo(problem, op, op.strategies[strategy], axis, role))
              bits |= uint32_t(1) << number;
        }
  // The role of each axis.
  std::vector<size_t> digits(axes.size(), 0);
  for (size_t style = count(); style-- > 0;) {
    auto &lists = styles.emplace_back(usable.begin(), usable.end());
    for (auto [list, own] : llvm::zip_equal(lists, kept)) {
      if (own.empty())
        continue;
      std::vector<uint32_t> some;
      for (auto [number, strategy] : llvm::enumerate(list))
        if (llvm::all_of(
                llvm::seq(digits.size()), [&, at = number](size_t axis) {
                  return own[at * digits.size() + axis] >> digits[axis] & 1;
                }))
          some.push_back(strategy);
      if (!some.empty())
        list = std::move(some);
    }
    for (size_t &digit : digits) {
      if (++digit < roles.size())
        break;
      digit = 0;
    }
  }
  return styles;
}
