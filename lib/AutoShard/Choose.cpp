//===- Choose.cpp - The cheapest placements of a graph's tensors ----------===//
//
// Dynamic programming over the ops, the last one first. A state says where the
// ops behind need the tensors that lie before them. Example, a tensor h of a
// linear that two others read, on one axis x:
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
// From behind, since what many ops make for one of them is then decided by that
// one: attention's strategies say where its queries, keys and values are
// needed, which the ops before would leave in all combinations.
//
//===----------------------------------------------------------------------===//
#include "cleave/AutoShard/Choose.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

using namespace cleave;

static constexpr double impossible = std::numeric_limits<double>::infinity();

static double roundSeconds(double seconds) {
  return std::ldexp(std::round(std::ldexp(seconds, 40)), -40);
}

std::optional<double> cleave::getReshardSeconds(const Mesh &mesh,
                                                const PlacedTensor &tensor,
                                                const Placement &from,
                                                const Placement &to,
                                                CollectivePricer price) {
  llvm::Expected<std::vector<Step>> steps =
      planReshard(mesh, tensor.shape, from, to, tensor.elementBytes, price);
  if (!steps) {
    llvm::consumeError(steps.takeError());
    return std::nullopt;
  }
  double seconds = 0;
  const Placement *before = &from;
  for (const Step &step : *steps) {
    seconds += getStepSeconds(mesh, tensor.shape, *before, step,
                              tensor.elementBytes, price);
    before = &step.after;
  }
  return seconds;
}

namespace {
/// A placement of tensors of one shape, by its number there.
using Place = uint16_t;

/// The placements of tensors of one shape, and the seconds between them.
class Places {
public:
  explicit Places(const PlacedTensor &tensor) : tensor(tensor) {}

  Place add(const Placement &placement) {
    auto [at, isNew] = numbers.try_emplace(hash_value(placement));
    for (Place place : at->second)
      if (placements[place] == placement)
        return place;
    at->second.push_back(Place(placements.size()));
    placements.push_back(placement);
    return at->second.back();
  }

  const Placement &get(Place place) const { return placements[place]; }
  size_t size() const { return placements.size(); }

  double getSeconds(const Mesh &mesh, CollectivePricer price, Place from,
                    Place to) {
    size_t all = placements.size();
    // All placements are known before the first question.
    if (seconds.size() != all * all)
      seconds.assign(all * all, -1);
    double &known = seconds[from * all + to];
    if (known < 0)
      known = getReshardSeconds(mesh, tensor, placements[from], placements[to],
                                price)
                  .value_or(impossible);
    return known;
  }

private:
  const PlacedTensor &tensor; ///< one of them
  std::vector<Placement> placements;
  std::unordered_map<size_t, llvm::SmallVector<Place, 1>> numbers;
  std::vector<double> seconds;
};

/// Where a tensor is needed, ascending.
using Needs = llvm::SmallVector<Place, 3>;
/// Of the tensors that lie before some ops, and that these need.
using State = llvm::SmallVector<Needs, 6>;
using Key = std::u16string;

struct Reached {
  State state;
  double seconds = 0;
  uint32_t from = 0, strategy = 0; ///< the state behind the op, by its number
};

/// What a strategy does: (tensor, place).
struct Touches {
  llvm::SmallVector<std::pair<size_t, Place>, 4> needs, makes;
};

/// How a search came to a state.
struct Link {
  uint32_t from, strategy;
};

class Chooser {
public:
  Chooser(const ShardingProblem &problem, CollectivePricer price)
      : problem(problem), price(price) {}

  llvm::Expected<ShardingChoice> run(size_t mostStates) {
    if (llvm::Error error = prepare())
      return error;
    // A narrow search finds a choice that is good, if not the best: nothing
    // that cannot become better needs to be kept.
    size_t width = std::min<size_t>(64, mostStates);
    std::optional<ShardingChoice> choice = search(width, impossible);
    // What it left out may be all that goes on.
    for (; !choice && leavesOut; width *= 8)
      choice = search(width * 8, impossible);
    if (!choice)
      return llvm::createStringError(
          "op " + llvm::Twine(failedAt) +
          ": no strategy gives what the ops behind it need");
    if (choice->bound < choice->seconds && width < mostStates)
      if (std::optional<ShardingChoice> better =
              search(mostStates, choice->seconds))
        choice = std::move(better);
    placeInputs(*choice);
    return std::move(*choice);
  }

private:
  llvm::Error prepare();
  std::optional<ShardingChoice> search(size_t mostStates, double upper);
  std::optional<Reached> apply(size_t op, size_t strategy, const State &behind);
  void dropWorse(size_t op, std::vector<Reached> &states, size_t mostStates);
  bool isMetBy(size_t op, const State &better, const State &state,
               double seconds);
  double getMost(size_t tensor, Place need);
  void placeInputs(ShardingChoice &choice);

