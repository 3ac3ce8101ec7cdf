//===- Passes.h - From a forward graph to a training step -----------------===//
#ifndef CLEAVE_PASSES_GRAD_PASSES_H
#define CLEAVE_PASSES_GRAD_PASSES_H

#include "dialects/xf/Xf.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Grad/Passes.h.inc"
} // namespace cleave

#endif // CLEAVE_PASSES_GRAD_PASSES_H
