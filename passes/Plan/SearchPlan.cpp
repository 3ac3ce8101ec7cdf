//===- SearchPlan.cpp - The planner's search for a step -------------------===//
#include "passes/Plan/SearchPlan.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Search/Format.h"
#include "cleave/Search/PlanFile.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

/// Whether the step can be cut so: its micro-batches are what they are, and its
/// dims divide.
static bool fits(const StepGraph &graph, const TrainLayout &layout) {
  llvm::Expected<Plan> plan = makePlan(layout, graph.work);
  if (!plan) {
    llvm::consumeError(plan.takeError());
    return false;
  }
  if (plan->microBatches != graph.microBatches)
    return false;
  if (graph.work.seqLen % plan->mesh.getSize(plan->getAxes("sequence")) != 0)
    return false;
  for (const auto &[dim, axes] : plan->dims)
    if (auto size = graph.dims.find(dim);
        size != graph.dims.end() &&
        size->second % plan->mesh.getSize(axes) != 0)
      return false;
  return true;
}

llvm::Expected<FoundPlan> cleave::searchPlan(const StepGraph &graph,
                                             llvm::StringRef cluster,
                                             llvm::ArrayRef<std::string> pins,
                                             double headroom) {
  llvm::Expected<Machine> machine = getMachine(cluster);
  if (!machine)
    return machine.takeError();
  if (!(headroom >= 0 && headroom <= mostHeadroom))
    return llvm::createStringError(
        llvm::formatv("headroom {0}: expects percents from 0 to {1}", headroom,
                      mostHeadroom));
  SearchRequest request;
  request.work = graph.work;
  const Device &device = machine->device;
  if (device.getMatrix(request.work.dtype).peak == 0)
    return llvm::createStringError(
        llvm::formatv("the step has products in {0}, for which {1} has no unit",
                      getName(request.work.dtype), device.name));
  llvm::Expected<Profile> profile = loadOwnProfile(device);
  if (!profile)
    return profile.takeError();
  request.profile = std::move(*profile);
  request.setHeadroom(device, headroom);
  request.constraints = getRunnable();
  for (const std::string &pin : pins) {
    llvm::Expected<Constraint> constraint =
        parseConstraint(pin, /*forbids=*/false);
    if (!constraint)
      return llvm::createStringError("pin " +
                                     llvm::toString(constraint.takeError()));
    request.constraints.push_back(std::move(*constraint));
  }
  request.runs = [&](const TrainLayout &layout) { return fits(graph, layout); };
  constexpr int64_t shown = 4;
  request.top = shown;
  llvm::Expected<SearchResult> result = search(graph.model, *machine, request);
  if (!result)
    return result.takeError();
  FoundPlan found;
  const Candidate &best = result->best.front();
  llvm::Expected<Plan> plan = makePlan(best.layout, graph.work);
  if (!plan)
    return plan.takeError();
  found.plan = std::move(*plan);
  if (llvm::Error error = setRecompute(found.plan, best.layout))
    return error;
  found.plan.setStageLayers(graph.model.getNumBlocks());
  for (const Candidate &each : result->best)
    found.remarks.push_back(llvm::formatv(
        "{0}: {1} a step, {2} of a device{3}", toString(each.layout),
        formatSeconds(each.estimate.step),
        formatBytes(each.estimate.memory.getTotal()),
        &each == &best
            ? std::string()
            : llvm::formatv(", {0:F1} % more time",
                            100 * (each.estimate.step / best.estimate.step - 1))
                  .str()));
  return found;
}
