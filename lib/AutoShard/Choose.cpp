//===- Choose.cpp - The cheapest placements of a graph's tensors ----------===//
//
// Dynamic programming over the ops. Between those that have been decided and
// those to come lie tensors; a state says of each where it is made, if its op
// has been, and where the ops that have been need it. Example, a tensor h of a
// linear that two others read, on one axis x, from the end back:
//
//   behind the readers  nothing is needed                       0
//   and with one        h is needed as [{}, {x}]                0.4 ms
//                       h is needed as [{x}, {}]                0.3 ms
//   and with the other  h is needed as [{}, {x}]                0.8 ms
//                       h is needed as [{}, {x}] and [{x}, {}]  0.7 ms ...
//   and with the linear h is made, and moved to where it is needed
//
// An input is at last kept where that costs least. One that may be where it
// gets from to everywhere at no cost, as every rank's copy of it does by
// slices, is in no state.
//
// In which order ops are decided changes nothing but how many states there are.
// From behind, since what many ops make for one of them is then decided by that
// one: attention's strategies say where its queries, keys and values are
// needed, which the ops before would leave in all combinations. And a forward
// op together with those of its gradient: `PlacedOp::at`.
//
//===----------------------------------------------------------------------===//
#include "Potentials.h"
#include "Repeats.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

using namespace cleave;
using namespace cleave::autoshard;

static constexpr size_t none = ~size_t(0);

/// Of bounds, which are sums in another order than costs.
static constexpr double slack = 1e-9;

namespace {
/// Places, ascending, in which a tensor is needed besides where it is made.
using Needs = llvm::SmallVector<Place, 3>;

/// The tensors between two ops, as numbers: of each, where it is made, if that
/// is known; how many needs; the needs.
using Key = std::u16string;

/// A tensor between the ops that have been and those to come.
struct Slot {
  size_t tensor = 0;
  bool isMade = false; ///< by an op that has been
  unsigned later = 0;  ///< so many ops to come need it
};

/// What a key says of one tensor.
struct View {
  Place made = 0;
  llvm::ArrayRef<Place> needs;
  size_t length = 0; ///< of it in the key
};

View read(const Slot &slot, const Key &key, size_t at) {
  static_assert(sizeof(Place) == sizeof(char16_t));
  View view;
  size_t begin = at;
  if (slot.isMade)
    view.made = Place(key[at++]);
  size_t count = key[at++];
  view.needs = {reinterpret_cast<const Place *>(key.data()) + at, count};
  view.length = at + count - begin;
  return view;
}

void write(Key &key, bool isMade, Place made, const Needs &needs) {
  if (isMade)
    key.push_back(char16_t(made));
  key.push_back(char16_t(needs.size()));
  for (Place need : needs)
    key.push_back(char16_t(need));
}

struct State {
  Key key;
  double cost = 0;
  double bound = 0;                ///< of what a choice with it takes in all
  uint32_t from = 0, strategy = 0; ///< the state before the op, by its number
};

/// How a search came to a state.
struct Link {
  uint32_t from, strategy;
};

/// A tensor that an op reads or makes: its slots before and behind it.
struct Touched {
  size_t tensor = 0;
  size_t before = none, behind = none;
  bool wasMade = false, isMade = false;
};

/// What an op can do where its tensors are in some states: one for each way in
/// which it can leave them.
struct Outcome {
  double cost = 0;
  uint32_t strategy = 0;
  Key slots;       ///< of those that lie behind it
  double rest = 0; ///< Chooser::getRest of the slots
};

class Chooser {
public:
  Chooser(const ShardingProblem &problem, CollectivePricer price,
          size_t mostStates)
      : problem(problem), price(price), mostStates(mostStates),
        costs(problem, price) {}

