//===- Passes.h - From local tensors to instructions ----------------------===//
#ifndef CLEAVE_PASSES_KERNELS_PASSES_H
#define CLEAVE_PASSES_KERNELS_PASSES_H

#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Kernels/Passes.h.inc"
} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_PASSES_H
