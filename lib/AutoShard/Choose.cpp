//===- Choose.cpp - The cheapest placements of a graph's tensors ----------===//
//
// The price of bytes, and what is asked of a search: the best choice, the front
// of seconds against bytes, and what else an op could do.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

void Chooser::bound(ShardingChoice &choice) {
  if (choice.bound != unbounded || !looksForBounds)
    return;
  costs.setByteCost(choice.byteSeconds);
  boundBy(choice);
  choice.bound = std::min(potentials->getBound(), getCost(choice));
}

/// Finds the bounds of searches for what is like a choice, at the price of a
/// byte.
void Chooser::boundBy(const ShardingChoice &choice) {
  potentials = std::make_shared<Potentials>(costs, steps, costs.usable);
  potentials->follow(choice);
  boundRests();
}

/// The strategies that a narrow search has: on three axes an op has hundreds,
/// most of which no good choice has. What is best without a price, at the
/// highest one and at one between them is good at others, too.
void Chooser::findFew() {
  constexpr size_t most = 40, mostTimes = 3;
  if (llvm::all_of(costs.usable,
                   [](const auto &list) { return list.size() <= most; })) {
    if (few.empty())
      few = costs.usable;
    return;
  }
  if (timesFound == mostTimes)
    return;
  ++timesFound;
  potentials = std::make_shared<Potentials>(costs, steps, costs.usable);
  boundRests();
  StrategyLists best = potentials->getBest(most);
  ofFew.reset();
  few.resize(best.size());
  for (auto [list, more] : llvm::zip_equal(few, best)) {
    std::vector<uint32_t> both;
    std::set_union(list.begin(), list.end(), more.begin(), more.end(),
                   std::back_inserter(both));
    list = std::move(both);
  }
}

/// Of bytes.
void Chooser::setPrice(double secondsPerByte) {
  costs.setByteCost(secondsPerByte);
  most.assign(problem.tensors.size(), {});
}

/// Searches have few strategies until endNarrowly.
void Chooser::beginNarrowly() {
  findFew();
  if (ofFew) {
    potentials = ofFew;
    potentials->update();
  } else {
    potentials = ofFew = std::make_shared<Potentials>(costs, steps, few);
  }
  boundRests();
  lists = base = &few;
}

void Chooser::endNarrowly() { lists = base = &costs.usable; }

llvm::Expected<ShardingChoice> Chooser::solve(double secondsPerByte) {
  setPrice(secondsPerByte);
  size_t width = std::min<size_t>(64, mostStates);
  std::optional<ShardingChoice> choice;
  if (tied)
    choice = solveReduced();
  if (!choice) {
    beginNarrowly();
    llvm::Expected<ShardingChoice> narrow = solveNarrowly(width);
    endNarrowly();
    if (!narrow)
      return narrow;
    choice = std::move(*narrow);
    if (few != costs.usable)
      choice->bound = unbounded;
  }
  // Nothing that cannot become better needs to be kept.
  if (width < mostStates) {
    bound(*choice);
    if (choice->bound < getCost(*choice))
      if (std::optional<ShardingChoice> better =
              search(mostStates, getCost(*choice))) {
        better->bound = std::max(better->bound, choice->bound);
        choice = std::move(better);
      }
  }
  return std::move(*choice);
}

llvm::Error Chooser::begin() {
  if (llvm::Error error = costs.prepare())
    return error;
  order();
  findGroups();
  return llvm::Error::success();
}

/// At which a byte is dearer than all else.
static double getDear(const ShardingChoice &fast) {
  return 1e6 * std::max(fast.seconds, 1e-3);
}

/// What a byte costs where two choices cost the same.
static double getByteSeconds(const ShardingChoice &fast,
                             const ShardingChoice &small) {
  return (small.seconds - fast.seconds) / (fast.bytes - small.bytes);
}

/// Of choices one that does not fit and one that does, next to each other where
/// seconds over bytes are convex; one of them is missing where none are so.
static std::pair<const ShardingChoice *, const ShardingChoice *>
getEnds(llvm::ArrayRef<const ShardingChoice *> choices, double limit) {
  auto getBest = [&](auto getCost) {
    return *std::min_element(choices.begin(), choices.end(),
                             [&](const auto *a, const auto *b) {
                               return getCost(*a) < getCost(*b);
                             });
  };
  if (choices.empty())
    return {};
  const ShardingChoice *fast =
      getBest([](const auto &each) { return each.seconds; });
  const ShardingChoice *small =
      getBest([](const auto &each) { return each.bytes; });
  if (small->bytes > limit)
    return {small, nullptr};
  if (fast->bytes <= limit)
    return {nullptr, fast};
  for (;;) {
    double byteSeconds = getByteSeconds(*fast, *small);
    auto getCost = [&](const auto &each) {
      return each.seconds + byteSeconds * each.bytes;
    };
    const ShardingChoice *next = getBest(getCost);
    if (getCost(*next) >= getCost(*small) * (1 - slack))
      return {fast, small};
    (next->bytes <= limit ? small : fast) = next;
  }
}

