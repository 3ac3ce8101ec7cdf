//===- Choose.cpp - The cheapest placements of a graph's tensors ----------===//
//
// Where a search begins, what it is followed by, and the price of bytes.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

std::optional<ShardingChoice> Chooser::expand(const ShardingChoice &part) {
  std::optional<ShardingChoice> best;
  for (const std::vector<size_t> &standing : reduced->standing) {
    ShardingChoice choice;
    for (size_t op : standing)
      choice.strategies.push_back(part.strategies[op]);
    finish(choice);
    if (choice.seconds < impossible &&
        (!best || getCost(choice) < getCost(*best)))
      best = std::move(choice);
  }
  return best;
}

/// A choice that is good: a narrow search's, polished.
llvm::Expected<ShardingChoice> Chooser::solveNarrowly(size_t width) {
  auto searchIn = [&](const std::vector<std::vector<uint32_t>> &own) {
    lists = &own;
    std::optional<ShardingChoice> choice = search(width, impossible);
    lists = &costs.usable;
    return choice;
  };
  std::optional<ShardingChoice> choice = searchIn(costs.usable);
  // Where all that it kept came to no end, a choice without partial sums does.
  if (!choice && leavesOut) {
    choice = searchIn(costs.plain);
    if (choice)
      choice->bound = std::min(potentials->getBound(), getCost(*choice));
  }
  for (; !choice && leavesOut; width *= 8)
    choice = search(width * 8, impossible);
  if (!choice)
    return llvm::createStringError(
        problem.ops[failedAt].name +
        ": no strategy gives what the ops that use it need");
  std::vector<ShardingChoice> starts;
  if (choice->bound < getCost(*choice)) {
    if (wheel) {
      starts = turn(*wheel, width);
    } else {
      for (const auto &own : costs.styled)
        if (std::optional<ShardingChoice> styled = searchIn(own))
          starts.push_back(std::move(*styled));
      llvm::sort(starts, [&](const ShardingChoice &a, const ShardingChoice &b) {
        return getCost(a) < getCost(b);
      });
      constexpr size_t mostStarts = 3;
      starts.resize(std::min(starts.size(), mostStarts));
    }
  }
  found = {improve(std::move(*choice), width)};
  // What is known by now helps the others, too, however good they are.
  for (ShardingChoice &start : starts) {
    start.bound = found[0].bound;
    potentials->follow(start);
    boundRests();
    found.push_back(improve(std::move(start), width));
  }
  return *std::min_element(
      found.begin(), found.end(),
      [&](const auto &a, const auto &b) { return getCost(a) < getCost(b); });
}

/// Choices in which all equal parts have the same, and others what is best
/// then: from each choice that was found for a part.
std::vector<ShardingChoice> Chooser::turn(const Wheel &wheel, size_t width) {
  std::vector<ShardingChoice> choices;
  Chooser part(wheel.problem, price, mostStates);
  if (llvm::Error error = part.costs.prepare()) {
    llvm::consumeError(std::move(error));
    return choices;
  }
  part.order();
  llvm::Expected<ShardingChoice> turned = part.solve(costs.byteCost);
  if (!turned) {
    llvm::consumeError(turned.takeError());
    return choices;
  }
  auto isIn = [](const ShardingChoice &choice,
                 llvm::ArrayRef<ShardingChoice> all) {
    return llvm::any_of(all, [&](const ShardingChoice &other) {
      return other.strategies == choice.strategies;
    });
  };
  // A wider search may have come to another one.
  if (!isIn(*turned, part.found))
    part.found.push_back(std::move(*turned));
  for (const ShardingChoice &each : part.found) {
    for (std::optional<size_t> op : wheel.ops)
      fixed.push_back(op ? std::optional(uint32_t(each.strategies[*op]))
                         : std::nullopt);
    std::optional<ShardingChoice> choice = search(width, impossible);
    fixed.clear();
    if (choice && !isIn(*choice, choices))
      choices.push_back(std::move(*choice));
  }
  return choices;
}

