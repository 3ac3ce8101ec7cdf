//===- Search.cpp - Dynamic programming over the ops of a problem ---------===//
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
// In which order ops are decided says how many states there are; and where not
// all are kept, which. From behind, since what many ops make for one of them is
// then decided by that one: attention's strategies say where its queries, keys
// and values are needed, which the ops before would leave in all combinations.
// And a forward op together with those of its gradient: `PlacedOp::at`.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <algorithm>
#include <numeric>

using namespace cleave;
using namespace cleave::autoshard;

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
    llvm::SmallVector<size_t, 16> &left = untouched.emplace_back();
    llvm::SmallVector<size_t, 8> all = getTouched(op);
    for (auto [number, slot] : llvm::enumerate(cut))
      if (!llvm::is_contained(all, slot.tensor)) {
        left.push_back(number);
        next.push_back(slot);
      }
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

/// What the ops from a step on take at least for the tensor of a slot being as
/// it is.
double Chooser::getRest(size_t step, size_t number, uint32_t where) {
  const Slot &slot = cuts[step][number];
  const auto &[made, needs] = whereabouts[where];
  if (slot.isMade) {
    // Ops to come may need it where it has been moved to already.
    double most = 0;
    for (Place need : needs)
      most = std::max(most, costs.getMove(slot.tensor, made, need));
    return restMade[step][number][made] - most * restShares[step][number];
  }
  double sum = potentials->getApart(slot.tensor, needs);
  for (const std::vector<double> &each : restNeeded[step][number]) {
    double least = impossible;
    for (Place need : needs)
      least = std::min(least, each[need]);
    sum += least;
  }
  return sum;
}