/// Between what is known and does not fit, and what is known and does.
std::pair<std::optional<ShardingChoice>, std::optional<ShardingChoice>>
Chooser::getKnownEnds() {
  std::vector<const ShardingChoice *> known;
  for (const ShardingChoice &each : getSearcher().known)
    if (each.seconds < impossible)
      known.push_back(&each);
  auto [fast, small] = getEnds(known, limit);
  auto get = [&](const ShardingChoice *each) -> std::optional<ShardingChoice> {
    return each ? std::optional(getWhole(*each)) : std::nullopt;
  };
  return {get(fast), get(small)};
}

ShardingChoice Chooser::getWhole(const ShardingChoice &searched) {
  ShardingChoice whole = tied ? untie(searched) : searched;
  whole.bound = unbounded;
  return whole;
}

llvm::Error Chooser::failToFit(const ShardingChoice &small) const {
  bool isLeast = small.bound >= getCost(small) * (1 - slack);
  std::string found;
  if (!isLeast)
    found = llvm::formatv("; no choice was found that takes less than {0:F0}",
                          small.bytes);
  return llvm::createStringError(llvm::formatv(
      "what is kept takes at least {0:F0} bytes of a rank, which has {1:F0}{2}",
      isLeast ? small.bytes : small.bound / small.byteSeconds, problem.memory,
      found));
}

/// What a recipe comes to that fits; at the least price of a byte at which one
/// of them does, or about that.
std::optional<ShardingChoice> Chooser::findSmall(const ShardingChoice &fast) {
  constexpr int mostPrices = 8;
  constexpr double factor = 4;
  Chooser &searcher = getSearcher();
  // At the first one bytes are a fifth of what the fast choice costs.
  double byteSeconds = 0.25 * fast.seconds / fast.bytes;
  for (int i = 0; i != mostPrices; ++i, byteSeconds *= factor) {
    setPrice(byteSeconds);
    if (tied)
      tied->setPrice(byteSeconds);
    searcher.searchRecipes();
    // The best one comes first.
    for (const auto &recipe : searcher.recipes) {
      if (recipe->choice.bytes > limit)
        continue;
      ShardingChoice whole = getWhole(recipe->choice);
      if (whole.seconds < impossible && whole.bytes <= limit)
        return whole;
    }
  }
  return std::nullopt;
}

llvm::Expected<ShardingChoice> Chooser::choose() {
  llvm::Expected<ShardingChoice> choice = searchPrices();
  if (!choice)
    return choice;
  finishAtItsPrice(*choice);
  isLeast = false;
  // Of many parts there are too many states.
  if (!reduced && looksForBounds && priced->byteSeconds > 0)
    if (std::optional<ShardingChoice> best = searchWithin(*choice)) {
      choice = std::move(*best);
      isLeast = true;
    }
  return choice;
}

llvm::Expected<ShardingChoice> Chooser::searchPrices() {
  auto [fast, small] = getKnownEnds();
  auto solveTo = [&](std::optional<ShardingChoice> &end,
                     double byteSeconds) -> llvm::Error {
    llvm::Expected<ShardingChoice> choice = solve(byteSeconds);
    if (!choice)
      return choice.takeError();
    end = std::move(*choice);
    return llvm::Error::success();
  };
  if (!fast) {
    if (llvm::Error error = solveTo(fast, 0))
      return llvm::Expected<ShardingChoice>(std::move(error));
    if (fast->bytes <= limit) {
      priced = fast;
      return std::move(*fast);
    }
  }
  if (!small)
    small = findSmall(*fast);
  if (!small) {
    if (llvm::Error error = solveTo(small, getDear(*fast)))
      return llvm::Expected<ShardingChoice>(std::move(error));
    if (small->bytes > limit) {
      bound(*small);
      return failToFit(*small);
    }
  }
  ShardingChoice best = *small, last = *fast;
  // Between a choice that does not fit and one that does lie others, if one is
  // cheaper than both at the price at which these cost the same.
  constexpr int mostPrices = 24;
  constexpr size_t mostLooked = 6;
  for (int i = 0; i != mostPrices && fast->seconds < small->seconds; ++i) {
    double byteSeconds = getByteSeconds(*fast, *small);
    llvm::Expected<ShardingChoice> next = solve(byteSeconds);
    if (!next)
      return next;
    last = *next;
    bool fits = next->bytes <= limit;
    if (fits && next->seconds < best.seconds)
      best = *next;
    // What is only near to the best differs by a little from price to price.
    double near = next->bound < getCost(*next) ? 1e-3 : slack;
    if (getCost(*next) >= getCost(*small) * (1 - near))
      break;
    (fits ? *small : *fast) = *next;
  }
  fill(*fast, *small, best);
  for (ShardingChoice &each : getKnown(mostLooked))
    if (each.bytes <= limit && each.seconds < best.seconds)
      best = std::move(each);
  priced = std::move(last);
  return best;
}

