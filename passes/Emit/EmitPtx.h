//===- EmitPtx.h - Kernels as PTX and cubin -------------------------------===//
#ifndef CLEAVE_PASSES_EMIT_EMITPTX_H
#define CLEAVE_PASSES_EMIT_EMITPTX_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Emit/EmitCuda.h"
#include "llvm/Support/Error.h"
#include <array>
#include <memory>
#include <optional>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace cleave::emit {

struct PtxOptions {
  std::string chip = "sm_90";
  /// PTX version 8.0, which drivers of CUDA 12.0 and later read.
  std::string features = "+ptx80";
};

struct PtxModule {
  std::string text;
  llvm::SmallVector<CudaLaunch> launches;
};

/// Compiles every `exec.kernel` of `kernels` (left as it is) into one PTX
/// module that refers to no other. Emits an error and fails where a kernel is
/// not supported.
mlir::FailureOr<PtxModule> emitPtx(mlir::ModuleOp kernels,
                                   const PtxOptions &options);

/// The same, stopping before code generation: LLVM IR with NVVM intrinsics,
/// optimized.
mlir::FailureOr<std::unique_ptr<llvm::Module>>
emitCudaLLVM(mlir::ModuleOp kernels, const PtxOptions &options,
             llvm::LLVMContext &context,
             llvm::SmallVectorImpl<CudaLaunch> &launches);

/// Where ptxas is: $CLEAVE_PTXAS, whatever is there, or else the first one that
/// there is of $CUDA_HOME/bin, PATH, /usr/local/cuda/bin.
std::optional<std::string> findPtxas();

struct Cubin {
  llvm::SmallVector<char, 0> bytes;
  /// What `ptxas -v` says of registers, spills and shared memory.
  std::string report;
};

/// ptxas is older than the chip, or than the PTX.
class OldPtxasError : public llvm::ErrorInfo<OldPtxasError> {
public:
  static char ID;
  explicit OldPtxasError(std::string message) : message(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }

private:
  std::string message;
};

/// Assembles PTX for the chip. Where ptxas refuses it since it is too old, the
/// error is an OldPtxasError.
llvm::Expected<Cubin> assemblePtx(llvm::StringRef ptx, llvm::StringRef chip,
                                  llvm::StringRef ptxas);

/// What an executable has for GPUs: PTX, and where there is a ptxas that is new
/// enough a cubin, which needs no compiler when it is loaded.
struct CudaCode {
  std::string chip;
  std::array<double, 2> peakFlops = {}; ///< of a GPU, in f32 and bf16
  PtxModule ptx;
  Cubin cubin;
  std::string note; ///< for the user, a sentence; or empty
};

/// Compiles every `exec.kernel` of `kernels` (left as it is). Emits an error
/// and fails where a kernel is not supported, or where a ptxas refuses one that
/// is not too old for it.
mlir::FailureOr<CudaCode> emitCudaCode(mlir::ModuleOp kernels,
                                       const PtxOptions &options);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_EMITPTX_H