/// Each better choice says which bounds matter, and each better bound which
/// states do.
ShardingChoice Chooser::improve(ShardingChoice choice, size_t width) {
  constexpr int mostRounds = 4;
  for (int i = 0; i != mostRounds && choice.bound < getCost(choice); ++i) {
    double bound = choice.bound;
    polish(choice);
    choice.bound = std::min(bound, getCost(choice));
    potentials->follow(choice);
    boundRests();
    std::optional<ShardingChoice> better = search(width, getCost(choice));
    if (!better)
      break;
    better->bound = std::max(better->bound, bound);
    bool isLast = getCost(*better) >= getCost(choice) * (1 - slack);
    choice = std::move(*better);
    if (isLast)
      break;
  }
  return choice;
}

/// The choice with fewer of the equal parts, for all of them; nothing if that
/// is none.
std::optional<ShardingChoice> Chooser::solveReduced() {
  llvm::Expected<ShardingChoice> part = inner->solve(costs.byteCost);
  if (!part) {
    llvm::consumeError(part.takeError());
    return std::nullopt;
  }
  std::optional<ShardingChoice> choice = expand(*part);
  if (choice) {
    potentials->follow(*choice);
    boundRests();
    choice->bound = std::min(potentials->getBound(), getCost(*choice));
    choice->states = part->states;
  }
  return choice;
}

llvm::Expected<ShardingChoice> Chooser::solve(double secondsPerByte) {
  costs.byteCost = secondsPerByte;
  most.assign(problem.tensors.size(), {});
  potentials.emplace(costs, steps);
  boundRests();
  size_t width = std::min<size_t>(64, mostStates);
  std::optional<ShardingChoice> choice;
  if (inner)
    choice = solveReduced();
  if (!choice) {
    llvm::Expected<ShardingChoice> narrow = solveNarrowly(width);
    if (!narrow)
      return narrow;
    choice = std::move(*narrow);
  }
  // Nothing that cannot become better needs to be kept.
  if (choice->bound < getCost(*choice) && width < mostStates)
    if (std::optional<ShardingChoice> better =
            search(mostStates, getCost(*choice))) {
      better->bound = std::max(better->bound, choice->bound);
      choice = std::move(better);
    }
  return std::move(*choice);
}

llvm::Expected<ShardingChoice> Chooser::run() {
  if (llvm::Error error = costs.prepare())
    return error;
  order();
  // Of more equal parts, what lies between the first and the last is alike.
  constexpr size_t mostParts = 4;
  reduced = reduce(problem, steps, mostParts);
  if (reduced) {
    inner = std::make_unique<Chooser>(reduced->problem, price, mostStates);
    if (llvm::Error error = inner->costs.prepare())
      return error;
    inner->order();
    inner->wheel = &reduced->wheel;
  }
  llvm::Expected<ShardingChoice> fast = solve(0);
  if (!fast || fast->bytes <= problem.memory)
    return fast;
  // A byte is dearer than all else.
  double dear = 1e6 * std::max(fast->seconds, 1e-3);
  llvm::Expected<ShardingChoice> small = solve(dear);
  if (!small)
    return small;
  if (small->bytes > problem.memory) {
    bool isLeast = small->bound >= getCost(*small) * (1 - slack);
    return llvm::createStringError(llvm::formatv(
        "what is kept takes at least {0:F0} bytes of a rank, which has {1:F0}"
        "{2}",
        isLeast ? small->bytes : small->bound / dear, problem.memory,
        isLeast ? ""
                : llvm::formatv("; no choice was found that takes less than "
                                "{0:F0}",
                                small->bytes)
                      .str()));
  }
  ShardingChoice best = *small;
  double bound = fast->bound;
  // Between a choice that does not fit and one that does lie others, if one is
  // cheaper than both at the price at which these cost the same.
  constexpr int mostPrices = 24;
  for (int i = 0; i != mostPrices && fast->seconds < small->seconds; ++i) {
    double byteSeconds =
        (small->seconds - fast->seconds) / (fast->bytes - small->bytes);
    llvm::Expected<ShardingChoice> next = solve(byteSeconds);
    if (!next)
      return next;
    bound = std::max(bound, next->bound - byteSeconds * problem.memory);
    bool fits = next->bytes <= problem.memory;
    if (fits && next->seconds < best.seconds)
      best = *next;
    if (getCost(*next) >= getCost(*small) * (1 - slack))
      break;
    (fits ? *small : *fast) = *next;
  }
  best.bound = std::min(bound, best.seconds);
  return best;
}

llvm::Expected<ShardingChoice>
cleave::chooseShardings(const ShardingProblem &problem, CollectivePricer price,
                        size_t mostStates) {
  return Chooser(problem, price, mostStates).run();
}
