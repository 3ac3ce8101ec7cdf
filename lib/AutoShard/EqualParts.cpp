//===- EqualParts.cpp - Problems with equal parts, such as layers ---------===//
//
// Where many parts of a problem are equal, one of each kind stands for all of
// it at first; then, if most are of one run, a few of that are left, of which
// the first and the last may differ from those between; and what is found is
// what all have.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

/// The best of those in which all parts that were left out are like one of
/// those that remain.
std::optional<ShardingChoice> Chooser::expand(const ShardingChoice &part) {
  std::optional<ShardingChoice> best;
  for (const std::vector<size_t> &standing : reduced->few->standing) {
    ShardingChoice choice;
    for (size_t op : standing)
      choice.strategies.push_back(part.strategies[op]);
    count(choice);
    if (choice.seconds < impossible &&
        (!best || getCost(choice) < getCost(*best)))
      best = std::move(choice);
  }
  return best;
}

/// Of a choice for one part that stands for all.
ShardingChoice Chooser::untie(const ShardingChoice &part) {
  ShardingChoice choice;
  for (size_t op : reduced->tied.ops)
    choice.strategies.push_back(part.strategies[op]);
  count(choice);
  return choice;
}

/// Of a choice for all parts what those have that stand for all of their kind;
/// with impossible seconds where these cannot follow each other.
ShardingChoice Chooser::tie(const ShardingChoice &whole) {
  ShardingChoice part;
  for (size_t op : reduced->tied.standing)
    part.strategies.push_back(whole.strategies[op]);
  tied->count(part);
  return part;
}

/// Of a choice for all parts, the strategies of those that remain of them.
ShardingChoice Chooser::reduceChoice(const ShardingChoice &whole) {
  ShardingChoice few;
  few.strategies.resize(reduced->few->problem.ops.size());
  for (const std::vector<size_t> &standing : reduced->few->standing)
    for (auto [op, own] : llvm::enumerate(standing))
      few.strategies[own] = whole.strategies[op];
  return few;
}

/// A choice in which the first and the last parts may differ from those
/// between, from some where they do not.
std::optional<ShardingChoice>
Chooser::refine(llvm::ArrayRef<ShardingChoice> wholes) {
  constexpr size_t width = 64, enough = 2;
  inner->setPrice(costs.getByteCost());
  inner->beginNarrowly();
  std::vector<ShardingChoice> starts = inner->known;
  for (const ShardingChoice &whole : wholes)
    starts.push_back(reduceChoice(whole));
  if (inner->known.size() < enough) {
    if (llvm::Expected<ShardingChoice> choice = inner->searchNarrowly(width))
      starts.push_back(std::move(*choice));
    else
      llvm::consumeError(choice.takeError());
  }
  for (ShardingChoice &start : starts)
    inner->count(start);
  llvm::erase_if(starts, [](const ShardingChoice &start) {
    return start.seconds == impossible;
  });
  if (starts.empty()) {
    inner->endNarrowly();
    return std::nullopt;
  }
  ShardingChoice few = inner->fuse(starts, width);
  few.bound = unbounded;
  few = inner->improve(std::move(few), width);
  if (!isIn(few, inner->known))
    inner->known.push_back(few);
  inner->endNarrowly();
  return expand(few);
}

/// A good choice in which all parts have what those have that stand for all of
/// their kind; nothing where these cannot follow each other.
std::optional<ShardingChoice>
Chooser::improveTied(const ShardingChoice &whole) {
  constexpr size_t width = 64;
  ShardingChoice part = tie(whole);
  if (part.seconds == impossible)
    return std::nullopt;
  tied->beginNarrowly();
  tied->potentials->follow(part);
  tied->boundRests();
  ShardingChoice better = part;
  better.bound = unbounded;
  better = tied->improve(std::move(better), width);
  tied->endNarrowly();
  for (ShardingChoice *each : {&part, &better})
    if (!isIn(*each, tied->known))
      tied->known.push_back(*each);
  return untie(better);
}

