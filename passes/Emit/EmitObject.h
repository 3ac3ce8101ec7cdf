//===- EmitObject.h - Kernels and program as one object file --------------===//
#ifndef CLEAVE_PASSES_EMIT_EMITOBJECT_H
#define CLEAVE_PASSES_EMIT_EMITOBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Emit/EmitPtx.h"
#include "runtime/program/program_generated.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace cleave::emit {

/// A CPU by its name, and what kernels for it need at run time.
struct TargetCpu {
  std::string name;
  program::Isa isa = program::Isa::Avx2;
};

/// What `cpu` names (see ObjectOptions). Emits an error at `module` and fails
/// for one that LLVM does not know or that has no AVX2.
mlir::FailureOr<TargetCpu> getTargetCpu(mlir::ModuleOp module,
                                        llvm::StringRef cpu);

struct ObjectOptions {
  /// An x86-64 CPU with AVX2 and FMA as LLVM names it ("znver5",
  /// "x86-64-v3"), or "native": the one that compiles.
  std::string cpu = "native";
  /// What `cleave_program` holds.
  llvm::ArrayRef<uint8_t> program;
  /// What `cleave_cuda_code` says; null: nothing.
  const CudaCode *cuda = nullptr;
};

/// Compiles every `exec.kernel` of `kernels` (left as it is) into one
/// relocatable ELF object that defines what runtime/abi/Kernel.h declares.
/// Kernels are named by their symbols; the functions themselves are local.
/// The object is position independent and refers to no other symbol.
/// Emits an error and fails where a kernel or the CPU is not supported.
mlir::FailureOr<llvm::SmallVector<char, 0>>
emitObject(mlir::ModuleOp kernels, const ObjectOptions &options);

/// The same, stopping before code generation: LLVM IR as text, optimized.
mlir::FailureOr<std::string> emitLLVMIR(mlir::ModuleOp kernels,
                                        const ObjectOptions &options);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_EMITOBJECT_H