  bool isInput(size_t tensor) const {
    return !problem.tensors[tensor].allowed.empty();
  }
  bool isFree(size_t tensor);
  double getReshard(size_t tensor, Place from, Place to) {
    return from == to
               ? 0
               : places[tensor]->getSeconds(problem.mesh, price, from, to);
  }
  /// Of a rank's shard.
  int64_t getElements(const PlacedTensor &tensor, Place place) const {
    int64_t elements = 1;
    for (int64_t size :
         places.back()->get(place).getLocalShape(problem.mesh, tensor.shape))
      elements *= size;
    return elements;
  }
  /// Where an input that is needed so is best kept, and the seconds.
  std::pair<Place, double> getBestHome(size_t tensor,
                                       llvm::ArrayRef<Place> needs);

  const ShardingProblem &problem;
  CollectivePricer price;
  std::map<std::pair<std::vector<int64_t>, int64_t>, Places> shapes;
  std::vector<Places *> places; ///< by tensor
  /// By tensor: where an input may be, or its op may make it.
  std::vector<llvm::SmallVector<Place, 8>> homes;
  /// By tensor and need: seconds from the home that is furthest away, or -1 if
  /// nobody has asked yet.
  std::vector<std::vector<double>> most;
  std::vector<std::vector<Touches>> touches; ///< by op and strategy
  std::vector<std::vector<double>> seconds;  ///< likewise
  /// By op: strategies whose inputs can be where they need them.
  std::vector<std::vector<uint32_t>> usable;
  std::vector<bool> isFreeInput; ///< by tensor
  /// By op: tensors that lie before it and that it or ops behind it need,
  /// ascending; and none, at the end.
  std::vector<std::vector<size_t>> live;
  /// By op: inputs that no op before it needs.
  std::vector<std::vector<size_t>> settled;
  /// By op: what the ops before it take at least.
  std::vector<double> rest;
  size_t failedAt = 0;    ///< the op where the last search failed
  bool leavesOut = false; ///< whether it left out states
};
} // namespace

llvm::Error Chooser::prepare() {
  size_t tensors = problem.tensors.size(), ops = problem.ops.size();
  for (const PlacedTensor &tensor : problem.tensors) {
    std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    auto at = shapes.try_emplace({shape, tensor.elementBytes}, tensor).first;
    places.push_back(&at->second);
    homes.emplace_back();
    for (const Placement &placement : tensor.allowed)
      homes.back().push_back(places.back()->add(placement));
    // Of equally good ones the one that takes the least memory comes first.
    llvm::sort(homes.back(), [&](Place a, Place b) {
      return std::pair(getElements(tensor, a), a) <
             std::pair(getElements(tensor, b), b);
    });
  }
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (op.strategies.empty())
      return llvm::createStringError("op " + llvm::Twine(number) +
                                     " has no strategy");
    std::vector<Touches> &each = touches.emplace_back();
    for (const Strategy &strategy : op.strategies) {
      Touches own;
      auto add = [&](auto &list, size_t tensor, const Placement &placement) {
        std::pair<size_t, Place> touch{tensor, places[tensor]->add(placement)};
        if (!llvm::is_contained(list, touch))
          list.push_back(touch);
        return touch.second;
      };
      for (auto [tensor, placement] :
           llvm::zip_equal(op.operands, strategy.placements.operands))
        add(own.needs, tensor, placement);
      for (auto [tensor, placement] :
           llvm::zip_equal(op.results, strategy.placements.results)) {
        Place made = add(own.makes, tensor, placement);
        if (!llvm::is_contained(homes[tensor], made))
          homes[tensor].push_back(made);
      }
      each.push_back(std::move(own));
    }
    std::vector<double> &own = seconds.emplace_back();
    for (double time : op.seconds)
      own.push_back(roundSeconds(time));
  }
  for (size_t tensor = 0; tensor != tensors; ++tensor) {
    isFreeInput.push_back(isInput(tensor) && isFree(tensor));
    most.emplace_back(places[tensor]->size(), -1);
  }
  // What is kept is whole, so nobody finds it partial.
  for (const std::vector<Touches> &each : touches) {
    std::vector<uint32_t> &own = usable.emplace_back();
    for (auto [strategy, touched] : llvm::enumerate(each))
      if (llvm::all_of(touched.needs, [&](auto touch) {
            auto [tensor, need] = touch;
            return !isInput(tensor) ||
                   getBestHome(tensor, need).second != impossible;
          }))
        own.push_back(uint32_t(strategy));
  }
  // A tensor lies before all ops from behind the one that makes it, or the
  // first that reads an input, to the last that reads it.
  std::vector<size_t> begins(tensors, ops), last(tensors, 0);
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    for (size_t tensor : op.results)
      begins[tensor] = number;
    for (size_t tensor : op.operands) {
      begins[tensor] = std::min(begins[tensor], number);
      last[tensor] = number;
    }
  }
  live.resize(ops + 1);
  for (size_t tensor = 0; tensor != tensors; ++tensor)
    if (!isFreeInput[tensor])
      for (size_t op = begins[tensor] + 1; op <= last[tensor]; ++op)
        live[op].push_back(tensor);
  settled.resize(ops);
  for (size_t tensor = 0; tensor != tensors; ++tensor)
    if (isInput(tensor) && !isFreeInput[tensor] && begins[tensor] != ops)
      settled[begins[tensor]].push_back(tensor);
  rest.assign(ops + 1, 0);
  for (size_t op = 0; op != ops; ++op)
    rest[op + 1] =
        rest[op] + *std::min_element(seconds[op].begin(), seconds[op].end());
  return llvm::Error::success();
}

