//===- CompareSteps.h - Whether a stage kept what a step means ------------===//
#ifndef CLEAVE_PASSES_INTERPRET_COMPARESTEPS_H
#define CLEAVE_PASSES_INTERPRET_COMPARESTEPS_H

#include "passes/Interpret/RunStep.h"

namespace cleave {

/// Two modules, one before and one after some passes, must compute the same
/// from the same inputs.
///
/// So that the first op that parts can be named, ops of the earlier module get
/// numbers as locations, which passes hand on to what they make of them:
///
///     numberOps(module);
///     before = module.clone();
///     ... run passes on module ...
///     compareSteps(before, module, inputs);
void numberOps(mlir::ModuleOp module);

/// Gives the ops their own locations again.
void removeNumbers(mlir::ModuleOp module);
mlir::Location withoutNumbers(mlir::Location loc);

/// Runs both modules and compares every state and every output that both have,
/// to 1e-9 of its largest element, or to 1e-6 where kernels, whose constants
/// are f32, take part. On a difference emits an error at the first op or
/// instruction of `after` whose result is not what `before` has for it.
llvm::LogicalResult compareSteps(mlir::ModuleOp before, mlir::ModuleOp after,
                                 const StepInputs &inputs);

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_COMPARESTEPS_H
