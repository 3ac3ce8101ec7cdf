//===- Ties.cpp - One part that stands for all of its kind ----------------===//
#include "Repeats.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <array>
#include <map>
#include <set>

using namespace cleave;
using namespace cleave::autoshard;

namespace {

constexpr size_t none = ~size_t(0);

/// Where a tensor is read: by an op of a part, or, of no part, by its step.
struct Reader {
  size_t part = none, offset = none, operand = none;
};

class Tier {
public:
  Tier(const ShardingProblem &problem, llvm::ArrayRef<size_t> steps,
       llvm::ArrayRef<Part> parts);

  std::optional<Tied> tie(ShardingProblem tied);

private:
  const PlacedOp &getOp(size_t part, size_t offset) const {
    return problem.ops[steps[parts[part].begin + offset]];
  }
  /// A member of the kind that stands for all.
  size_t getStanding(size_t kind) const {
    return members[kind][members[kind].size() / 2];
  }
  bool isOwn(size_t tensor) const {
    return madeIn[tensor] == none && !isMadeOutside[tensor];
  }
  bool areAlike(size_t kind) const;
  bool areInputsAlike(size_t kind, size_t offset, size_t operand) const;
  void group(size_t kind);
  std::vector<size_t> getSources(size_t kind, size_t offset,
                                 size_t operand) const;
  PlacedOp makePart(size_t kind, size_t offset) const;

  const ShardingProblem &problem;
  llvm::ArrayRef<size_t> steps;
  llvm::ArrayRef<Part> parts;
  std::vector<std::vector<size_t>> members; ///< parts, by kind
  std::vector<size_t> partOf;               ///< by step
  std::vector<size_t> madeIn;               ///< by tensor: a part, or none
  std::vector<bool> isMadeOutside;          ///< by tensor: of all parts
  std::vector<std::vector<Reader>> readers; ///< by tensor
  /// By tensor that a part makes: the one that stands for it; and by such a one
  /// for how many.
  llvm::DenseMap<size_t, size_t> stands;
  std::map<size_t, double> times;
};

} // namespace

Tier::Tier(const ShardingProblem &problem, llvm::ArrayRef<size_t> steps,
           llvm::ArrayRef<Part> parts)
    : problem(problem), steps(steps), parts(parts), partOf(steps.size(), none),
      madeIn(problem.tensors.size(), none),
      isMadeOutside(problem.tensors.size()), readers(problem.tensors.size()) {
  for (auto [number, part] : llvm::enumerate(parts)) {
    members.resize(std::max(members.size(), part.kind + 1));
    members[part.kind].push_back(number);
    std::fill_n(partOf.begin() + ptrdiff_t(part.begin), part.size, number);
  }
  for (auto [step, op] : llvm::enumerate(steps)) {
    size_t part = partOf[step];
    size_t offset = part == none ? step : step - parts[part].begin;
    for (size_t tensor : problem.ops[op].results) {
      madeIn[tensor] = part;
      isMadeOutside[tensor] = part == none;
    }
    for (auto [k, tensor] : llvm::enumerate(problem.ops[op].operands))
      readers[tensor].push_back({part, offset, k});
  }
}

/// Of operands that nothing makes, whether members have all the same, which
/// others may read, too, or each one that is theirs alone.
bool Tier::areInputsAlike(size_t kind, size_t offset, size_t operand) const {
  std::set<size_t> tensors;
  for (size_t part : members[kind])
    tensors.insert(getOp(part, offset).operands[operand]);
  if (tensors.size() == 1)
    return true;
  return tensors.size() == members[kind].size() &&
         llvm::all_of(members[kind], [&](size_t part) {
           size_t tensor = getOp(part, offset).operands[operand];
           return llvm::all_of(readers[tensor], [&](const Reader &reader) {
             return reader.part == part;
           });
         });
}

/// Whether all parts of a kind use tensors in the same way, but for those that
/// come from elsewhere.
bool Tier::areAlike(size_t kind) const {
  size_t standing = getStanding(kind);
  for (size_t part : members[kind]) {
    llvm::DenseMap<size_t, size_t> shift;
    for (size_t offset = 0; offset != parts[part].size; ++offset) {
      const PlacedOp &op = getOp(standing, offset), &own = getOp(part, offset);
      for (auto [k, tensor] : llvm::enumerate(op.operands)) {
        size_t other = own.operands[k];
        bool isOwn = this->isOwn(tensor);
        if (isOwn != this->isOwn(other))
          return false;
        bool isInside = madeIn[tensor] == standing;
        if (isInside != (madeIn[other] == part))
          return false;
        if ((isOwn || isInside) &&
            shift.try_emplace(tensor, other).first->second != other)
          return false;
        if (isOwn && part == standing && !areInputsAlike(kind, offset, k))
          return false;
      }
      for (auto [tensor, other] : llvm::zip_equal(op.results, own.results))
        if (shift.try_emplace(tensor, other).first->second != other)
          return false;
    }
  }
  return true;
}