/// A choice that is found where equal parts have the same, or nearly; nothing
/// if there is none.
std::optional<ShardingChoice> Chooser::solveReduced() {
  llvm::Expected<ShardingChoice> part = tied->solve(costs.getByteCost());
  if (!part) {
    llvm::consumeError(part.takeError());
    return std::nullopt;
  }
  std::vector<ShardingChoice> found;
  for (const ShardingChoice &each : tied->found)
    found.push_back(untie(each));
  ShardingChoice best = untie(*part);
  // What the parts do by themselves may be good for all, too; how much of moves
  // is hidden hardly depends on it.
  constexpr size_t enough = 3;
  std::optional<ShardingChoice> other;
  if (inner && inner->known.size() < enough && timesExposed == 0)
    other = refine(found);
  if (other && getCost(*other) < getCost(best)) {
    best = *other;
    if (std::optional<ShardingChoice> again = improveTied(*other);
        again && getCost(*again) < getCost(best))
      best = std::move(*again);
  }
  if (best.seconds == impossible)
    return std::nullopt;
  best.bound = unbounded;
  best.states = part->states;
  return best;
}

/// Of what searches and recipes have come to what costs least now, for the
/// whole problem.
std::vector<ShardingChoice> Chooser::getKnown(size_t most) {
  Chooser &searcher = getSearcher();
  searcher.costs.setByteCost(costs.getByteCost());
  std::vector<ShardingChoice> all = searcher.known;
  searcher.sortRecipes();
  searcher.addRecipes(all, most);
  for (ShardingChoice &each : all)
    searcher.count(each);
  searcher.keepBest(all, most);
  if (tied)
    for (ShardingChoice &each : all)
      each = untie(each);
  return all;
}

/// Between a choice that does not fit and one that does: some of the equal
/// parts as in the one and all others as in the other, as many as fit.
void Chooser::fill(const ShardingChoice &fast, const ShardingChoice &small,
                   ShardingChoice &best) {
  if (!reduced)
    return;
  auto mix = [&](size_t from, size_t to, const ShardingChoice &outside) {
    ShardingChoice mixed = small;
    for (auto [op, part] : llvm::enumerate(reduced->parts))
      mixed.strategies[op] = (!part                         ? outside
                              : *part >= from && *part < to ? fast
                                                            : small)
                                 .strategies[op];
    count(mixed);
    return mixed;
  };
  for (const ShardingChoice *outside : {&fast, &small})
    for (bool isFirst : {false, true}) {
      // The most parts that fit lie between those that do and those that do
      // not.
      size_t fits = 0, tooMany = reduced->numParts + 1;
      while (tooMany - fits > 1) {
        size_t count = (fits + tooMany) / 2;
        ShardingChoice mixed = isFirst ? mix(0, count, *outside)
                                       : mix(reduced->numParts - count,
                                             reduced->numParts, *outside);
        bool isSmall = mixed.bytes <= limit;
        (isSmall ? fits : tooMany) = count;
        if (isSmall && mixed.seconds < best.seconds)
          best = std::move(mixed);
      }
    }
}

llvm::Error Chooser::prepare() {
  if (llvm::Error error = begin())
    return error;
  // Of more equal parts, what lies between the first and the last is alike.
  constexpr size_t mostParts = 3;
  reduced = reduce(problem, steps, mostParts);
  if (!reduced)
    return llvm::Error::success();
  auto make = [&](const ShardingProblem &part) {
    auto chooser =
        std::make_unique<Chooser>(part, price, mostStates, costs.getShapes());
    // It only helps to find what is good.
    if (llvm::Error error = chooser->begin()) {
      llvm::consumeError(std::move(error));
      chooser.reset();
    }
    return chooser;
  };
  tied = make(reduced->tied.problem);
  if (!tied)
    reduced.reset();
  else if (reduced->few)
    inner = make(reduced->few->problem);
  return llvm::Error::success();
}
