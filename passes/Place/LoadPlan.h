//===- LoadPlan.h - The plan of a step, from a file -----------------------===//
#ifndef CLEAVE_PASSES_PLACE_LOADPLAN_H
#define CLEAVE_PASSES_PLACE_LOADPLAN_H

#include "cleave/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Reads a plan for the `@step` of `module`: by hand, or of `cleave plan`,
/// which is one for a batch and a type of products; they are the step's. An
/// error says what differs. No path: the module's `dist.plan`, or a mesh of one
/// rank.
llvm::Expected<Plan> loadPlanForStep(llvm::StringRef path,
                                     mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_PASSES_PLACE_LOADPLAN_H