/// Finds what stands for what members make: those of whose tensors the same is
/// read elsewhere have one together.
void Tier::group(size_t kind) {
  using Signature = std::set<std::array<size_t, 3>>;
  size_t standing = getStanding(kind);
  for (size_t offset = 0; offset != parts[standing].size; ++offset)
    for (size_t result = 0; result != getOp(standing, offset).results.size();
         ++result) {
      std::map<Signature, std::vector<size_t>> groups;
      for (size_t part : members[kind]) {
        Signature signature;
        for (const Reader &reader :
             readers[getOp(part, offset).results[result]])
          if (reader.part == none)
            signature.insert({none, reader.offset, reader.operand});
          else if (reader.part != part)
            signature.insert(
                {parts[reader.part].kind, reader.offset, reader.operand});
        groups[signature].push_back(part);
      }
      for (const auto &[signature, own] : groups) {
        size_t first = llvm::is_contained(own, standing) ? standing : own[0];
        size_t tensor = getOp(first, offset).results[result];
        times[tensor] = double(own.size());
        for (size_t part : own)
          stands[getOp(part, offset).results[result]] = tensor;
      }
    }
}

/// What members read there, the first one what the standing part does.
std::vector<size_t> Tier::getSources(size_t kind, size_t offset,
                                     size_t operand) const {
  size_t standing = getStanding(kind);
  std::vector<size_t> sources;
  auto add = [&](size_t part) {
    size_t tensor = getOp(part, offset).operands[operand];
    if (auto at = stands.find(tensor); at != stands.end())
      tensor = at->second;
    else if (isOwn(tensor))
      tensor = getOp(standing, offset).operands[operand];
    if (!llvm::is_contained(sources, tensor))
      sources.push_back(tensor);
  };
  add(standing);
  llvm::for_each(members[kind], add);
  return sources;
}

/// Of all members' ops at that offset.
PlacedOp Tier::makePart(size_t kind, size_t offset) const {
  size_t standing = getStanding(kind);
  PlacedOp op = getOp(standing, offset);
  // Operands that are read, too, and results that are made besides, with those
  // whose placements they have.
  llvm::SmallVector<std::pair<size_t, size_t>, 2> more, besides;
  for (size_t k = 0; k != op.operands.size(); ++k) {
    std::vector<size_t> sources = getSources(kind, offset, k);
    op.operands[k] = sources.front();
    for (size_t source : llvm::drop_begin(sources))
      more.push_back({source, k});
  }
  for (size_t k = 0; k != op.results.size(); ++k) {
    size_t own = op.results[k];
    for (size_t part : members[kind]) {
      size_t tensor = stands.lookup(getOp(part, offset).results[k]);
      if (tensor != own &&
          !llvm::is_contained(llvm::make_first_range(besides), tensor))
        besides.push_back({tensor, k});
    }
  }
  if (!more.empty() || !besides.empty()) {
    std::vector<Strategy> strategies(op.strategies.begin(),
                                     op.strategies.end());
    for (auto [tensor, number] : more)
      op.operands.push_back(tensor);
    for (auto [tensor, number] : besides)
      op.results.push_back(tensor);
    for (Strategy &strategy : strategies) {
      RulePlacements &placements = strategy.placements;
      for (auto [tensor, number] : more)
        placements.operands.push_back(Placement(placements.operands[number]));
      for (auto [tensor, number] : besides)
        placements.results.push_back(Placement(placements.results[number]));
    }
    op.strategies = std::move(strategies);
  }
  for (double &seconds : op.seconds)
    seconds *= double(members[kind].size());
  return op;
}

std::optional<Tied> Tier::tie(ShardingProblem tied) {
  for (size_t kind = 0; kind != members.size(); ++kind)
    if (!areAlike(kind))
      return std::nullopt;
  for (size_t kind = 0; kind != members.size(); ++kind)
    group(kind);
  // What each part has one of its own of.
  for (auto [kind, own] : llvm::enumerate(members))
    for (size_t offset = 0; offset != parts[own[0]].size; ++offset)
      for (auto [tensor, first, last] :
           llvm::zip_equal(getOp(getStanding(kind), offset).operands,
                           getOp(own.front(), offset).operands,
                           getOp(own.back(), offset).operands))
        if (first != last && isOwn(tensor))
          times[tensor] = double(own.size());
  Tied result;
  result.problem = std::move(tied);
  result.ops.resize(problem.ops.size());
  std::vector<std::vector<size_t>> numbers(members.size()); // by kind, offset
  for (auto [step, number] : llvm::enumerate(steps)) {
    size_t part = partOf[step];
    size_t kind = part == none ? none : parts[part].kind;
    size_t offset = part == none ? 0 : step - parts[part].begin;
    if (part != none && part != members[kind].front()) {
      result.ops[number] = numbers[kind][offset];
      continue;
    }
    if (part != none)
      numbers[kind].push_back(result.problem.ops.size());
    result.ops[number] = result.problem.ops.size();
    PlacedOp op = part == none ? problem.ops[number] : makePart(kind, offset);
    if (part == none)
      for (size_t &tensor : op.operands)
        if (auto at = stands.find(tensor); at != stands.end())
          tensor = at->second;
    result.standing.push_back(
        part == none ? number : steps[parts[getStanding(kind)].begin + offset]);
    op.at = double(steps.size() - step);
    result.problem.ops.push_back(std::move(op));
  }
  for (auto [tensor, count] : times) {
    PlacedTensor &own = result.problem.tensors[tensor];
    own.moves *= count;
    own.copies *= count;
    own.movedTo *= count;
  }
  return result;
}

std::optional<Tied> autoshard::tie(const ShardingProblem &problem,
                                   ShardingProblem rest,
                                   llvm::ArrayRef<size_t> steps,
                                   llvm::ArrayRef<Part> parts) {
  return Tier(problem, steps, parts).tie(std::move(rest));
}
