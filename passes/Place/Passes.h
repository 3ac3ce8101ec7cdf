//===- Passes.h - From a training step to a placed one --------------------===//
#ifndef CLEAVE_PASSES_PLACE_PASSES_H
#define CLEAVE_PASSES_PLACE_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/xf/Xf.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Place/Passes.h.inc"

} // namespace cleave

#endif // CLEAVE_PASSES_PLACE_PASSES_H