bool Chooser::isFree(size_t tensor) {
  return llvm::any_of(homes[tensor], [&](Place home) {
    for (Place need = 0; need != places[tensor]->size(); ++need)
      if (getReshard(tensor, home, need) != 0)
        return false;
    return true;
  });
}

std::pair<Place, double> Chooser::getBestHome(size_t tensor,
                                              llvm::ArrayRef<Place> needs) {
  std::pair<Place, double> best{homes[tensor].front(), impossible};
  for (Place home : homes[tensor]) {
    double sum = 0;
    for (Place need : needs)
      sum += getReshard(tensor, home, need);
    if (sum < best.second)
      best = {home, sum};
  }
  return best;
}

/// The state before an op in that strategy; nothing if a result cannot get to
/// where it is needed.
std::optional<Reached> Chooser::apply(size_t op, size_t strategy,
                                      const State &behind) {
  const Touches &own = touches[op][strategy];
  Reached next{{}, seconds[op][strategy], 0, uint32_t(strategy)};
  for (auto [tensor, needs] : llvm::zip_equal(live[op + 1], behind))
    for (auto [result, made] : own.makes)
      if (result == tensor)
        for (Place need : needs)
          next.seconds += getReshard(tensor, made, need);
  auto getNeeds = [&](size_t tensor) {
    Needs needs;
    if (auto at = llvm::lower_bound(live[op + 1], tensor);
        at != live[op + 1].end() && *at == tensor)
      needs = behind[size_t(at - live[op + 1].begin())];
    for (auto [operand, need] : own.needs)
      if (auto where = llvm::lower_bound(needs, need);
          operand == tensor && (where == needs.end() || *where != need))
        needs.insert(where, need);
    return needs;
  };
  for (size_t tensor : live[op])
    next.state.push_back(getNeeds(tensor));
  for (size_t tensor : settled[op])
    next.seconds += getBestHome(tensor, getNeeds(tensor)).second;
  if (next.seconds == impossible)
    return std::nullopt;
  return next;
}

static Key getKey(const State &state) {
  Key key;
  for (const Needs &needs : state) {
    key.push_back(char16_t(needs.size()));
    for (Place need : needs)
      key.push_back(char16_t(need));
  }
  return key;
}

double Chooser::getMost(size_t tensor, Place need) {
  double &known = most[tensor][need];
  if (known < 0)
    for (Place home : homes[tensor])
      known = std::max(known, getReshard(tensor, home, need));
  return known;
}

/// Whether what meets the needs of `state` before an op also meets those of
/// `better` for no more than `seconds`: it moves a tensor from where that one
/// needs it, or from wherever it is. No reshard is dearer than two that lead to
/// the same.
bool Chooser::isMetBy(size_t op, const State &better, const State &state,
                      double seconds) {
  double extra = 0;
  for (auto [tensor, a, b] : llvm::zip_equal(live[op], better, state))
    for (Place need : a) {
      if (llvm::is_contained(b, need))
        continue;
      double least = getMost(tensor, need);
      for (Place other : b)
        least = std::min(least, getReshard(tensor, other, need));
      extra += least;
      if (extra > seconds)
        return false;
    }
  return true;
}

