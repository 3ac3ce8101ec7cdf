//===- Search.cpp - Branch and bound over layouts -------------------------===//
//
// A branch fixes tp, cp, dp, pp, ep, micro-batch, sequence parallelism and the
// order of axes; below it are pipelines, ZeRO and recomputation. Its bound is
// what its compute alone takes on devices that are never idle.
//
// 1. List all branches with their bounds and numbers of layouts.
// 2. Take them in the order of their bounds. Stop when a bound exceeds the last
//    of the best values: no branch after it can have a better one.
// 3. Inside, skip pipelines whose own bound exceeds that value. Of the rest,
//    price what fits, with as little recomputation as it can: more takes no
//    less time.
//
// Invariant: no layout of a branch that was left has a lower value than the
// last of the best. Bounds that are equal to it are taken, so that of equal
// layouts the first in the order of enumeration wins, whatever the order of
// branches.
//
//===----------------------------------------------------------------------===//
#include "Find.h"
#include "Space.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <map>
#include <queue>

using namespace cleave;

static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {
class Searcher {
public:
  Searcher(const Architecture &model, const SearchRequest &request)
      : model(model), request(request) {}

  /// Adds a machine's layouts to what was found; `number` orders machines.
  void run(const Machine &machine, int64_t number) {
    Space space(model, machine, request);
    CostModel costs(model, machine, request.work, request.profile);
    limit = request.getMemoryLimit(machine);
    price = getRate(request.objective, machine.device, machine.devices);
    pipelinesOf.clear();
    branches = {};
    layouts.clear();
    collect(space, costs);
    place[0] = number;
    // A first round tries little of each branch and finds something to beat.
    std::vector<Branch> promising;
    while (!branches.empty() && branches.top().bound <= getWorst()) {
      Branch branch = branches.top();
      branches.pop();
      if (branch.kind == Branch::Orders) {
        addOrders(space, costs, branch);
        continue;
      }
      if (branch.kind == Branch::Bounded) {
        refine(space, costs, branch);
        continue;
      }
      branch.found = expand(space, costs, branch, /*usual=*/true);
      promising.push_back(branch);
    }
    // What is best of all is often near what was best there.
    llvm::sort(promising, [](const Branch &a, const Branch &b) {
      return std::tie(a.found, a.bound, a.index) <
             std::tie(b.found, b.bound, b.index);
    });
    for (const Branch &branch : promising)
      if (branch.bound <= getWorst())
        expand(space, costs, branch, /*usual=*/false);
  }

  SearchResult result;

private:
  /// Of equal values the first in this order is better: machine, branch,
  /// pipeline, ZeRO, way to recompute, number of blocks that do, order of
  /// axes.
  using Place = std::array<int64_t, 7>;
  using Key = std::pair<double, Place>;

  struct Branch {
    double bound;
    int64_t index; ///< in the order of enumeration
    size_t layout; ///< in `layouts`: with the first of all below it
    enum Kind {
      Orders,  ///< stands for all but the first of its orders
      Bounded, ///< by compute, or by state and inputs of blocks
      Refined  ///< by communication as well, or by what lives inside a block
    } kind;
    AxisOrder order;
    double found = infinity; ///< the least value of the first round

    bool operator<(const Branch &other) const {
      return std::tie(bound, index) > std::tie(other.bound, other.index);
    }
  };

  /// Values above this one are of no use.
  double getWorst() const {
    return int64_t(found.size()) < request.top ? infinity
                                               : found.rbegin()->first.first;
  }

  bool seeksMemory() const { return request.objective == Objective::Memory; }
  /// Memory is the same in all orders, and the first is the best.
  bool ignoresOrders() const { return seeksMemory() && request.top == 1; }

  /// Pipelines of a number of stages and micro-batches, and the number of ways
  /// to recompute in all of them.
  struct Pipelines {
    std::vector<TrainLayout> options;
    int64_t recomputes = 0;
  };

  const Pipelines &getPipelines(const Space &space, const TrainLayout &layout) {
    int64_t micro = request.work.globalBatch / (layout.dp * layout.microBatch);
    auto [at, isNew] = pipelinesOf.try_emplace({layout.pp, micro});
    if (isNew) {
      space.getPipelines(at->second.options, layout);
      for (const TrainLayout &option : at->second.options)
        for (const Way &way : space.getWays()) {
          getCounts(space, option, way);
          at->second.recomputes += int64_t(counts.size());
        }
    }
    return at->second;
  }

  void getCounts(const Space &space, const TrainLayout &pipeline,
                 const Way &way) {
    bool none = way.recompute == Recompute::None;
    space.getCounts(counts,
                    none ? 0 : pipeline.getMostBlocks(model.getNumBlocks()));
  }

  void collect(const Space &space, CostModel &costs) {
    std::vector<Branch> all;
    int64_t number = 0;
    std::map<std::tuple<int64_t, int64_t, bool>, int64_t> zerosOf;
    space.visit([&](const TrainLayout &layout) {
      auto [count, isNew] =
          zerosOf.try_emplace({layout.dp, layout.cp, layout.pp > 1});
      if (isNew) {
        space.getZeros(zeros, layout);
        count->second = int64_t(zeros.size());
      }
      space.getOrders(orders, layout, /*all=*/true);
      result.space += getPipelines(space, layout).recomputes * count->second *
                      int64_t(orders.size());
      ++number;
      if (costs.getMemoryBound(layout) > limit)
        return;
      space.getHeads(heads, layout);
      int64_t index = number * numAxisOrders;
      layouts.push_back(layout);
      Branch branch{getBound(costs, layout), index, layouts.size() - 1,
                    Branch::Bounded, layout.order};
      all.push_back(branch);
      if (heads.size() == 1 || ignoresOrders())
        return;
      ++branch.index;
      branch.kind = Branch::Orders;
      TrainLayout usual = layout;
      usual.order = AxisOrder();
      branch.bound = getBound(costs, usual);
      all.push_back(branch);
    });
    branches = std::priority_queue(std::less<Branch>(), std::move(all));
  }

  void addOrders(const Space &space, CostModel &costs, Branch branch) {
    TrainLayout layout = layouts[branch.layout];
    space.getHeads(heads, layout);
    branch.kind = Branch::Bounded;
    for (size_t i = 1; i != heads.size(); ++i) {
      branch.order = layout.order = heads[i];
      branch.bound = getBound(costs, layout);
      branches.push(branch);
      ++branch.index;
    }
  }

  /// Communication over data-parallel ranks bounds some branches further, or
  /// what lives inside a block.
  void refine(const Space &space, CostModel &costs, Branch branch) {
    TrainLayout layout = layouts[branch.layout];
    layout.order = branch.order;
    if (seeksMemory()) {
      branch.bound += costs.getWorkingSet(layout);
    } else {
      space.getZeros(zeros, layout);
      space.getOrders(orders, layout);
      std::vector<DataFloor> dataFloors;
      for (const TrainLayout &zero : zeros)
        dataFloors.push_back(getDataFloors(costs, zero).least);
      branch.bound = std::max(branch.bound,
                              costs.getTimeBound(layout, dataFloors) * price);
    }
    branch.kind = Branch::Refined;
    branches.push(branch);
  }

  /// By order of axes, and the least of each in any of them.
  struct DataFloors {
    std::vector<DataFloor> each;
    DataFloor least{infinity, infinity, infinity};
  };

  DataFloors getDataFloors(CostModel &costs, TrainLayout layout) const {
    DataFloors floors;
    for (AxisOrder order : orders) {
      layout.order = order;
      DataFloor floor = costs.getDataFloor(layout);
      floors.least.each = std::min(floors.least.each, floor.each);
      floors.least.once = std::min(floors.least.once, floor.once);
      floors.least.send = std::min(floors.least.send, floor.send);
      floors.each.push_back(floor);
    }
    return floors;
  }

  double getBound(CostModel &costs, const TrainLayout &layout) const {
    return seeksMemory() ? costs.getMemoryBound(layout)
                         : costs.getTimeBound(layout) * price;
  }

  /// Returns the least value that was found.
  double expand(const Space &space, CostModel &costs, const Branch &from,
                bool usual) {
    TrainLayout branch = layouts[from.layout];
    branch.order = from.order;
    place[1] = from.index;
    usualOnly = usual;
    space.getZeros(zeros, branch);
    space.getOrders(orders, branch);
    if (ignoresOrders())
      orders.resize(1);
    dataFloors.assign(zeros.size(), DataFloors());
    states.clear();
    leanest.clear();
    least = infinity;
    for (const TrainLayout &zero : zeros) {
      states.push_back(costs.getStateBytes(zero));
      const StateBytes &state = states.back();
      if (llvm::any_of(leanest, [&](const StateBytes &other) {
            return state.covers(other);
          }))
        continue;
      llvm::erase_if(leanest, [&](const StateBytes &other) {
        return other.covers(state);
      });
      leanest.push_back(state);
    }
    const std::vector<TrainLayout> &pipelines =
        getPipelines(space, branch).options;
    for (size_t i = 0; i != pipelines.size(); ++i) {
      if (usualOnly && !isUsual(pipelines[i]))
        continue;
      TrainLayout layout = branch;
      layout.schedule = pipelines[i].schedule;
      layout.virtualStages = pipelines[i].virtualStages;
      layout.firstBlocks = pipelines[i].firstBlocks;
      layout.lastBlocks = pipelines[i].lastBlocks;
      place[2] = int64_t(i);
      expandPipeline(space, costs, layout);
    }
    return least;
  }

  /// Bytes that a layout may need.
  double getMostBytes() const {
    return seeksMemory() ? std::min(limit, getWorst()) : limit;
  }

  /// The few pipelines below most branches that something good is among, and
  /// ZeRO with them. Software without them has few others.
  bool isUsual(const TrainLayout &pipeline) const {
    unsigned schedules = request.profile.abilities.schedules;
    bool hasZeroBubble =
        Abilities::has(schedules, int(Schedule::ZeroBubbleH1)) ||
        Abilities::has(schedules, int(Schedule::ZeroBubbleV));
    return pipeline.firstBlocks == TrainLayout::even &&
           (pipeline.pp == 1 || !hasZeroBubble ||
            pipeline.schedule == Schedule::ZeroBubbleH1 ||
            pipeline.schedule == Schedule::ZeroBubbleV);
  }

  static bool isUsualZero(const TrainLayout &zero) {
    return zero.zeroGroup == 0 && zero.zero != 2;
  }

  bool isTooLarge(CostModel &costs, const TrainLayout &layout) const {
    return costs.getMemory(layout).getTotal() > getMostBytes();
  }

  BusyFloor getBusyFloor(CostModel &costs, const TrainLayout &layout) const {
    return seeksMemory() ? BusyFloor() : costs.getBusyFloor(layout);
  }

  bool isTooBusy(const CostModel &costs, const BusyFloor &busy,
                 const DataFloor &data = {}) const {
    return costs.getBusyBound(busy, data) > getMostSeconds();
  }

  const DataFloors &getDataFloors(CostModel &costs, const TrainLayout &layout,
                                  size_t zero) {
    DataFloors &floors = dataFloors[zero];
    if (floors.each.empty())
      floors = getDataFloors(
          costs, Space::combine(layout, zeros[zero], {Recompute::None, 0}, 0));
    return floors;
  }

  /// In any order of axes.
  bool isTooBusy(CostModel &costs, const BusyFloor &busy,
                 const TrainLayout &layout, size_t zero) {
    return !seeksMemory() &&
           isTooBusy(costs, busy, getDataFloors(costs, layout, zero).least);
  }

  /// Seconds that a layout may take.
  double getMostSeconds() const {
    return seeksMemory() ? infinity : getWorst() / price;
  }

  void expandPipeline(const Space &space, CostModel &costs,
                      const TrainLayout &pipeline) {
    // With as little time as there can be.
    BusyFloor busy = getBusyFloor(costs, pipeline);
    bool hopeless = true;
    if (!isTooBusy(costs, busy))
      for (size_t zero = 0; zero != zeros.size() && hopeless; ++zero)
        hopeless = isTooBusy(costs, busy, pipeline, zero);
    if (hopeless)
      return;
    // What the first round did need not be done again.
    fits.assign(zeros.size(), false);
    if (isUsual(pipeline))
      for (size_t zero = 0; zero != zeros.size(); ++zero)
        fits[zero] = isUsualZero(zeros[zero]) != usualOnly;
    for (size_t way = 0; way != space.getWays().size(); ++way) {
      place[4] = int64_t(way);
      getCounts(space, pipeline, space.getWays()[way]);
      expandWay(costs, pipeline, space.getWays()[way]);
    }
  }

  /// Prices numbers of blocks that recompute: more of them take no less time
  /// and need no more memory, so each ZeRO is done once it is priced.
  void expandWay(CostModel &costs, const TrainLayout &pipeline,
                 const Way &way) {
    auto combine = [&](size_t zero, int64_t count) {
      return Space::combine(pipeline, zeros[zero], way, count);
    };
    // Numbers that take too long; those of which nothing fits.
    auto getBusy = [&](int64_t count) {
      return getBusyFloor(costs, combine(0, count));
    };
    counts.erase(llvm::partition_point(counts,
                                       [&](int64_t count) {
                                         return !isTooBusy(costs,
                                                           getBusy(count));
                                       }),
                 counts.end());
    if (counts.empty())
      return;
    done = fits;
    MemoryFloor floor = costs.getMemoryFloor(combine(0, counts.back()));
    auto isTooMuch = [&](const StateBytes &state) {
      return floor.getTotal(state) > getMostBytes();
    };
    if (llvm::all_of(leanest, isTooMuch))
      return;
    BusyFloor busy = getBusy(counts.front());
    for (size_t zero = 0; zero != zeros.size(); ++zero)
      done[zero] = done[zero] || isTooMuch(states[zero]) ||
                   isTooBusy(costs, busy, pipeline, zero) ||
                   isTooLarge(costs, combine(zero, counts.back()));
    if (seeksMemory())
      std::reverse(counts.begin(), counts.end());
    auto fitsSome = [&](int64_t count) {
      MemoryFloor floor = costs.getMemoryFloor(combine(0, count));
      for (size_t zero = 0; zero != zeros.size(); ++zero)
        if (!done[zero] && floor.getTotal(states[zero]) <= getMostBytes() &&
            !isTooLarge(costs, combine(zero, count)))
          return true;
      return false;
    };
    if (llvm::all_of(done, [](bool each) { return each; }))
      return;
    for (auto at = counts.begin(); at != counts.end(); ++at) {
      // In ascending order the next of which something fits.
      if (!seeksMemory())
        at = std::partition_point(
            at, counts.end(), [&](int64_t count) { return !fitsSome(count); });
      if (at == counts.end() ||
          costs.getScheduleBound(combine(0, *at)) > getMostSeconds())
        break;
      busy = getBusy(*at);
      // All of them come last.
      place[5] = *at > 0 ? *at : std::numeric_limits<int64_t>::max();
      for (size_t zero = 0; zero != zeros.size(); ++zero) {
        if (done[zero])
          continue;
        place[3] = int64_t(zero);
        Outcome outcome = evaluate(costs, combine(zero, *at), busy, zero);
        done[zero] = seeksMemory() ? outcome == Outcome::TooLarge
                                   : outcome == Outcome::TooSlow ||
                                         outcome == Outcome::Priced;
        // What fits without recomputation needs none.
        fits[zero] |=
            done[zero] && way.recompute == Recompute::None && !seeksMemory();
      }
    }
  }

  enum class Outcome { TooLarge, TooSlow, Priced };

  Outcome evaluate(CostModel &costs, TrainLayout layout, const BusyFloor &busy,
                   size_t zero) {
    if (isTooBusy(costs, busy, layout, zero))
      return Outcome::TooSlow;
    if (isTooLarge(costs, layout)) {
      ++result.evaluated;
      return Outcome::TooLarge;
    }
    Outcome outcome = Outcome::TooSlow;
    for (size_t i = 0; i != orders.size(); ++i) {
      if (!seeksMemory() &&
          isTooBusy(costs, busy, getDataFloors(costs, layout, zero).each[i]))
        continue;
      layout.order = orders[i];
      place[6] = int64_t(i);
      if (evaluateOrder(costs, layout))
        outcome = Outcome::Priced;
    }
    return outcome;
  }

  bool evaluateOrder(CostModel &costs, const TrainLayout &layout) {
    ++result.evaluated;
    std::optional<Estimate> estimate =
        costs.tryPrice(layout, getMostSeconds() * (1 + 1e-12));
    if (!estimate)
      return false;
    double value = getValue(request.objective, costs.getMachine().device,
                            layout, *estimate);
    least = std::min(least, value);
    Key key{value, place};
    if (int64_t(found.size()) >= request.top && !(key < found.rbegin()->first))
      return false;
    // Of a kind the best only; if that is the one it replaces, none is dropped.
    auto [at, isNew] = kinds.try_emplace(getKind(layout), key);
    if (!isNew) {
      if (!(key < at->second))
        return true;
      found.erase(at->second);
      at->second = key;
    } else if (int64_t(found.size()) >= request.top) {
      auto last = std::prev(found.end());
      kinds.erase(getKind(last->second.layout));
      found.erase(last);
    }
    found.emplace(key, Candidate{layout, *estimate, value});
    return true;
  }

  const Architecture &model;
  const SearchRequest &request;
  double limit = 0, price = 1; ///< bytes; USD of a second of all devices, or 1
  std::map<std::pair<int64_t, int64_t>, Pipelines> pipelinesOf;

  std::vector<TrainLayout> layouts;
  std::priority_queue<Branch> branches; ///< the least bound on top

  // Of what is being expanded.
  bool usualOnly = false;
  Place place;
  std::vector<TrainLayout> zeros;
  std::vector<int64_t> counts;
  std::vector<AxisOrder> orders, heads;
  std::vector<char> done, fits;       ///< by ZeRO
  std::vector<StateBytes> states;     ///< the same
  std::vector<StateBytes> leanest;    ///< of them, those that none is below
  std::vector<DataFloors> dataFloors; ///< by ZeRO, once they are known
  double least = infinity;            ///< value

  std::map<LayoutKind, Key> kinds; ///< of what was found

public:
  std::map<Key, Candidate> found;
};
} // namespace

