//===- LowerToLLVM.h - Emitted kernels to LLVM IR -------------------------===//
#ifndef CLEAVE_PASSES_EMIT_LOWERTOLLVM_H
#define CLEAVE_PASSES_EMIT_LOWERTOLLVM_H

#include "dialects/exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace cleave::emit {

/// Copies each `exec.kernel` of `kernels` into a module of its own, has `emit`
/// replace the copy by an `llvm.func` of llvm, scf, arith and math ops, and
/// translates the whole to LLVM IR for `machine`, optimized.
mlir::FailureOr<std::unique_ptr<llvm::Module>>
lowerKernels(mlir::ModuleOp kernels, llvm::LLVMContext &context,
             llvm::TargetMachine &machine,
             llvm::function_ref<mlir::LogicalResult(exec::KernelOp)> emit);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_LOWERTOLLVM_H
