//===- ChoosePlan.cpp - The plan of a step, as an attribute ---------------===//
#include "dialects/dist/PlanAttr.h"
#include "passes/Plan/Passes.h"
#include "passes/Plan/SearchPlan.h"

namespace cleave {
#define GEN_PASS_DEF_CHOOSEPLANPASS
#include "passes/Plan/Passes.h.inc"
} // namespace cleave

using namespace cleave;

namespace {
class ChoosePlan : public cleave::impl::ChoosePlanPassBase<ChoosePlan> {
public:
  using ChoosePlanPassBase::ChoosePlanPassBase;

  void runOnOperation() override {
    if (llvm::Error error = run()) {
      getOperation().emitError(llvm::toString(std::move(error)));
      signalPassFailure();
    }
  }

private:
  llvm::Error run() {
    auto known = dist::getPlan(getOperation());
    if (!known)
      return known.takeError();
    if (*known)
      return llvm::Error::success();
    if (cluster.empty())
      return llvm::createStringError(
          "expects a dist.plan, or the option cluster to choose one for");
    llvm::Expected<StepGraph> graph = readGraph(getOperation());
    if (!graph)
      return graph.takeError();
    llvm::SmallVector<std::string> given(pins.begin(), pins.end());
    llvm::Expected<FoundPlan> found =
        searchPlan(*graph, cluster, given, headroom);
    if (!found)
      return found.takeError();
    for (const std::string &text : found->remarks)
      mlir::emitRemark(getOperation().getLoc()) << text;
    dist::setPlan(getOperation(), found->plan);
    return llvm::Error::success();
  }
};
} // namespace
