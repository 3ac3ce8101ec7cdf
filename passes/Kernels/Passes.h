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
/// That a kernel may read and write: a launch hands over 4,352 bytes of
/// arguments on any GPU (CUDA C++ Programming Guide, 12.5), and each takes 8.
constexpr size_t mostKernelTensors = 512;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Kernels/Passes.h.inc"
} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_PASSES_H
