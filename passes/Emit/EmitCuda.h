//===- EmitCuda.h - Kernels as NVPTX functions ----------------------------===//
#ifndef CLEAVE_PASSES_EMIT_EMITCUDA_H
#define CLEAVE_PASSES_EMIT_EMITCUDA_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/Emit/KernelInfo.h"
#include "runtime/abi/Kernel.h"
#include <string>

namespace cleave::emit {

/// How a CUDA kernel is launched. Its parameters are one 64-bit address per
/// operand, inputs then outputs, then the shard index and the micro-batch
/// index as 64-bit integers, then the address of scratch memory. One launch
/// covers the whole space. Operands start at multiples of 16 bytes, those of
/// integers at multiples of 4. Shared memory is static.
struct CudaLaunch {
  std::string symbol;
  /// A kernel that is several launches of this one at once; empty: there is
  /// none. See CleaveCudaKernel.
  std::string multiSymbol;
  unsigned operands;
  /// Thread blocks, and threads of a block; both one-dimensional.
  unsigned blocks, threads;
  /// Of scratch memory, where blocks meet; 0: none. Its first
  /// CLEAVE_CUDA_COUNTER_BYTES are zero before a launch and after it.
  uint64_t scratchBytes;
};

/// What `CudaLaunch::multiSymbol` is of a kernel that has one.
std::string getMultiSymbol(llvm::StringRef symbol);

/// Replaces `kernel` by an `llvm.func` of its name with the PTX kernel calling
/// convention, whose body is of llvm, arith, math and scf ops and NVVM
/// intrinsics. `isRepeated`: there are launches of it that may be one, so it
/// gets the kernel for several, too. Emits an error and fails on a kernel that
/// has no lowering.
mlir::FailureOr<CudaLaunch> emitCudaKernel(exec::KernelOp kernel,
                                           bool isRepeated);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_EMITCUDA_H
