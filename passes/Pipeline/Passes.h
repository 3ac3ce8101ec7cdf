//===- Passes.h - From one rank's step to those of pipeline stages --------===//
#ifndef CLEAVE_PASSES_PIPELINE_PASSES_H
#define CLEAVE_PASSES_PIPELINE_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/xf/Xf.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Pipeline/Passes.h.inc"

} // namespace cleave

#endif // CLEAVE_PASSES_PIPELINE_PASSES_H
