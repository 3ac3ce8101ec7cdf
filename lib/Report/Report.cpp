//===- Report.cpp - What a page shows of a plan ---------------------------===//
#include "cleave/Report/Report.h"
#include <cassert>
#include <future>

using namespace cleave;

/// Points of the front: layouts at this many equal steps of memory.
static constexpr int64_t frontSteps = 8;

Report cleave::computeReport(const PlanContext &context,
                             const SearchResult &result,
                             const Progress &progress) {
  assert(context.request.objective == Objective::Time && "explains time");
  const Candidate &plan = result.best.front();
  // Searches share nothing that they write.
  std::future<Explanation> explanation =
      std::async(std::launch::async, [&] { return explain(context, plan); });
  CostModel costs(context.model, context.machine, context.request.work,
                  context.request.profile);
  PipelineStep step = costs.getPipelineStep(plan.layout);
  Report report;
  // The plan is on it.
  report.front =
      llvm::cantFail(computeFront(context.model, context.machine,
                                  context.request, frontSteps, {}, progress));
  report.memory = costs.getMemoryOfStages(plan.layout);
  report.shape = step.shape;
  if (step.shape.getVirtualStages() * step.shape.microBatches <=
      Report::mostOps)
    report.simulation = simulate(step);
  report.explanation = explanation.get();
  return report;
}
