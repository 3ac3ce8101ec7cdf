//===- Passes.h - Communication beside compute ----------------------------===//
#ifndef CLEAVE_PASSES_OVERLAP_PASSES_H
#define CLEAVE_PASSES_OVERLAP_PASSES_H

#include "dialects/exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_PASSES_H