  llvm::Expected<ShardingChoice> run();

private:
  void order();
  /// Of the choice with the least cost, a byte that is kept costing
  /// `secondsPerByte`; its bound is one of costs.
  llvm::Expected<ShardingChoice> solve(double secondsPerByte);
  std::vector<State> decide(size_t step, llvm::ArrayRef<State> states,
                            double upper, size_t width,
                            std::optional<uint32_t> only);
  std::optional<ShardingChoice> search(size_t width, double upper);
  void polish(ShardingChoice &choice);
  std::vector<Outcome> getOutcomes(size_t step, llvm::ArrayRef<View> before,
                                   llvm::ArrayRef<uint32_t> strategies);
  void dropWorse(llvm::ArrayRef<Slot> cut, std::vector<State> &states,
                 size_t width);
  bool isMetBy(llvm::ArrayRef<Slot> cut, const Key &better, const Key &key,
               double cost);
  double getMost(size_t tensor, Place need);
  void boundRests();
  double getRest(size_t step, size_t firstSlot, const Key &key);
  void finish(ShardingChoice &choice);
  /// The best of those in which all parts that were left out are like one of
  /// those that remain.
  std::optional<ShardingChoice> expand(const ShardingChoice &part);
  llvm::Expected<ShardingChoice> solveNarrowly(size_t width);
  std::optional<ShardingChoice> solveReduced();
  std::vector<ShardingChoice> turn(const Wheel &wheel, size_t width);
  ShardingChoice improve(ShardingChoice choice, size_t width);
  double getCost(const ShardingChoice &choice) const {
    return choice.seconds + costs.byteCost * choice.bytes;
  }

  const ShardingProblem &problem;
  CollectivePricer price;
  size_t mostStates;
  Costs costs;
  /// By tensor and need: cost from the home that is furthest away, or -1 if
  /// nobody has asked yet.
  std::vector<std::vector<double>> most;
  std::vector<size_t> steps; ///< ops, in the order in which they are decided
  /// By step: the tensors between those before it and the others; and none, at
  /// the end.
  std::vector<std::vector<Slot>> cuts;
  std::vector<std::vector<Touched>> touched; ///< by step
  /// By step: what the ops from there on take at least; besides, by slot, what
  /// is to be added for its place, if it is made, or else for that of each op
  /// that needs it.
  std::vector<double> rest;
  std::vector<std::vector<std::vector<double>>> restMade;
  std::vector<std::vector<std::vector<llvm::ArrayRef<double>>>> restNeeded;
  std::vector<std::vector<double>> restShares; ///< Potentials::getShare
  std::optional<Potentials> potentials;
  /// The problem with fewer of its equal parts, if it has many.
  std::optional<Reduced> reduced;
  std::unique_ptr<Chooser> inner; ///< of that
  size_t failedAt = 0;            ///< the op where the last search failed
  bool leavesOut = false;         ///< whether it left out states
  /// By op: the strategies that a search keeps to.
  const std::vector<std::vector<uint32_t>> *lists = &costs.usable;
  /// By op: its strategy, where a search is not free; or nothing at all.
  std::vector<std::optional<uint32_t>> fixed;
  const Wheel *wheel = nullptr; ///< to start from
  /// What the last narrow search came to, from each of its starts.
  std::vector<ShardingChoice> found;
};
} // namespace

