//===- LoadPlan.cpp - The plan of a step, from a file ---------------------===//
//
// By itself, since the planner and MLIR each call something a Block.
//
//===----------------------------------------------------------------------===//
#include "passes/Place/LoadPlan.h"
#include "cleave/Search/Format.h"
#include "cleave/Search/PlanFile.h"
#include "dialects/dist/PlanAttr.h"
#include "passes/Plan/ReadGraph.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

llvm::Expected<Plan> cleave::loadPlanForStep(llvm::StringRef path,
                                             mlir::ModuleOp module) {
  llvm::Expected<std::optional<Plan>> known = dist::getPlan(module);
  if (!known)
    return known.takeError();
  if (path.empty() && !*known) {
    Plan single;
    single.mesh = Mesh({{"dp", 1}, {"tp", 1}});
    return single;
  }
  auto step = module.lookupSymbol<mlir::func::FuncOp>("step");
  // Without a step the pass has an error of its own.
  if (!step || step.isExternal() || step.getNumArguments() == 0)
    return Plan();
  llvm::Expected<StepWorkload> given = readWorkload(step);
  if (!given)
    return given.takeError();
  llvm::Expected<Plan> plan = Plan();
  if (path.empty()) {
    plan = std::move(**known);
  } else {
    llvm::Expected<PlanFile> file = loadPlanFile(path);
    if (!file)
      return file.takeError();
    plan = getPlan(*file, /*model=*/"", given->work);
  }
  if (plan && plan->microBatches != given->microBatches)
    return llvm::createStringError(
        llvm::formatv("{0}: the plan has {1}, the step {2}: expects "
                      "--cleave-build-step=micro-batches={3}",
                      path.empty() ? llvm::StringRef(dist::planName) : path,
                      formatNumber(plan->microBatches, "micro-batch"),
                      given->microBatches, plan->microBatches));
  return plan;
}
