//===- CudaSimulator.h - CUDA kernels on the CPU --------------------------===//
#ifndef CLEAVE_TEST_PASSES_EMIT_CUDASIMULATOR_H
#define CLEAVE_TEST_PASSES_EMIT_CUDASIMULATOR_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Emit/EmitCuda.h"
#include <cstdint>
#include <string>

namespace cleave::test {

/// Runs the LLVM IR that would become PTX: each thread of a block is a fiber,
/// compiled for x86, that yields at every shuffle and barrier. So indices,
/// folds, masks and alignments are those of the GPU; its timing is not, nor are
/// the last bits of `ex2.approx` and `div.full`. Aborts where the threads of a
/// block do not meet at the same shuffle or barrier.
class CudaSimulator {
public:
  explicit CudaSimulator(mlir::ModuleOp kernels);
  ~CudaSimulator();

  /// Launches `symbol` on `operands`, addresses in this process.
  void launch(const std::string &symbol, llvm::ArrayRef<void *> operands,
              int64_t shardIndex, int64_t microBatch);

private:
  llvm::SmallVector<emit::CudaLaunch> launches;
  void *library = nullptr;
};

} // namespace cleave::test

#endif // CLEAVE_TEST_PASSES_EMIT_CUDASIMULATOR_H
