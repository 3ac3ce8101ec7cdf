//===- Choose.cpp - The cheapest placements of a graph's tensors ----------===//
//
// Where a search begins, what it is followed by, and the price of bytes.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "Styles.h"
#include "cleave/AutoShard/Beside.h"
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

/// What keeps to each style, by bounds that hold for nothing else, so that they
/// are near.
std::vector<ShardingChoice> Chooser::searchStyles(size_t width) {
  std::vector<ShardingChoice> found;
  std::optional<Potentials> free(std::move(potentials));
  for (const auto &own : getStyles(problem, costs.usable)) {
    potentials.emplace(costs, steps, own);
    boundRests();
    lists = &own;
    if (std::optional<ShardingChoice> styled = search(width, impossible))
      found.push_back(std::move(*styled));
  }
  lists = base;
  potentials.emplace(std::move(*free));
  boundRests();
  return found;
}

/// The best of what styles and other prices of a byte have led to.
std::vector<ShardingChoice> Chooser::getStarts(size_t width) {
  constexpr size_t mostKnown = 4, most = 3;
  std::vector<ShardingChoice> starts = known;
  if (known.size() < mostKnown)
    llvm::append_range(starts, searchStyles(width));
  llvm::sort(starts, [&](const ShardingChoice &a, const ShardingChoice &b) {
    return getCost(a) < getCost(b);
  });
  starts.resize(std::min(starts.size(), most));
  return starts;
}

static bool isIn(const ShardingChoice &choice,
                 llvm::ArrayRef<ShardingChoice> all) {
  return llvm::any_of(all, [&](const ShardingChoice &other) {
    return other.strategies == choice.strategies;
  });
}

/// What a narrow search comes to; fails where there is nothing.
llvm::Expected<ShardingChoice> Chooser::searchNarrowly(size_t width) {
  auto searchIn = [&](const std::vector<std::vector<uint32_t>> &own) {
    lists = &own;
    std::optional<ShardingChoice> choice = search(width, impossible);
    lists = base;
    return choice;
  };
  std::optional<ShardingChoice> choice = searchIn(*base);
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
  return std::move(*choice);
}

/// A choice that is good: a narrow search's, polished.
llvm::Expected<ShardingChoice> Chooser::solveNarrowly(size_t width) {
  std::vector<ShardingChoice> starts;
  // What was good at some prices of a byte has what is good at others.
  constexpr size_t enough = 2;
  if (wheel && known.size() >= enough) {
    starts = {fuse(known, width)};
    starts[0].bound = std::min(potentials->getBound(), getCost(starts[0]));
  } else {
    llvm::Expected<ShardingChoice> choice = searchNarrowly(width);
    if (!choice)
      return choice;
    starts = {std::move(*choice)};
    double bound = starts[0].bound;
    if (bound < getCost(starts[0])) {
      llvm::append_range(starts, wheel ? turn(width) : getStarts(width));
      if (wheel)
        starts = {fuse(starts, width)};
      starts[0].bound = bound;
    }
  }
  found = {improve(std::move(starts[0]), width)};
  // What is known by now helps the others, too, however good they are.
  for (ShardingChoice &start : llvm::drop_begin(starts)) {
    start.bound = found[0].bound;
    potentials->follow(start);
    boundRests();
    found.push_back(improve(std::move(start), width));
  }
  for (const ShardingChoice &each : found)
    if (!isIn(each, known))
      known.push_back(each);
  return getCheapest(found);
}

const ShardingChoice &
Chooser::getCheapest(llvm::ArrayRef<ShardingChoice> choices) const {
  return *std::min_element(
      choices.begin(), choices.end(),
      [&](const auto &a, const auto &b) { return getCost(a) < getCost(b); });
}

/// The best of those that do of each op what one of these does.
ShardingChoice Chooser::fuse(llvm::ArrayRef<ShardingChoice> choices,
                             size_t width) {
  const ShardingChoice &best = getCheapest(choices);
  std::vector<std::vector<uint32_t>> own(problem.ops.size());
  for (auto [op, list] : llvm::enumerate(own)) {
    for (const ShardingChoice &each : choices)
      list.push_back(uint32_t(each.strategies[op]));
    llvm::sort(list);
    list.erase(llvm::unique(list), list.end());
  }
  std::optional<Potentials> free(std::move(potentials));
  potentials.emplace(costs, steps, own);
  potentials->follow(best);
  boundRests();
  lists = &own;
  std::optional<ShardingChoice> fused = search(width, getCost(best));
  lists = base;
  potentials.emplace(std::move(*free));
  potentials->follow(fused ? *fused : best);
  boundRests();
  return fused ? *fused : best;
}

