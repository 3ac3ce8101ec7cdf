//===- SearchPlan.h - The planner's search for a step ---------------------===//
#ifndef CLEAVE_PASSES_PLAN_SEARCHPLAN_H
#define CLEAVE_PASSES_PLAN_SEARCHPLAN_H

#include "cleave/Plan/Plan.h"
#include "passes/Plan/ReadGraph.h"

namespace cleave {

/// The fastest plan of those that can be run, and what there is to say of it:
/// a line for itself, and one for each of the runners-up.
struct FoundPlan {
  Plan plan;
  std::vector<std::string> remarks;
};

/// Searches under `pins`, as those of cleave plan, with `headroom` % of a
/// device left free. Fails if there is no such layout.
llvm::Expected<FoundPlan> searchPlan(const StepGraph &graph,
                                     llvm::StringRef cluster,
                                     llvm::ArrayRef<std::string> pins,
                                     double headroom);

} // namespace cleave

#endif // CLEAVE_PASSES_PLAN_SEARCHPLAN_H