/// Drops states that another of no more seconds can do the work of, until there
/// are more than `mostStates` others. States are in order of their seconds.
void Chooser::dropWorse(size_t op, std::vector<Reached> &states,
                        size_t mostStates) {
  // Most are dropped for one of the first.
  constexpr size_t mostCompared = 256;
  size_t kept = 0;
  for (size_t i = 0; i != states.size() && kept <= mostStates; ++i) {
    bool isWorse = false;
    for (size_t other = 0; other != std::min(kept, mostCompared) && !isWorse;
         ++other)
      isWorse = isMetBy(op, states[other].state, states[i].state,
                        states[i].seconds - states[other].seconds);
    if (isWorse)
      continue;
    if (kept != i)
      states[kept] = std::move(states[i]);
    ++kept;
  }
  states.resize(kept, Reached());
}

/// The best choice of no more than `upper` seconds; nothing if there is none.
std::optional<ShardingChoice> Chooser::search(size_t mostStates, double upper) {
  ShardingChoice choice;
  double leftOut = impossible;
  leavesOut = false;
  std::vector<Reached> states(1);
  std::vector<std::vector<Link>> links;
  for (size_t op = problem.ops.size(); op-- > 0;) {
    std::unordered_map<Key, size_t> numbers;
    std::vector<std::pair<Key, Reached>> found;
    for (auto [from, state] : llvm::enumerate(states))
      for (uint32_t strategy : usable[op]) {
        std::optional<Reached> next = apply(op, strategy, state.state);
        if (!next)
          continue;
        next->seconds += state.seconds;
        next->from = uint32_t(from);
        if (next->seconds + rest[op] > upper)
          continue;
        Key key = getKey(next->state);
        auto [known, isNew] = numbers.try_emplace(key, found.size());
        if (isNew)
          found.emplace_back(std::move(key), std::move(*next));
        else if (next->seconds < found[known->second].second.seconds)
          found[known->second].second = std::move(*next);
      }
    if (found.empty()) {
      failedAt = op;
      return std::nullopt;
    }
    llvm::sort(found, [](const auto &a, const auto &b) {
      return std::tie(a.second.seconds, a.first) <
             std::tie(b.second.seconds, b.first);
    });
    states.clear();
    for (auto &[key, reached] : found)
      states.push_back(std::move(reached));
    dropWorse(op, states, mostStates);
    if (states.size() > mostStates) {
      leftOut = std::min(leftOut, states[mostStates].seconds + rest[op]);
      states.resize(mostStates, Reached());
      leavesOut = true;
    }
    choice.states = std::max(choice.states, states.size());
    std::vector<Link> &link = links.emplace_back();
    for (const Reached &state : states)
      link.push_back({state.from, state.strategy});
  }
  // Nothing lies before the first op, so one state is left.
  choice.seconds = states.front().seconds;
  choice.bound = std::min(choice.seconds, leftOut);
  uint32_t state = 0;
  for (const std::vector<Link> &link : llvm::reverse(links)) {
    choice.strategies.push_back(link[state].strategy);
    state = link[state].from;
  }
  return choice;
}

void Chooser::placeInputs(ShardingChoice &choice) {
  choice.placements.resize(problem.tensors.size());
  std::vector<llvm::SmallVector<Place, 3>> needs(problem.tensors.size());
  for (auto [op, strategy] : llvm::enumerate(choice.strategies)) {
    for (auto [tensor, need] : touches[op][strategy].needs)
      if (!llvm::is_contained(needs[tensor], need))
        needs[tensor].push_back(need);
    for (auto [tensor, made] : touches[op][strategy].makes)
      choice.placements[tensor] = places[tensor]->get(made);
  }
  for (size_t tensor = 0; tensor != needs.size(); ++tensor)
    if (isInput(tensor))
      choice.placements[tensor] =
          places[tensor]->get(getBestHome(tensor, needs[tensor]).first);
}

llvm::Expected<ShardingChoice>
cleave::chooseShardings(const ShardingProblem &problem, CollectivePricer price,
                        size_t mostStates) {
  return Chooser(problem, price).run(mostStates);
}
