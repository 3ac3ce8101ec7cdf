//===- Search.cpp - Branch and bound over layouts -------------------------===//
//
// A branch fixes tp, cp, dp, pp, ep, micro-batch and sequence parallelism;
// below it are ways to recompute, schedules and ZeRO. Its bound is what its
// compute alone takes on devices that are never idle.
//
// 1. List all branches with their bounds and numbers of layouts.
// 2. Take them in the order of their bounds. Stop when a bound exceeds the last
//    of the best values: no branch after it can have a better one.
// 3. Inside, skip what does not fit or whose own bound exceeds that value;
//    price the rest.
//
// Invariant: no layout of a branch that was left has a lower value than the
// last of the best. Bounds that are equal to it are taken, so that of equal
// layouts the first in the order of enumeration wins, whatever the order of
// branches.
//
//===----------------------------------------------------------------------===//
#include "Space.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <map>

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
    limit =
        request.memoryLimit > 0 ? request.memoryLimit : machine.device.memory;
    // USD of a second of all devices.
    price = double(machine.devices) * machine.device.pricePerHour / 3600;
    std::vector<Branch> branches;
    collect(space, costs, branches);
    llvm::sort(branches, [](const Branch &a, const Branch &b) {
      return std::tie(a.bound, a.index) < std::tie(b.bound, b.index);
    });
    for (const Branch &branch : branches) {
      if (branch.bound > getWorst())
        break;
      expand(space, costs, branch, number);
    }
  }

  SearchResult result;

private:
  using Order = std::tuple<double, int64_t, int64_t, int64_t>;

  /// Values above this one are of no use.
  double getWorst() const {
    return int64_t(found.size()) < request.top
               ? infinity
               : std::get<0>(found.rbegin()->first);
  }

  double getValue(const Estimate &estimate) const {
    switch (request.objective) {
    case Objective::Time:
      return estimate.step;
    case Objective::Memory:
      return estimate.memory.getTotal();
    case Objective::Cost:
      return estimate.step * price;
    }
    return 0;
  }

  double getBound(CostModel &costs, const TrainLayout &layout) const {
    switch (request.objective) {
    case Objective::Time:
      return costs.getTimeBound(layout);
    case Objective::Memory:
      return costs.getMemoryBound(layout);
    case Objective::Cost:
      return costs.getTimeBound(layout) * price;
    }
    return 0;
  }

  void collect(Space &space, CostModel &costs, std::vector<Branch> &branches) {
    std::map<std::pair<int64_t, int64_t>, int64_t> schedulesOf, zerosOf;
    std::vector<TrainLayout> options;
    space.visit([&](const TrainLayout &layout) {
      int64_t micro =
          request.work.globalBatch / (layout.dp * layout.microBatch);
      auto [schedules, newSchedules] =
          schedulesOf.try_emplace({layout.pp, micro});
      if (newSchedules) {
        space.getSchedules(options, layout);
        schedules->second = int64_t(options.size());
      }
      auto [zeros, newZeros] = zerosOf.try_emplace({layout.dp, layout.cp});
      if (newZeros) {
        space.getZeros(options, layout);
        zeros->second = int64_t(options.size());
      }
      space.getRecomputes(options, layout);
      result.space +=
          int64_t(options.size()) * schedules->second * zeros->second;
      Branch branch{layout, int64_t(branches.size()), infinity};
      if (request.objective != Objective::Memory)
        branch.bound = getBound(costs, layout);
      else
        for (const TrainLayout &option : options)
          branch.bound = std::min(branch.bound, getBound(costs, option));
      branches.push_back(branch);
    });
  }

  void expand(Space &space, CostModel &costs, const Branch &branch,
              int64_t machine) {
    int64_t child = 0;
    space.getRecomputes(recomputes, branch.layout);
    space.getZeros(zeros, branch.layout);
    for (const TrainLayout &recompute : recomputes) {
      space.getSchedules(schedules, recompute);
      if (costs.getMemoryBound(recompute) > limit ||
          getBound(costs, recompute) > getWorst()) {
        child += int64_t(schedules.size() * zeros.size());
        continue;
      }
      for (TrainLayout &layout : schedules) {
        double unit = request.objective == Objective::Cost ? price : 1;
        if (request.objective != Objective::Memory &&
            costs.getScheduleBound(layout) * unit > getWorst()) {
          child += int64_t(zeros.size());
          continue;
        }
        for (const TrainLayout &zero : zeros) {
          layout.zero = zero.zero;
          layout.zeroGroup = zero.zeroGroup;
          evaluate(costs, layout, {machine, branch.index, child++});
        }
      }
    }
  }

  void evaluate(CostModel &costs, const TrainLayout &layout,
                std::array<int64_t, 3> order) {
    double worst = getWorst(), seconds = infinity, bytes = limit;
    if (request.objective == Objective::Memory)
      bytes = std::min(bytes, worst);
    else
      seconds = request.objective == Objective::Cost ? worst / price : worst;
    ++result.evaluated;
    std::optional<Estimate> estimate =
        costs.tryPrice(layout, seconds * (1 + 1e-12), bytes);
    if (!estimate)
      return;
    double value = getValue(*estimate);
    Order key{value, order[0], order[1], order[2]};
    if (int64_t(found.size()) >= request.top) {
      if (!(key < found.rbegin()->first))
        return;
      found.erase(std::prev(found.end()));
    }
    found.emplace(key, Candidate{layout, *estimate, value});
  }

  const Architecture &model;
  const SearchRequest &request;
  double limit = 0, price = 0;
  std::vector<TrainLayout> recomputes, schedules, zeros;

