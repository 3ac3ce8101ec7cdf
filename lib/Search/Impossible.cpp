//===- Impossible.cpp - Why there is no layout ----------------------------===//
#include "Find.h"
#include "Space.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>

using namespace cleave;

static std::optional<TrainLayout> findAny(const Architecture &model,
                                          const Machine &machine,
                                          const SearchRequest &request) {
  std::optional<TrainLayout> any;
  Space space(model, machine, request);
  std::vector<TrainLayout> pipelines, zeros;
  std::vector<int64_t> counts;
  space.visit([&](const TrainLayout &layout) {
    if (any || space.getWays().empty())
      return;
    space.getPipelines(pipelines, layout);
    space.getZeros(zeros, layout);
    for (const TrainLayout &pipeline : pipelines) {
      space.getCounts(counts, pipeline.getMostBlocks(model.getNumBlocks()));
      if (!zeros.empty() && !counts.empty())
        any = layout;
    }
  });
  return any;
}

/// Constraints without which there is a layout that `works`; those that come
/// last are kept, and all but the blamed ones are left in `kept`. None if there
/// is no such layout even without all.
static std::vector<Constraint>
blameConstraints(const SearchRequest &request, SearchRequest &kept,
                 llvm::function_ref<bool(const SearchRequest &)> works) {
  kept = request;
  kept.constraints.clear();
  if (!works(kept))
    return {};
  std::vector<Constraint> blamed;
  for (const Constraint &constraint : llvm::reverse(request.constraints)) {
    kept.constraints.push_back(constraint);
    if (works(kept))
      continue;
    kept.constraints.pop_back();
    blamed.push_back(constraint);
  }
  std::reverse(blamed.begin(), blamed.end());
  return blamed;
}

static std::string joinFlags(llvm::ArrayRef<Constraint> constraints) {
  return llvm::join(llvm::map_range(constraints,
                                    [](const Constraint &constraint) {
                                      return constraint.getFlag();
                                    }),
                    " and ");
}

/// The values that a field has in the layouts of a request, as a person writes
/// them.
static std::string getPossible(const Architecture &model,
                               const Machine &machine,
                               const SearchRequest &request,
                               llvm::StringRef field) {
  std::map<int64_t, std::string> values;
  auto add = [&](const TrainLayout &layout) {
    int64_t value = getField(layout, field);
    if (!values.count(value))
      values[value] = getFieldText(layout, field);
  };
  Space space(model, machine, request);
  std::vector<TrainLayout> zeros;
  std::vector<int64_t> counts;
  std::vector<AxisOrder> orders;
  // Pipelines are the same for equal numbers of stages and micro-batches.
  std::map<std::pair<int64_t, int64_t>, std::vector<TrainLayout>> pipelinesOf;
  space.visit([&](const TrainLayout &branch) {
    auto [at, isNew] =
        pipelinesOf.try_emplace({branch.pp, branch.dp * branch.microBatch});
    if (isNew)
      space.getPipelines(at->second, branch);
    space.getZeros(zeros, branch);
    space.getOrders(orders, branch, /*all=*/true);
    if (at->second.empty() || zeros.empty() || orders.empty() ||
        space.getWays().empty())
      return;
    add(branch);
    for (const TrainLayout &zero : zeros)
      if (getField(zero, field) != getField(branch, field))
        add(zero);
    for (AxisOrder order : orders) {
      TrainLayout ordered = branch;
      ordered.order = order;
      add(ordered);
    }
    if (!isNew)
      return;
    for (const TrainLayout &pipeline : at->second) {
      add(pipeline);
      for (const Way &way : space.getWays()) {
        bool none = way.recompute == Recompute::None;
        space.getCounts(
            counts, none ? 0 : pipeline.getMostBlocks(model.getNumBlocks()));
        for (int64_t count : counts)
          add(Space::combine(pipeline, branch, way, count));
      }
    }
  });
  constexpr size_t most = 24;
  std::string text;
  size_t shown = 0;
  for (const auto &[value, name] : values)
    if (++shown <= most || shown == values.size())
      text += (text.empty() ? "" : shown > most ? ", ... " : ", ") + name;
  return text;
}

