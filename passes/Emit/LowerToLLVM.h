//===- LowerToLLVM.h - Emitted kernels to the llvm dialect ----------------===//
#ifndef CLEAVE_PASSES_EMIT_LOWERTOLLVM_H
#define CLEAVE_PASSES_EMIT_LOWERTOLLVM_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::emit {

/// Rewrites the scf, arith and math ops in the `llvm.func`s of `module`
/// into llvm ops.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_LOWERTOLLVM_H
