//===- Passes.h - From a training step to one with a plan -----------------===//
#ifndef CLEAVE_PASSES_PLAN_PASSES_H
#define CLEAVE_PASSES_PLAN_PASSES_H

#include "dialects/dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Plan/Passes.h.inc"
} // namespace cleave

#endif // CLEAVE_PASSES_PLAN_PASSES_H