/// Says in which order ops are decided, and what lies between them.
void Chooser::order() {
  steps.resize(problem.ops.size());
  std::iota(steps.begin(), steps.end(), size_t(0));
  llvm::sort(steps, [&](size_t a, size_t b) {
    return std::pair(problem.ops[a].at, a) > std::pair(problem.ops[b].at, b);
  });
  // Ops to come that touch a tensor, or need it.
  std::vector<unsigned> touch(problem.tensors.size()), later(touch);
  std::vector<bool> isMade(problem.tensors.size());
  auto getTouched = [&](size_t op) {
    const PlacedOp &own = problem.ops[op];
    llvm::SmallVector<size_t, 8> all(own.operands.begin(), own.operands.end());
    all.append(own.results.begin(), own.results.end());
    llvm::sort(all);
    all.erase(llvm::unique(all), all.end());
    llvm::erase_if(all, [&](size_t tensor) { return costs.isFree[tensor]; });
    return all;
  };
  for (size_t op : steps)
    for (size_t tensor : getTouched(op)) {
      ++touch[tensor];
      later[tensor] += llvm::is_contained(problem.ops[op].operands, tensor);
    }
  std::vector<Slot> cut;
  cuts.push_back(cut);
  for (size_t op : steps) {
    std::vector<Touched> &each = touched.emplace_back();
    // What the op leaves alone comes first.
    std::vector<Slot> next;
    llvm::SmallVector<size_t, 8> all = getTouched(op);
    for (const Slot &slot : cut)
      if (!llvm::is_contained(all, slot.tensor))
        next.push_back(slot);
    for (size_t tensor : all) {
      Touched one;
      one.tensor = tensor;
      for (auto [number, slot] : llvm::enumerate(cut))
        if (slot.tensor == tensor)
          one.before = number;
      one.wasMade = isMade[tensor];
      if (llvm::is_contained(problem.ops[op].results, tensor))
        isMade[tensor] = true;
      one.isMade = isMade[tensor];
      later[tensor] -= llvm::is_contained(problem.ops[op].operands, tensor);
      if (--touch[tensor] > 0) {
        one.behind = next.size();
        next.push_back({tensor, one.isMade, later[tensor]});
      }
      each.push_back(one);
    }
    cut = next;
    cuts.push_back(std::move(next));
  }
}

/// Finds what the ops from each step on take at least.
void Chooser::boundRests() {
  constexpr unsigned mostPasses = 40;
  potentials->improve(mostPasses);
  rest.clear();
  restMade.clear();
  restNeeded.clear();
  restShares.clear();
  for (auto [step, cut] : llvm::enumerate(cuts)) {
    rest.push_back(potentials->getRest(step));
    auto &made = restMade.emplace_back();
    auto &needed = restNeeded.emplace_back();
    auto &shares = restShares.emplace_back();
    for (const Slot &slot : cut) {
      made.emplace_back();
      needed.emplace_back();
      shares.push_back(potentials->getShare(slot.tensor, step));
      if (slot.isMade)
        made.back() = potentials->getMade(slot.tensor, step);
      else
        needed.back() = potentials->getNeeded(slot.tensor, step);
    }
  }
}

/// What the ops from a step on take at least for tensors being as the key says,
/// which is of slots from `firstSlot` on.
double Chooser::getRest(size_t step, size_t firstSlot, const Key &key) {
  double sum = 0;
  size_t at = 0;
  for (size_t number = firstSlot; at != key.size(); ++number) {
    const Slot &slot = cuts[step][number];
    View view = read(slot, key, at);
    at += view.length;
    if (!slot.isMade) {
      for (llvm::ArrayRef<double> each : restNeeded[step][number]) {
        double least = impossible;
        for (Place need : view.needs)
          least = std::min(least, each[need]);
        sum += least;
      }
      continue;
    }
    sum += restMade[step][number][view.made];
    // Ops to come may need it where it has been moved to already.
    double most = 0;
    for (Place need : view.needs)
      most = std::max(most, costs.getMove(slot.tensor, view.made, need));
    sum -= most * restShares[step][number];
  }
  return sum;
}