std::string cleave::explainIllegal(const Architecture &model,
                                   const Machine &machine,
                                   const SearchRequest &request) {
  auto works = [&](const SearchRequest &changed) {
    return findAny(model, machine, changed).has_value();
  };
  SearchRequest kept;
  std::vector<Constraint> blamed = blameConstraints(request, kept, works);
  SearchRequest anyhow = request;
  anyhow.profile.abilities = Abilities();
  if (request.profile.abilities != Abilities() && works(anyhow))
    return llvm::formatv(
        "no layout of {0} {1}{2}that profile {3} can run: it has {4}",
        formatNumber(machine.devices, "device"),
        blamed.empty() ? "is one " : "satisfies " + joinFlags(blamed) + " ",
        blamed.empty() ? "" : "and is one ", request.profile.name,
        getAbilities(request.profile));
  if (!blamed.empty()) {
    std::string message = llvm::formatv("no layout of {0} satisfies {1}; legal",
                                        formatNumber(machine.devices, "device"),
                                        joinFlags(blamed));
    llvm::StringRef separator = " ";
    for (const Constraint &constraint : blamed) {
      message +=
          llvm::formatv("{0}values of {1} are {2}", separator, constraint.field,
                        getPossible(model, machine, kept, constraint.field));
      separator = ", ";
    }
    return message;
  }
  SearchRequest free = request;
  free.constraints.clear();
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
    return llvm::formatv("no layout of {0} is legal",
                         formatNumber(machine.devices, "device"));
  int64_t batch = request.work.globalBatch;
  std::string message = llvm::formatv(
      "the global batch {0} is not divisible: tp {1} x cp {2} x pp {3} leave "
      "dp {4}, the least there is on {5}; a global batch of {6} works",
      batch, nearest.tp, nearest.cp, nearest.pp, nearest.dp,
      formatNumber(machine.devices, "device"),
      (batch + nearest.dp - 1) / nearest.dp * nearest.dp);
  // The next that works, or of far fewer the next half.
  int64_t nearby = std::max<int64_t>(machine.devices - 4096, 0);
  for (int64_t devices = machine.devices - 1, half = machine.devices / 2;
       devices >= 1;) {
    if (findAny(model, resize(machine, devices), free))
      return message +
             llvm::formatv(", or {0}", formatNumber(devices, "device")).str();
    while (half >= devices)
      half /= 2;
    devices = devices > nearby ? devices - 1 : half;
  }
  return message;
}

std::string cleave::explainMemory(const Architecture &model,
                                  const Machine &machine,
                                  const SearchRequest &request) {
  double limit = request.getMemoryLimit(machine);
  SearchRequest smallest = request;
  smallest.objective = Objective::Memory;
  smallest.top = 1;
  auto works = [&](const SearchRequest &changed) {
    SearchRequest fitting = changed;
    fitting.objective = Objective::Memory;
    fitting.top = 1;
    return !find(model, machine, fitting).best.empty();
  };
  SearchRequest kept;
  std::vector<Constraint> blamed = blameConstraints(request, kept, works);
  smallest.memoryLimit = std::numeric_limits<double>::infinity();
  SearchResult nearest = find(model, machine, smallest);
  const Candidate &best = nearest.best.front();
  const MemoryUse &use = best.estimate.memory;
  auto [there, needed] = formatBytesApart(limit, use.getTotal());
  std::string message = llvm::formatv(
      "nothing fits: memory of a device {9}is {0}, the smallest layout ({1}) "
      "needs {2}: parameters {3}, gradients {4}, optimizer {5}, activations "
      "{6}, "
      "temporaries {7}, reserve {8}",
      there, toString(best.layout), needed, formatBytes(use.parameters),
      formatBytes(use.gradients), formatBytes(use.optimizer),
      formatBytes(use.activations), formatBytes(use.temporaries),
      formatBytes(use.reserve),
      limit < machine.device.memory ? "that may be used " : "");
  if (!blamed.empty())
    return message + "; without " + joinFlags(blamed) + " some fit";
  smallest.memoryLimit = limit;
  int64_t most = std::clamp<int64_t>(machine.devices * 64, 4096, 1 << 20);
  for (int64_t devices = machine.devices * 2; devices <= most; devices *= 2) {
    if (!find(model, resize(machine, devices), smallest).best.empty())
      return message + llvm::formatv("; {0} devices are enough", devices).str();
  }
  return message + "; devices " +
         (limit < machine.device.memory ? "that may use " : "of ") + needed +
         " would do";
}