/// `before`: the whereabouts of the tensors that it touches and that lie before
/// it. Of each outcome `rest` is what its tensors add to that of others.
States Chooser::getOutcomes(size_t step, Key before,
                            llvm::ArrayRef<uint32_t> strategies) {
  size_t op = steps[step];
  size_t first = untouched[step].size(), count = cuts[step + 1].size() - first;
  States outcomes(count);
  outcomes.reserve(strategies.size());
  ByKey<size_t> numbers;
  llvm::SmallVector<uint32_t, 8> key;
  llvm::SmallVector<double, 8> rests;
  struct {
    Costs &costs;
    double sum = 0;
    void move(size_t tensor, Place from, Place to) {
      sum += costs.getMove(tensor, from, to);
    }
    void keep(size_t tensor, Place place) {
      sum += costs.getKeep(tensor, place);
    }
    void end(size_t input, llvm::ArrayRef<Place> needs) {
      sum += costs.getBestHome(input, needs).second;
    }
  } cost{costs};
  for (uint32_t strategy : strategies) {
    cost.sum = costs.seconds[op][strategy];
    apply(step, before, strategy, key, cost);
    State outcome;
    outcome.strategy = strategy;
    outcome.cost = cost.sum;
    if (outcome.cost == impossible)
      continue;
    auto [known, isNew] =
        numbers.try_emplace(asString(Key(key)), outcomes.size());
    if (!isNew) {
      State &other = outcomes[known->second];
      if (outcome.cost < other.cost) {
        other.cost = outcome.cost;
        other.strategy = outcome.strategy;
      }
      continue;
    }
    rests.clear();
    for (auto [slot, where] : llvm::enumerate(key)) {
      rests.push_back(getRest(step + 1, first + slot, where));
      outcome.rest += rests.back();
    }
    outcomes.add(outcome, key, rests);
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
bool Chooser::isMetBy(llvm::ArrayRef<Slot> cut, Key better, Key key,
                      double cost) {
  if (cost < 0)
    return false;
  double extra = 0;
  // Most differ by what the last op has touched, which comes last.
  for (size_t number = cut.size(); number-- > 0;) {
    if (better[number] == key[number])
      continue;
    const Slot &slot = cut[number];
    size_t tensor = slot.tensor;
    const Whereabouts &a = whereabouts[better[number]];
    const Whereabouts &b = whereabouts[key[number]];
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
    // then not needed for itself, unless an op to come needs it there, too.
    llvm::SmallVector<Place, 4> left;
    if (slot.later == 0)
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

/// The states behind a step, those of the lowest bounds first, without those
/// of a higher bound than `upper`, and of what another can do the work of; at
/// most one more than `width`. `only`: the op's strategy, if it is not free.
States Chooser::decide(size_t step, const States &states, double upper,
                       size_t width, std::optional<uint32_t> only) {
  llvm::ArrayRef<uint32_t> strategies = (*lists)[steps[step]];
  if (only)
    strategies = *only;
  Outcomes once;
  Outcomes &known = only || outcomes.empty() ? once : outcomes[step];
  std::vector<const States *> byState;
  byState.reserve(states.size());
  candidates.clear();
  llvm::SmallVector<uint32_t, 8> before;
  for (size_t from = 0; from != states.size(); ++from) {
    before.clear();
    for (const Touched &one : touched[step])
      if (one.before != none)
        before.push_back(states.getKey(from)[one.before]);
    auto [entry, isNew] = known.try_emplace(asString(Key(before)));
    States &outcomes = entry->second;
    if (isNew)
      outcomes = getOutcomes(step, before, strategies);
    byState.push_back(&outcomes);
    // What the op leaves alone adds what it did before.
    double restOthers = rest[step + 1];
    for (size_t slot : untouched[step])
      restOthers += states.getRests(from)[slot];
    for (size_t number = 0; number != outcomes.size(); ++number) {
      double cost = states[from].cost + outcomes[number].cost;
      double bound = cost + restOthers + outcomes[number].rest;
      if (bound <= upper)
        candidates.push_back({bound, cost, uint32_t(from), uint32_t(number)});
    }
  }
  return keep(step, states, byState, width);
}

/// Of the candidates those of the lowest bounds, without those that another of
/// no more cost can do the work of; at most one more than `width`. `states`:
/// before the step; `outcomes`: by state.
States Chooser::keep(size_t step, const States &states,
                     llvm::ArrayRef<const States *> outcomes, size_t width) {
  // Most are dropped for one of the first; a wide search is to be exact.
  constexpr size_t narrow = 64;
  const size_t mostCompared = width > narrow ? 256 : 32;
  llvm::ArrayRef<Slot> behind = cuts[step + 1];
  States kept(behind.size());
  kept.reserve(std::min(candidates.size(), width + 1));
  Keys keys;
  llvm::SmallVector<uint32_t, 32> key;
  llvm::SmallVector<double, 32> rests;
  size_t ordered = 0;
  for (size_t i = 0; i != candidates.size() && kept.size() <= width; ++i) {
    // Those that are dropped for being too many need no order.
    if (i == ordered) {
      ordered = std::min(candidates.size(), i + 4 * width);
      auto begin = candidates.begin() + ptrdiff_t(i);
      auto end = candidates.begin() + ptrdiff_t(ordered);
      if (end != candidates.end())
        std::nth_element(begin, end, candidates.end());
      std::sort(begin, end);
    }
    const Candidate &each = candidates[i];
    const States &own = *outcomes[each.from];
    Key before = states.getKey(each.from);
    key.clear();
    for (size_t slot : untouched[step])
      key.push_back(before[slot]);
    llvm::append_range(key, own.getKey(each.outcome));
    // Of equal ones the first costs least.
    if (!keys.insert(asString(Key(key))).second)
      continue;
    bool isWorse = false;
    for (size_t other = 0;
         other != std::min(kept.size(), mostCompared) && !isWorse; ++other)
      isWorse = isMetBy(behind, kept.getKey(other), key,
                        each.cost - kept[other].cost);
    if (isWorse)
      continue;
    rests.clear();
    for (size_t slot : untouched[step])
      rests.push_back(states.getRests(each.from)[slot]);
    llvm::append_range(rests, own.getRests(each.outcome));
    kept.add({each.cost, each.bound - each.cost, each.from,
              own[each.outcome].strategy},
             key, rests);
  }
  return kept;
}

/// The best choice of no more than `upper`; nothing if there is none.
std::optional<ShardingChoice> Chooser::search(size_t width, double upper) {
  ShardingChoice choice;
  double leftOut = impossible;
  leavesOut = false;
  upper *= 1 + slack;
  States states;
  states.add({}, {}, {});
  std::vector<std::vector<Link>> links;
  for (size_t step = 0; step != steps.size(); ++step) {
    states = decide(step, states, upper, width,
                    fixed.empty() ? std::nullopt : fixed[steps[step]]);
    if (states.empty()) {
      failedAt = steps[step];
      return std::nullopt;
    }
    if (states.size() > width) {
      leftOut = std::min(leftOut, states[width].cost + states[width].rest);
      states.truncate(width);
      leavesOut = true;
    }
    choice.states = std::max(choice.states, states.size());
    std::vector<Link> &link = links.emplace_back();
    for (size_t i = 0; i != states.size(); ++i)
      link.push_back({states[i].from, states[i].strategy});
  }
  // Nothing lies behind the last op, so one state is left.
  double cost = states[0].cost;
  choice.bound = leftOut < cost * (1 - slack) ? leftOut : cost;
  choice.strategies.resize(problem.ops.size());
  uint32_t state = 0;
  for (size_t step = steps.size(); step-- > 0;) {
    choice.strategies[steps[step]] = links[step][state].strategy;
    state = links[step][state].from;
  }
  count(choice);
  return choice;
}

/// Ops that say where a parameter and its gradient are for long, or update it,
/// and so are best chosen together, however far apart they are decided.
void Chooser::findGroups() {
  llvm::EquivalenceClasses<size_t> classes; ///< steps
  std::vector<llvm::SmallVector<size_t, 4>> touching(problem.tensors.size());
  for (auto [step, number] : llvm::enumerate(steps)) {
    const PlacedOp &op = problem.ops[number];
    if (op.phase != "step" && !isOfParameter(op))
      continue;
    classes.insert(step);
    for (auto *list : {&op.operands, &op.results})
      for (size_t tensor : *list)
        touching[tensor].push_back(step);
  }
  // What more of them read is of no one parameter, such as the step's number.
  constexpr size_t most = 12;
  for (const auto &all : touching)
    if (all.size() <= most)
      for (size_t step : all)
        classes.unionSets(all.front(), step);
  for (const auto *each : classes)
    if (each->isLeader()) {
      std::vector<size_t> &group = groups.emplace_back(
          classes.member_begin(*each), classes.member_end());
      llvm::sort(group);
    }
  llvm::sort(groups);
}

/// Makes a choice better, a few steps at a time: each time the best of those
/// that differ there and nowhere else. These follow each other, or are of one
/// parameter. Until there are no such steps left, or it has been through all of
/// them a few times.
void Chooser::polish(ShardingChoice &choice) {
  constexpr size_t windows[] = {8, 24}, width = 16;
  constexpr int mostRounds = 24;
  auto getStrategy = [&](size_t step) -> size_t & {
    return choice.strategies[steps[step]];
  };
  outcomes.clear();
  outcomes.resize(steps.size());
  // The choice's own states.
  std::vector<States> trail(1);
  trail.front().add({}, {}, {});
  for (size_t step = 0; step != steps.size(); ++step)
    trail.push_back(
        decide(step, trail.back(), impossible, 1, uint32_t(getStrategy(step))));
  // Steps that are chosen again, in which nothing changed since that was in
  // vain, would be again.
  struct Vain {
    llvm::SmallVector<uint32_t, 16> key; ///< of the state before them
    size_t end = 0;
    int round = 0;
  };
  std::vector<int> changed(steps.size(), 0); ///< by step: 1 + the last round
  // Whether it got better.
  auto improve = [&](llvm::ArrayRef<size_t> free, Vain &before, int round) {
    size_t begin = free.front();
    if (before.end > begin && Key(before.key) == trail[begin].getKey(0) &&
        *std::max_element(changed.begin() + ptrdiff_t(begin),
                          changed.begin() + ptrdiff_t(before.end)) <=
            before.round)
      return false;
    std::vector<States> all;
    size_t step = begin;
    do {
      bool isFree = !free.empty() && free.front() == step;
      if (isFree)
        free = free.drop_front();
      States next = decide(step, all.empty() ? trail[begin] : all.back(),
                           trail.back()[0].cost * (1 + slack), width,
                           isFree ? std::nullopt
                                  : std::optional(uint32_t(getStrategy(step))));
      if (next.size() > width)
        next.truncate(width);
      all.push_back(std::move(next));
      ++step;
    } while (step != steps.size() && !all.back().empty() &&
             (!free.empty() || all.back().size() > 1 ||
              all.back().getKey(0) != trail[step].getKey(0)));
    const States &states = all.back();
    // What it kept of the states may have come to no end.
    double saved = states.empty() ? 0 : trail[step][0].cost - states[0].cost;
    if (saved <= trail[step][0].cost * slack) {
      Key key = trail[begin].getKey(0);
      before = {{key.begin(), key.end()}, step, round};
      return false;
    }
    size_t state = 0;
    for (size_t back = step; back-- > begin;) {
      trail[back + 1] = all[back - begin].pick(state);
      const State &own = trail[back + 1][0];
      if (getStrategy(back) != own.strategy)
        changed[back] = round + 1;
      getStrategy(back) = own.strategy;
      state = own.from;
    }
    for (size_t later = step + 1; later <= steps.size(); ++later)
      trail[later][0].cost -= saved;
    return true;
  };
  // What is chosen in a round: windows of each size, then groups.
  std::vector<std::vector<size_t>> kinds[std::size(windows) + 1];
  for (auto [kind, window] : llvm::zip(kinds, windows))
    for (size_t begin = 0; begin < steps.size(); begin += window / 2) {
      size_t end = std::min(steps.size(), begin + window);
      llvm::append_range(kind.emplace_back(), llvm::seq(begin, end));
    }
  kinds[std::size(windows)] = groups;
  std::vector<Vain> vain[std::size(kinds)];
  for (auto [own, kind] : llvm::zip_equal(vain, kinds))
    own.resize(kind.size());
  size_t inVain = 0;
  for (int round = 0; round != mostRounds && inVain != std::size(kinds);
       ++round) {
    ++inVain;
    size_t kind = size_t(round) % std::size(kinds);
    for (auto [free, before] : llvm::zip_equal(kinds[kind], vain[kind]))
      if (improve(free, before, round))
        inVain = 0;
  }
  outcomes.clear();
  count(choice);
}

void Chooser::finish(ShardingChoice &choice) {
  std::vector<Place> made = count(choice);
  choice.placements.resize(problem.tensors.size());
  for (auto [tensor, place] : llvm::enumerate(made))
    if (!costs.homes[tensor].empty()) // Nobody makes or reads others.
      choice.placements[tensor] = costs.places[tensor]->get(place);
}

std::vector<Place> Chooser::count(ShardingChoice &choice) {
  size_t tensors = problem.tensors.size();
  choice.seconds = choice.bytes = 0;
  choice.byteSeconds = costs.getByteCost();
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
      continue;
    const PlacedTensor &placed = problem.tensors[tensor];
    if (!costs.isInput(tensor) || !needs[tensor].empty())
      choice.bytes += placed.copies * costs.getBytes(tensor, made[tensor]);
    for (Place need : needs[tensor])
      if (need != made[tensor]) {
        choice.seconds += costs.getMoveSeconds(tensor, made[tensor], need);
        choice.bytes += placed.movedTo * costs.getBytes(tensor, need);
      }
  }
  return made;
}