std::vector<Outcome> Chooser::getOutcomes(size_t step,
                                          llvm::ArrayRef<View> before,
                                          llvm::ArrayRef<uint32_t> strategies) {
  std::unordered_map<Key, size_t> numbers;
  std::vector<Outcome> outcomes;
  size_t op = steps[step];
  for (uint32_t strategy : strategies) {
    const Touches &own = costs.touches[op][strategy];
    Outcome outcome;
    outcome.strategy = strategy;
    outcome.cost = costs.seconds[op][strategy];
    for (const Touched &one : touched[step]) {
      size_t tensor = one.tensor;
      Place made = 0;
      Needs needs;
      if (one.before != none) {
        made = before[one.before].made;
        needs.assign(before[one.before].needs.begin(),
                     before[one.before].needs.end());
      }
      for (auto [operand, need] : own.needs) {
        auto where = llvm::lower_bound(needs, need);
        if (operand != tensor || (one.wasMade && need == made) ||
            (where != needs.end() && *where == need))
          continue;
        if (one.wasMade)
          outcome.cost += costs.getMove(tensor, made, need);
        needs.insert(where, need);
      }
      for (auto [result, place] : own.makes)
        if (result == tensor) {
          made = place;
          outcome.cost += costs.getKeep(tensor, made);
          llvm::erase(needs, made);
          for (Place need : needs)
            outcome.cost += costs.getMove(tensor, made, need);
        }
      if (one.behind != none) {
        write(outcome.slots, one.isMade, made, needs);
      } else if (costs.isInput(tensor)) {
        outcome.cost += costs.getBestHome(tensor, needs).second;
      }
    }
    if (outcome.cost == impossible)
      continue;
    auto [known, isNew] = numbers.try_emplace(outcome.slots, outcomes.size());
    if (isNew)
      outcomes.push_back(std::move(outcome));
    else if (outcome.cost < outcomes[known->second].cost)
      outcomes[known->second] = std::move(outcome);
  }
  return outcomes;
}

double Chooser::getMost(size_t tensor, Place need) {
  std::vector<double> &all = most[tensor];
  if (all.empty())
    all.assign(costs.places[tensor]->size(), -1);
  double &known = all[need];
  if (known < 0)
    for (Place home : costs.homes[tensor])
      known = std::max(known, costs.getMove(tensor, home, need));
  return known;
}

/// Whether what completes `key` to a choice also completes `better`, for no
/// more than `cost` on top: a tensor is moved to where that one needs it from
/// where this one does, or from wherever it is made; and where that one has
/// made it elsewhere, each op to come moves it by way of there. No reshard is
/// dearer than two that lead to the same.
bool Chooser::isMetBy(llvm::ArrayRef<Slot> cut, const Key &better,
                      const Key &key, double cost) {
  if (cost < 0)
    return false;
  double extra = 0;
  size_t atA = 0, atB = 0;
  for (const Slot &slot : cut) {
    size_t tensor = slot.tensor;
    View a = read(slot, better, atA), b = read(slot, key, atB);
    atA += a.length;
    atB += b.length;
    if (slot.isMade) {
      if (a.made != b.made)
        extra += slot.later * costs.getMove(tensor, a.made, b.made);
      for (Place need : b.needs)
        if (need != a.made && !llvm::is_contained(a.needs, need))
          extra += costs.getMove(tensor, a.made, need);
      if (extra > cost)
        return false;
      continue;
    }
    // Each place of this one can be moved on from once: what leads there is
    // then not needed for itself.
    llvm::SmallVector<Place, 4> left;
    for (Place other : b.needs)
      if (!llvm::is_contained(a.needs, other))
        left.push_back(other);
    for (Place need : a.needs) {
      if (llvm::is_contained(b.needs, need))
        continue;
      double least = getMost(tensor, need);
      Place *from = nullptr;
      for (Place &other : left)
        if (double move = costs.getMove(tensor, other, need); move < least) {
          least = move;
          from = &other;
        }
      if (from)
        left.erase(from);
      extra += least;
      if (extra > cost)
        return false;
    }
  }
  return true;
}

/// Drops states that another of no more cost can do the work of, until there
/// are more than `width` others. States are in order of their bounds.
void Chooser::dropWorse(llvm::ArrayRef<Slot> cut, std::vector<State> &states,
                        size_t width) {
  // Most are dropped for one of the first.
  constexpr size_t mostCompared = 256;
  size_t kept = 0;
  for (size_t i = 0; i != states.size() && kept <= width; ++i) {
    bool isWorse = false;
    for (size_t other = 0; other != std::min(kept, mostCompared) && !isWorse;
         ++other)
      isWorse = isMetBy(cut, states[other].key, states[i].key,
                        states[i].cost - states[other].cost);
    if (isWorse)
      continue;
    if (kept != i)
      states[kept] = std::move(states[i]);
    ++kept;
  }
  states.resize(kept);
}

