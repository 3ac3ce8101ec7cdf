//===- MeasureGpu.h - What this machine's GPU takes -----------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_MEASUREGPU_H
#define CLEAVE_TOOLS_CLEAVE_MEASUREGPU_H

#include "cleave/Calibrate/Fit.h"
#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/Driver.h"
#include <functional>

namespace cleave::tool {

/// The first GPU of this machine, for measurements. Calls are measured as a
/// step runs them: many of them as one CUDA graph, with operands that come from
/// memory.
class Gpu {
public:
  /// Fails where there is none, or a library is missing.
  static runtime::Status open(std::unique_ptr<Gpu> &gpu);
  ~Gpu();

  const std::string &getName() const { return context->getName(); }

  /// Products of layers as matrix units are fitted to, but those of more than
  /// `mostFlops`: each by the fastest algorithm that the library offers.
  runtime::Status measureMatmuls(DType dtype, double mostFlops,
                                 std::vector<MatmulSample> &samples);
  /// byte/s of a large copy, what is read and what is written.
  runtime::Status measureStream(double &rate);

private:
  using Enqueue = std::function<runtime::Status(int call)>;

  runtime::Status open();
  runtime::Status measure(int calls, const Enqueue &enqueue, double &seconds);
  runtime::Status allocate(uint64_t bytes, runtime::cuda::DeviceMemory &memory);

  const runtime::cuda::Driver *driver = nullptr;
  const runtime::cuda::CublasLt *cublasLt = nullptr;
  std::unique_ptr<runtime::cuda::Context> context;
  void *matmulHandle = nullptr;
  runtime::cuda::Handle stream, begin, end;
  runtime::cuda::DeviceMemory workspace;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_MEASUREGPU_H