public:
  std::map<Order, Candidate> found;
};
} // namespace

static Machine resize(const Machine &machine, int64_t devices) {
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

static SearchResult find(const Architecture &model, const Machine &machine,
                         const SearchRequest &request) {
  auto begin = std::chrono::steady_clock::now();
  Searcher searcher(model, request);
  int64_t number = 0;
  std::vector<Machine> machines;
  for (int64_t count : getCounts(request, machine.devices))
    machines.push_back(resize(machine, count));
  for (const Machine &each : machines)
    searcher.run(each, number++);
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

//===----------------------------------------------------------------------===//
// When there is no layout
//===----------------------------------------------------------------------===//

static std::optional<TrainLayout> findAny(const Architecture &model,
                                          const Machine &machine,
                                          const SearchRequest &request) {
  std::optional<TrainLayout> any;
  Space space(model, machine, request);
  std::vector<TrainLayout> options;
  space.visit([&](const TrainLayout &layout) {
    if (any)
      return;
    space.getSchedules(options, layout);
    bool has = !options.empty();
    space.getZeros(options, layout);
    has &= !options.empty();
    space.getRecomputes(options, layout);
    if (has && !options.empty())
      any = layout;
  });
  return any;
}

static std::string formatBytes(double bytes) {
  return llvm::formatv("{0:F1} GB", bytes / 1e9);
}

/// A constraint without which there is a layout that `works`.
static std::string
blameConstraint(const SearchRequest &request,
                llvm::function_ref<bool(const SearchRequest &)> works) {
  for (size_t i = 0; i != request.constraints.size(); ++i) {
    SearchRequest without = request;
    without.constraints.erase(without.constraints.begin() + long(i));
    if (works(without)) {
      const Constraint &constraint = request.constraints[i];
      return llvm::formatv("{0} {1}", constraint.forbids ? "--forbid" : "--pin",
                           constraint.text);
    }
  }
  return "";
}

/// Nothing is legal: names what a change would make legal.
static std::string explainIllegal(const Architecture &model,
                                  const Machine &machine,
                                  const SearchRequest &request) {
  auto works = [&](const SearchRequest &changed) {
    return findAny(model, machine, changed).has_value();
  };
  std::string blamed = blameConstraint(request, works);
  if (!blamed.empty())
    return llvm::formatv("no layout of {0} devices satisfies {1}; without it "
                         "there are some",
                         machine.devices, blamed);
  SearchRequest free = request;
  free.constraints.clear();
  if (!request.constraints.empty() && works(free))
    return "no layout satisfies all of --pin and --forbid; without them there "
           "are some";
  // A batch that every dp divides: what is the least dp?
  SearchRequest divisible = free;
  divisible.work.globalBatch = machine.devices;
  TrainLayout nearest;
  nearest.dp = std::numeric_limits<int64_t>::max();
  Space(model, machine, divisible).visit([&](const TrainLayout &layout) {
    if (layout.dp < nearest.dp)
      nearest = layout;
  });
  if (nearest.dp == std::numeric_limits<int64_t>::max())
    return llvm::formatv("no layout of {0} devices is legal", machine.devices);
  int64_t batch = request.work.globalBatch;
  std::string message = llvm::formatv(
      "the global batch {0} is not divisible: tp {1} x cp {2} x pp {3} leave "
      "dp {4}, the least there is on {5} devices; a global batch of {6} works",
      batch, nearest.tp, nearest.cp, nearest.pp, nearest.dp, machine.devices,
      (batch + nearest.dp - 1) / nearest.dp * nearest.dp);
  for (int64_t devices = machine.devices - 1;
       devices >= 1 && devices > machine.devices - 4096; --devices) {
    Machine smaller = resize(machine, devices);
    if (findAny(model, smaller, free))
      return message + llvm::formatv(", or {0} devices", devices).str();
  }
  return message;
}

/// Legal layouts need too much memory.
static std::string explainMemory(const Architecture &model,
                                 const Machine &machine,
                                 const SearchRequest &request) {
  double limit =
      request.memoryLimit > 0 ? request.memoryLimit : machine.device.memory;
  SearchRequest smallest = request;
  smallest.objective = Objective::Memory;
  smallest.top = 1;
  auto works = [&](const SearchRequest &changed) {
    SearchRequest fitting = changed;
    fitting.objective = Objective::Memory;
    fitting.top = 1;
    return !find(model, machine, fitting).best.empty();
  };
  std::string blamed = blameConstraint(request, works);
  smallest.memoryLimit = infinity;
  SearchResult nearest = find(model, machine, smallest);
  const Candidate &best = nearest.best.front();
  const MemoryUse &use = best.estimate.memory;
  std::string message = llvm::formatv(
      "nothing fits: memory of a device is {0}, the smallest layout ({1}) "
      "needs "
      "{2}: parameters {3}, gradients {4}, optimizer {5}, activations {6}, "
      "temporaries {7}",
      formatBytes(limit), toString(best.layout), formatBytes(use.getTotal()),
      formatBytes(use.parameters), formatBytes(use.gradients),
      formatBytes(use.optimizer), formatBytes(use.activations),
      formatBytes(use.temporaries));
  if (!blamed.empty())
    return message + "; without " + blamed + " some fit";
  smallest.memoryLimit = limit;
  for (int64_t devices = machine.devices * 2;
       devices <= machine.devices * 64 && devices <= (1 << 20); devices *= 2) {
    SearchRequest larger = smallest;
    if (!find(model, resize(machine, devices), larger).best.empty())
      return message + llvm::formatv("; {0} devices are enough", devices).str();
  }
  return message +
         llvm::formatv("; devices of {0} would do", formatBytes(use.getTotal()))
             .str();
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

llvm::Expected<std::vector<Candidate>>
cleave::computeFront(const Architecture &model, const Machine &machine,
                     const SearchRequest &request, int64_t count) {
  SearchRequest next = request;
  next.objective = Objective::Time;
  next.top = 1;
  llvm::Expected<SearchResult> first = search(model, machine, next);
  if (!first)
    return first.takeError();
  std::vector<Candidate> front = std::move(first->best);
  double limit =
      request.memoryLimit > 0 ? request.memoryLimit : machine.device.memory;
  for (int64_t i = count - 1; i > 0; --i) {
    next.memoryLimit = limit * double(i) / double(count);
    if (front.back().estimate.memory.getTotal() <= next.memoryLimit)
      continue;
    SearchResult result = find(model, machine, next);
    if (result.best.empty())
      break;
    front.push_back(std::move(result.best.front()));
  }
  return front;
}