double Chooser::getLeastSeconds(const ShardingChoice &best) {
  if (isLeast && limit >= problem.memory)
    return best.seconds;
  bound(*priced);
  double least = priced->bound;
  if (priced->byteSeconds > 0)
    least -= priced->byteSeconds * std::max(limit, problem.memory);
  return std::min(least, best.seconds);
}

llvm::Expected<std::vector<ShardingChoice>> Chooser::computeFront(size_t most) {
  if (llvm::Error error = prepare())
    return error;
  llvm::Expected<ShardingChoice> fast = solve(0);
  if (!fast)
    return fast.takeError();
  llvm::Expected<ShardingChoice> small = solve(getDear(*fast));
  if (!small)
    return small.takeError();
  std::vector<ShardingChoice> front;
  if (small->bytes >= fast->bytes) {
    front.push_back(std::move(*fast));
  } else {
    // Of equally fast ones only the smaller is on it.
    if (small->seconds > fast->seconds * (1 + slack))
      front.push_back(std::move(*fast));
    front.push_back(std::move(*small));
  }
  // By the number of a choice: nothing lies between it and the next.
  std::vector<bool> isEdge(front.size(), false);
  while (front.size() < most) {
    std::optional<size_t> widest;
    auto getGap = [&](size_t at) {
      return front[at].bytes - front[at + 1].bytes;
    };
    for (size_t at = 0; at + 1 < front.size(); ++at)
      if (!isEdge[at] && (!widest || getGap(at) > getGap(*widest)))
        widest = at;
    if (!widest)
      break;
    const ShardingChoice &before = front[*widest], &after = front[*widest + 1];
    double byteSeconds = getByteSeconds(before, after);
    llvm::Expected<ShardingChoice> next = solve(byteSeconds);
    if (!next)
      return next.takeError();
    double cost = before.seconds + byteSeconds * before.bytes;
    bool isBetween =
        next->seconds + byteSeconds * next->bytes < cost * (1 - slack) &&
        next->bytes < before.bytes && next->bytes > after.bytes &&
        next->seconds > before.seconds && next->seconds < after.seconds;
    isEdge[*widest] = !isBetween;
    if (!isBetween)
      continue;
    front.insert(front.begin() + ptrdiff_t(*widest) + 1, std::move(*next));
    isEdge.insert(isEdge.begin() + ptrdiff_t(*widest) + 1, false);
  }
  // What nothing of as few bytes takes less than.
  for (ShardingChoice &each : front) {
    bound(each);
    finishAtItsPrice(each);
    each.bound =
        std::min(each.seconds, each.bound - each.byteSeconds * each.bytes);
  }
  return front;
}

std::vector<std::optional<ShardingChoice>>
Chooser::getAlternatives(const ShardingChoice &choice, size_t op) {
  constexpr size_t reach = 24;
  size_t count = problem.ops[op].strategies.size();
  if (llvm::Error error = costs.prepare()) {
    llvm::consumeError(std::move(error));
    return std::vector<std::optional<ShardingChoice>>(count);
  }
  order();
  costs.setByteCost(choice.byteSeconds);
  most.assign(problem.tensors.size(), {});
  boundBy(choice);
  fixed.clear();
  for (size_t strategy : choice.strategies)
    fixed.push_back(uint32_t(strategy));
  size_t at = size_t(llvm::find(steps, op) - steps.begin());
  for (size_t step = at - std::min(at, reach);
       step != std::min(steps.size(), at + reach + 1); ++step)
    fixed[steps[step]] = std::nullopt;
  std::vector<std::optional<ShardingChoice>> all;
  for (uint32_t strategy = 0; strategy != count; ++strategy) {
    fixed[op] = strategy;
    all.push_back(llvm::is_contained(costs.usable[op], strategy)
                      ? search(mostStates, impossible)
                      : std::nullopt);
    if (all.back())
      finish(*all.back());
  }
  return all;
}

llvm::Expected<ShardingChoice>
cleave::chooseShardings(const ShardingProblem &problem, CollectivePricer price,
                        size_t mostStates, const BesideCompute &beside) {
  return Chooser(problem, price, mostStates).run(beside);
}

llvm::Expected<std::vector<ShardingChoice>>
cleave::computeShardingFront(const ShardingProblem &problem,
                             CollectivePricer price, size_t most,
                             size_t mostStates) {
  return Chooser(problem, price, mostStates).computeFront(most);
}

std::vector<std::optional<ShardingChoice>>
cleave::getAlternatives(const ShardingProblem &problem,
                        const ShardingChoice &choice, size_t op,
                        CollectivePricer price, size_t mostStates) {
  return Chooser(problem, price, mostStates).getAlternatives(choice, op);
}
