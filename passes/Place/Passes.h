//===- Passes.h - From a training step to a placed one --------------------===//
#ifndef CLEAVE_PASSES_PLACE_PASSES_H
#define CLEAVE_PASSES_PLACE_PASSES_H

#include "cleave/Plan/Plan.h"
#include "dialects/dist/Dist.h"
#include "dialects/xf/Xf.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Place/Passes.h.inc"

/// The pass for a plan at hand, in place of one from a file.
std::unique_ptr<mlir::Pass> createPlaceTensorsPass(const Plan &plan);

} // namespace cleave

#endif // CLEAVE_PASSES_PLACE_PASSES_H