/// The states behind a step, those of the lowest bounds first, without those
/// of a higher bound than `upper`, and of what another can do the work of; at
/// most one more than `width`. `only`: the op's strategy, if it is not free.
std::vector<State> Chooser::decide(size_t step, llvm::ArrayRef<State> states,
                                   double upper, size_t width,
                                   std::optional<uint32_t> only) {
  llvm::ArrayRef<Slot> cut = cuts[step];
  // By what a state says of the op's own tensors.
  std::unordered_map<Key, std::vector<Outcome>> known;
  std::unordered_map<Key, size_t> numbers;
  std::vector<State> found;
  llvm::SmallVector<View, 16> views(cut.size());
  llvm::SmallVector<bool, 16> isTouched(cut.size());
  for (const Touched &one : touched[step])
    if (one.before != none)
      isTouched[one.before] = true;
  size_t numOthers = size_t(llvm::count(isTouched, false));
  llvm::ArrayRef<uint32_t> strategies = (*lists)[steps[step]];
  if (only)
    strategies = *only;
  for (auto [from, state] : llvm::enumerate(states)) {
    Key own, others;
    size_t at = 0;
    for (auto [number, slot] : llvm::enumerate(cut)) {
      views[number] = read(slot, state.key, at);
      (isTouched[number] ? own : others)
          .append(state.key, at, views[number].length);
      at += views[number].length;
    }
    auto [outcomes, isNew] = known.try_emplace(own);
    if (isNew) {
      outcomes->second = getOutcomes(step, views, strategies);
      for (Outcome &outcome : outcomes->second)
        outcome.rest = getRest(step + 1, numOthers, outcome.slots);
    }
    double restOthers = rest[step + 1] + getRest(step + 1, 0, others);
    for (const Outcome &outcome : outcomes->second) {
      double cost = state.cost + outcome.cost;
      Key key = others + outcome.slots;
      auto [at, isFirst] = numbers.try_emplace(key, found.size());
      if (isFirst) {
        double bound = cost + restOthers + outcome.rest;
        found.push_back(
            {std::move(key), cost, bound, uint32_t(from), outcome.strategy});
      } else if (State &other = found[at->second]; cost < other.cost) {
        other.bound += cost - other.cost;
        other.cost = cost;
        other.from = uint32_t(from);
        other.strategy = outcome.strategy;
      }
    }
  }
  llvm::erase_if(found,
                 [&](const State &state) { return !(state.bound <= upper); });
  llvm::sort(found, [](const State &a, const State &b) {
    return std::tie(a.bound, a.key) < std::tie(b.bound, b.key);
  });
  dropWorse(cuts[step + 1], found, width);
  return found;
}

/// The best choice of no more than `upper`; nothing if there is none.
std::optional<ShardingChoice> Chooser::search(size_t width, double upper) {
  ShardingChoice choice;
  double leftOut = impossible;
  leavesOut = false;
  upper *= 1 + slack;
  std::vector<State> states(1);
  std::vector<std::vector<Link>> links;
  for (size_t step = 0; step != steps.size(); ++step) {
    states = decide(step, states, upper, width,
                    fixed.empty() ? std::nullopt : fixed[steps[step]]);
    if (states.empty()) {
      failedAt = steps[step];
      return std::nullopt;
    }
    if (states.size() > width) {
      leftOut = std::min(leftOut, states[width].bound);
      states.resize(width);
      leavesOut = true;
    }
    choice.states = std::max(choice.states, states.size());
    std::vector<Link> &link = links.emplace_back();
    for (const State &state : states)
      link.push_back({state.from, state.strategy});
  }
  // Nothing lies behind the last op, so one state is left.
  double cost = states.front().cost;
  choice.bound = leftOut < cost * (1 - slack) ? leftOut : cost;
  choice.strategies.resize(problem.ops.size());
  uint32_t state = 0;
  for (size_t step = steps.size(); step-- > 0;) {
    choice.strategies[steps[step]] = links[step][state].strategy;
    state = links[step][state].from;
  }
  finish(choice);
  return choice;
}