Machine cleave::resize(const Machine &machine, int64_t devices) {
  Machine smaller = machine;
  smaller.devices = devices;
  if (smaller.levels.back().size == machine.devices)
    smaller.levels.back().size = devices;
  return smaller;
}

static std::vector<int64_t> getCounts(const SearchRequest &request,
                                      int64_t devices) {
  std::vector<int64_t> counts{devices};
  if (request.objective == Objective::Cost)
    for (int64_t count = devices / 2; count >= 1; --count)
      if (devices % count == 0)
        counts.push_back(count);
  return counts;
}

SearchResult cleave::find(const Architecture &model, const Machine &machine,
                          const SearchRequest &request) {
  auto begin = std::chrono::steady_clock::now();
  Searcher searcher(model, request);
  std::vector<int64_t> counts = getCounts(request, machine.devices);
  // Few devices wait least and are cheap: something to beat for many.
  for (size_t i = counts.size(); i-- != 0;)
    searcher.run(resize(machine, counts[i]), int64_t(i));
  SearchResult result = std::move(searcher.result);
  for (auto &[key, candidate] : searcher.found)
    result.best.push_back(std::move(candidate));
  if (!result.best.empty())
    result.bound = result.best.front().value;
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return result;
}

llvm::Expected<SearchResult> cleave::search(const Architecture &model,
                                            const Machine &machine,
                                            const SearchRequest &request) {
  SearchResult result = find(model, machine, request);
  if (!result.best.empty()) {
    CostModel costs(model, machine, request.work, request.profile);
    for (Candidate &candidate : result.best) {
      if (candidate.layout.getDevices() == machine.devices) {
        candidate.estimate = costs.price(candidate.layout);
        continue;
      }
      Machine smaller = resize(machine, candidate.layout.getDevices());
      candidate.estimate =
          CostModel(model, smaller, request.work, request.profile)
              .price(candidate.layout);
    }
    return result;
  }
  return llvm::createStringError(result.space == 0
                                     ? explainIllegal(model, machine, request)
                                     : explainMemory(model, machine, request));
}