/// Choices in which all equal parts have the same, and others what is best
/// then: from each choice that was found for a part.
std::vector<ShardingChoice> Chooser::turn(size_t width) {
  std::vector<ShardingChoice> choices;
  llvm::Expected<ShardingChoice> turned = wheel->solve(costs.getByteCost());
  if (!turned) {
    llvm::consumeError(turned.takeError());
    return choices;
  }
  // A wider search may have come to another one.
  if (!isIn(*turned, wheel->found))
    wheel->found.push_back(std::move(*turned));
  for (const ShardingChoice &each : wheel->found) {
    for (std::optional<size_t> op : *wheelOps)
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
  llvm::Expected<ShardingChoice> part = inner->solve(costs.getByteCost());
  if (!part) {
    llvm::consumeError(part.takeError());
    return std::nullopt;
  }
  std::optional<ShardingChoice> choice = expand(*part);
  if (choice) {
    choice->bound = unbounded;
    choice->states = part->states;
  }
  return choice;
}

void Chooser::bound(ShardingChoice &choice) {
  if (choice.bound != unbounded || !looksForBounds)
    return;
  costs.setByteCost(choice.byteSeconds);
  potentials.emplace(costs, steps, costs.usable);
  potentials->follow(choice);
  boundRests();
  choice.bound = std::min(potentials->getBound(), getCost(choice));
}

/// The strategies that a narrow search has: on three axes an op has hundreds,
/// most of which no good choice has. What is best without a price, at the
/// highest one and at one between them is good at others, too.
void Chooser::findFew() {
  constexpr size_t most = 40, mostTimes = 3;
  if (llvm::all_of(costs.usable,
                   [](const auto &list) { return list.size() <= most; })) {
    few = costs.usable;
    return;
  }
  if (timesFound == mostTimes)
    return;
  ++timesFound;
  potentials.emplace(costs, steps, costs.usable);
  boundRests();
  Potentials::Lists best = potentials->getBest(most);
  few.resize(best.size());
  for (auto [list, more] : llvm::zip_equal(few, best)) {
    std::vector<uint32_t> both;
    std::set_union(list.begin(), list.end(), more.begin(), more.end(),
                   std::back_inserter(both));
    list = std::move(both);
  }
}

llvm::Expected<ShardingChoice> Chooser::solve(double secondsPerByte) {
  costs.setByteCost(secondsPerByte);
  most.assign(problem.tensors.size(), {});
  size_t width = std::min<size_t>(64, mostStates);
  std::optional<ShardingChoice> choice;
  if (inner)
    choice = solveReduced();
  if (!choice) {
    findFew();
    potentials.emplace(costs, steps, few);
    boundRests();
    lists = base = &few;
    llvm::Expected<ShardingChoice> narrow = solveNarrowly(width);
    lists = base = &costs.usable;
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
  return llvm::Error::success();
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
    return std::make_unique<Chooser>(part, price, mostStates,
                                     costs.getShapes());
  };
  inner = make(reduced->problem);
  if (llvm::Error error = inner->begin())
    return error;
  inner->wheel = make(reduced->wheel.problem);
  inner->wheelOps = &reduced->wheel.ops;
  // It only helps to begin.
  if (llvm::Error error = inner->wheel->begin()) {
    llvm::consumeError(std::move(error));
    inner->wheel.reset();
  }
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

void Chooser::setExposed(const std::vector<ByStepKind> &shares) {
  costs.setExposed(shares);
  for (auto *choices : {&known, &found})
    for (ShardingChoice &choice : *choices)
      finish(choice);
  // What is best where much is hidden may be new.
  if (timesExposed++ == 0)
    timesFound = std::min<size_t>(timesFound, 2);
  for (auto *part : {&inner, &wheel})
    if (*part)
      (*part)->setExposed(shares);
}

namespace {
/// Which share of what is moved for a reason, by a kind of step, is taken to be
/// exposed.
class Shares {
public:
  Shares(const ShardingProblem &problem, double slowdown)
      : reasons(findReasons(problem)) {
    // A guess, since one has to begin: between one product and the next some of
    // it is hidden in parts.
    constexpr double ofActivations = 0.3;
    for (ByStepKind &shares : byReason)
      shares.fill(std::max(least, slowdown));
    for (Reason reason :
         {Reason::ForwardActivations, Reason::BackwardActivations})
      byReason[size_t(reason)].fill(ofActivations);
    for (ByStepKind &shares : byReason)
      shares[size_t(Step::Kind::Slice)] = 1;
  }

  std::vector<ByStepKind> getByTensor() const {
    std::vector<ByStepKind> all;
    for (Reason reason : reasons)
      all.push_back(byReason[size_t(reason)]);
    return all;
  }

  /// Those of timed moves; of what is not moved they stay.
  void learn(llvm::ArrayRef<Move> moves) {
    std::array<ByStepKind, numReasons> all = {}, exposed = {};
    for (const Move &move : moves)
      for (const MoveStep &step : move.steps) {
        size_t reason = size_t(reasons[move.tensor]);
        all[reason][size_t(step.step.kind)] += move.times * step.seconds;
        exposed[reason][size_t(step.step.kind)] += step.exposed;
      }
    for (size_t i = 0; i != numReasons; ++i)
      for (size_t kind = 0; kind != Step::numKinds; ++kind)
        if (all[i][kind] > 0)
          byReason[i][kind] =
              std::clamp(exposed[i][kind] / all[i][kind], least, 1.);
  }

private:
  /// What is hidden is not for nothing: of equals the one that moves less.
  static constexpr double least = 0.02;

  std::vector<Reason> reasons; ///< by tensor
  std::array<ByStepKind, numReasons> byReason;
};
} // namespace

llvm::Expected<ShardingChoice> Chooser::run(const BesideCompute &beside) {
  if (llvm::Error error = prepare())
    return error;
  llvm::Expected<ShardingChoice> best = choose();
  if (!best)
    return best;
  best->besideSeconds = best->seconds;
  if (!beside.mayHide())
    return best;
  auto time = [&](ShardingChoice &choice, Shares *shares) {
    std::vector<Move> moves = getMoves(problem, choice, price);
    choice.besideSeconds = timeBeside(problem, choice, moves, price, beside);
    if (shares)
      shares->learn(moves);
  };
  time(*best, nullptr);
  const double bound = best->bound;
  Shares shares(problem, beside.slowdown);
  // Those of shares say nothing of the step.
  looksForBounds = false;
  std::vector<size_t> last = best->strategies;
  constexpr int mostTurns = 5, mostInVain = 2;
  for (int turn = 0, inVain = 0; turn != mostTurns && inVain != mostInVain;
       ++turn) {
    setExposed(shares.getByTensor());
    llvm::Expected<ShardingChoice> next = choose();
    if (!next)
      return next;
    setExposed({});
    finish(*next);
    next->bound = bound;
    if (next->strategies == last)
      break;
    last = next->strategies;
    time(*next, &shares);
    bool isBetter = next->besideSeconds < best->besideSeconds;
    inVain = isBetter ? 0 : inVain + 1;
    if (isBetter)
      best = std::move(next);
  }
  return best;
}

llvm::Expected<ShardingChoice> Chooser::choose() {
  llvm::Expected<ShardingChoice> fast = solve(0);
  if (!fast)
    return fast;
  if (fast->bytes <= problem.memory) {
    bound(*fast);
    return fast;
  }
  double dear = getDear(*fast);
  llvm::Expected<ShardingChoice> small = solve(dear);
  if (!small)
    return small;
  if (small->bytes > problem.memory) {
    bound(*small);
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
  ShardingChoice best = *small, last = *fast;
  // Between a choice that does not fit and one that does lie others, if one is
  // cheaper than both at the price at which these cost the same.
  constexpr int mostPrices = 24;
  for (int i = 0; i != mostPrices && fast->seconds < small->seconds; ++i) {
    double byteSeconds = getByteSeconds(*fast, *small);
    llvm::Expected<ShardingChoice> next = solve(byteSeconds);
    if (!next)
      return next;
    last = *next;
    bool fits = next->bytes <= problem.memory;
    if (fits && next->seconds < best.seconds)
      best = *next;
    // What is only near to the best differs by a little from price to price.
    double near = next->bound < getCost(*next) ? 1e-4 : slack;
    if (getCost(*next) >= getCost(*small) * (1 - near))
      break;
    (fits ? *small : *fast) = *next;
  }
  // The last price is the one at which what fits and what does not are equal.
  bound(last);
  best.bound =
      std::min(last.bound - last.byteSeconds * problem.memory, best.seconds);
  return best;
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
  potentials.emplace(costs, steps, costs.usable);
  potentials->follow(choice);
  boundRests();
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