/// Makes a choice better, a few steps after the other: each time the best of
/// those that differ there and nowhere else. Until no such steps are left, or
/// it has been through all of them a few times.
void Chooser::polish(ShardingChoice &choice) {
  constexpr size_t windows[] = {8, 12, 16, 24}, width = 64;
  constexpr int mostRounds = 24;
  auto getStrategy = [&](size_t step) -> size_t & {
    return choice.strategies[steps[step]];
  };
  // The choice's own states.
  std::vector<State> trail(1);
  for (size_t step = 0; step != steps.size(); ++step)
    trail.push_back(decide(step, trail.back(), impossible, 1,
                           uint32_t(getStrategy(step)))[0]);
  size_t inVain = 0;
  for (int round = 0; round != mostRounds && inVain != std::size(windows);
       ++round) {
    size_t window = windows[size_t(round) % std::size(windows)];
    ++inVain;
    for (size_t begin = 0; begin < steps.size(); begin += window / 2) {
      std::vector<State> states = {trail[begin]};
      std::vector<std::vector<State>> all;
      size_t step = begin;
      do {
        bool isFree = step < begin + window;
        states = decide(step, states, impossible, width,
                        isFree ? std::nullopt
                               : std::optional(uint32_t(getStrategy(step))));
        if (states.size() > width)
          states.resize(width);
        all.push_back(states);
        ++step;
      } while (step != steps.size() && !states.empty() &&
               (step < begin + window || states.size() > 1 ||
                states[0].key != trail[step].key));
      // What it kept of the states may have come to no end.
      if (states.empty())
        continue;
      double saved = trail[step].cost - states[0].cost;
      if (saved <= trail[step].cost * slack)
        continue;
      inVain = 0;
      size_t state = 0;
      for (size_t back = step; back-- > begin;) {
        trail[back + 1] = all[back - begin][state];
        getStrategy(back) = trail[back + 1].strategy;
        state = trail[back + 1].from;
      }
      for (size_t later = step + 1; later <= steps.size(); ++later)
        trail[later].cost -= saved;
    }
  }
  finish(choice);
}

/// From the strategies: placements, seconds and bytes.
void Chooser::finish(ShardingChoice &choice) {
  size_t tensors = problem.tensors.size();
  choice.placements.resize(tensors);
  choice.seconds = choice.bytes = 0;
  std::vector<Needs> needs(tensors);
  std::vector<Place> made(tensors);
  for (auto [op, strategy] : llvm::enumerate(choice.strategies)) {
    choice.seconds += costs.seconds[op][strategy];
    for (auto [tensor, need] : costs.touches[op][strategy].needs)
      if (!llvm::is_contained(needs[tensor], need))
        needs[tensor].push_back(need);
    for (auto [tensor, place] : costs.touches[op][strategy].makes)
      made[tensor] = place;
  }
  for (size_t tensor = 0; tensor != tensors; ++tensor) {
    if (costs.isInput(tensor))
      made[tensor] = costs.getBestHome(tensor, needs[tensor]).first;
    if (costs.homes[tensor].empty())
      continue; // Nobody makes or reads it.
    const PlacedTensor &placed = problem.tensors[tensor];
    choice.placements[tensor] = costs.places[tensor]->get(made[tensor]);
    if (!costs.isInput(tensor) || !needs[tensor].empty())
      choice.bytes += placed.copies * costs.getBytes(tensor, made[tensor]);
    for (Place need : needs[tensor])
      if (need != made[tensor]) {
        choice.seconds +=
            placed.moves * costs.getReshard(tensor, made[tensor], need);
        choice.bytes += placed.movedTo * costs.getBytes(tensor, need);
      }
  }
}

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
  part.found.push_back(std::move(*turned));
  for (const ShardingChoice &each : part.found) {
    for (std::optional<size_t> op : wheel.ops)
      fixed.push_back(op ? std::optional(uint32_t(each.strategies[*op]))
                         : std::nullopt);
    std::optional<ShardingChoice> choice = search(width, impossible);
    fixed.clear();
    if (choice && llvm::none_of(choices, [&](const ShardingChoice &other) {
          return other.strategies == choice->strategies;
        }))
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
