//===- EmitCpu.h - Kernels as x86-64 functions ----------------------------===//
#ifndef CLEAVE_PASSES_EMIT_EMITCPU_H
#define CLEAVE_PASSES_EMIT_EMITCPU_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/Emit/KernelInfo.h"

namespace cleave::emit {

/// Replaces `kernel` by an `llvm.func` of its name with the C ABI of
/// runtime/abi/Kernel.h, whose body is of llvm, arith, math and scf ops on
/// vectors of up to `lanes` elements. An element's value does not depend
/// on the range that a call is given. Emits an error and fails on a kernel
/// that has no lowering.
mlir::FailureOr<mlir::LLVM::LLVMFuncOp> emitCpuKernel(exec::KernelOp kernel,
                                                      int64_t lanes);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_EMITCPU_H
