//===- Passes.h - What is repeated rather than kept -----------------------===//
#ifndef CLEAVE_PASSES_RECOMPUTE_PASSES_H
#define CLEAVE_PASSES_RECOMPUTE_PASSES_H

#include "dialects/xf/Xf.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Recompute/Passes.h.inc"

} // namespace cleave

#endif // CLEAVE_PASSES_RECOMPUTE_PASSES_H
