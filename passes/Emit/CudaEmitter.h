//===- CudaEmitter.h - What all modes of CUDA kernels share ---------------===//
#ifndef CLEAVE_PASSES_EMIT_CUDAEMITTER_H
#define CLEAVE_PASSES_EMIT_CUDAEMITTER_H

#include "passes/Emit/CudaLayout.h"
#include "passes/Emit/KernelEmitter.h"

namespace cleave::emit {

/// Writes the prologue of a kernel; a mode adds the walk over the space. All
/// threads run through it, and all orders are fixed, so that results do not
/// vary from run to run.
class CudaEmitter : protected KernelEmitter {
public:
  CudaEmitter(KernelInfo &info, mlir::OpBuilder &b, mlir::LLVM::LLVMFuncOp func,
              const CudaLayout &layout)
      : KernelEmitter(info, b, func.getLoc(),
                      layout.vector == 1 ? 0 : layout.vector, /*hasBf16=*/true),
        layout(layout), func(func) {
    vectorAlignment = CudaLayout::accessBytes;
  }
  virtual ~CudaEmitter() = default;

  void emit();

protected:
  static constexpr int64_t warp = CudaLayout::warp;
  static constexpr int64_t accessBytes = CudaLayout::accessBytes;

  virtual void emitSpace() = 0;

  mlir::Value call(llvm::StringRef intrinsic, mlir::Type result,
                   mlir::ValueRange operands);
  void barrier();
  /// Static shared memory of so many f32, once a kernel.
  void allocateShared(int64_t elements);
  mlir::Value sharedAddress(mlir::Value index);
  /// Whether `value`, an i64, is zero.
  mlir::Value isZero(mlir::Value value);

  const CudaLayout &layout;
  mlir::Value thread, block; // i64
  mlir::Value scratch;       // column: where parts meet

private:
  void emitPrologue();
  void setArguments(mlir::ValueRange arguments);
  llvm::SmallVector<mlir::Value> loadArguments(mlir::Value table,
                                               mlir::Value microBatch);
  mlir::Value getRegister(llvm::StringRef name);

  mlir::LLVM::LLVMFuncOp func;
  mlir::LLVM::GlobalOp shared;
};

void emitCudaRows(KernelInfo &info, mlir::OpBuilder &b,
                  mlir::LLVM::LLVMFuncOp func, const CudaLayout &layout);
void emitCudaElements(KernelInfo &info, mlir::OpBuilder &b,
                      mlir::LLVM::LLVMFuncOp func, const CudaLayout &layout);
void emitCudaColumns(KernelInfo &info, mlir::OpBuilder &b,
                     mlir::LLVM::LLVMFuncOp func, const CudaLayout &layout);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_CUDAEMITTER_H
