//===- Impossible.cpp - Why there is no layout ----------------------------===//
#include "Find.h"
#include "Space.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

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

/// Constraints without which there is a layout that `works`, in words; those
/// that come last are kept. Empty if there is none even without all.
static std::string
blameConstraints(const SearchRequest &request,
                 llvm::function_ref<bool(const SearchRequest &)> works) {
  SearchRequest kept = request;
  kept.constraints.clear();
  if (!works(kept))
    return "";
  std::vector<std::string> blamed;
  for (const Constraint &constraint : llvm::reverse(request.constraints)) {
    kept.constraints.push_back(constraint);
    if (works(kept))
      continue;
    kept.constraints.pop_back();
    blamed.push_back(constraint.getFlag());
  }
  std::reverse(blamed.begin(), blamed.end());
  return llvm::join(blamed, " and ");
}

std::string cleave::explainIllegal(const Architecture &model,
                                   const Machine &machine,
                                   const SearchRequest &request) {
  auto works = [&](const SearchRequest &changed) {
    return findAny(model, machine, changed).has_value();
  };
  std::string blamed = blameConstraints(request, works);
  if (!blamed.empty())
    return llvm::formatv("no layout of {0} devices satisfies {1}; without it "
                         "there are some",
                         machine.devices, blamed);
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
    return llvm::formatv("no layout of {0} devices is legal", machine.devices);
  int64_t batch = request.work.globalBatch;
  std::string message = llvm::formatv(
      "the global batch {0} is not divisible: tp {1} x cp {2} x pp {3} leave "
      "dp {4}, the least there is on {5} devices; a global batch of {6} works",
      batch, nearest.tp, nearest.cp, nearest.pp, nearest.dp, machine.devices,
      (batch + nearest.dp - 1) / nearest.dp * nearest.dp);
  // The next that works, or of far fewer the next half.
  int64_t nearby = std::max<int64_t>(machine.devices - 4096, 0);
  for (int64_t devices = machine.devices - 1, half = machine.devices / 2;
       devices >= 1;) {
    if (findAny(model, resize(machine, devices), free))
      return message + llvm::formatv(", or {0} devices", devices).str();
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
  std::string blamed = blameConstraints(request, works);
  smallest.memoryLimit = std::numeric_limits<double>::infinity();
  SearchResult nearest = find(model, machine, smallest);
  const Candidate &best = nearest.best.front();
  const MemoryUse &use = best.estimate.memory;
  std::string message = llvm::formatv(
      "nothing fits: memory of a device is {0}, the smallest layout ({1}) "
      "needs {2}: parameters {3}, gradients {4}, optimizer {5}, activations "
      "{6}, "
      "temporaries {7}, reserve {8}",
      formatBytes(limit), toString(best.layout), formatBytes(use.getTotal()),
      formatBytes(use.parameters), formatBytes(use.gradients),
      formatBytes(use.optimizer), formatBytes(use.activations),
      formatBytes(use.temporaries), formatBytes(use.reserve));
  if (!blamed.empty())
    return message + "; without " + blamed + " some fit";
  smallest.memoryLimit = limit;
  int64_t most = std::clamp<int64_t>(machine.devices * 64, 4096, 1 << 20);
  for (int64_t devices = machine.devices * 2; devices <= most; devices *= 2) {
    SearchRequest larger = smallest;
    if (!find(model, resize(machine, devices), larger).best.empty())
      return message + llvm::formatv("; {0} devices are enough", devices).str();
  }
  return message +
         llvm::formatv("; devices of {0} would do", formatBytes(use.getTotal()))
             .str();
}
