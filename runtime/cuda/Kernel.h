//===- Kernel.h - Kernels of a module, and how they are launched ----------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNEL_H
#define CLEAVE_RUNTIME_CUDA_KERNEL_H

#include "runtime/cuda/Driver.h"
#include "runtime/cuda/kernels/Launches.h"
#include <vector>

namespace cleave::runtime::cuda {

/// A kernel, and how it is launched.
struct Kernel {
  void *function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned sharedBytes = 0;

  /// cuLaunchKernel; `parameters` holds the address of each.
  Status launch(const Driver &driver, void **parameters, void *stream) const;
};

/// The runtime's own kernels (kernels/), on one GPU.
class OwnKernels {
public:
  static Status load(const Context &context, OwnKernels &kernels);

  /// What an instruction launches, one after the other.
  Status find(const std::vector<cleave::cuda::KernelLaunch> &launches,
              std::vector<Kernel> &kernels) const;
  const Driver &getDriver() const { return context->getDriver(); }

  /// Finds them and enqueues each with the same structure.
  template <typename Params>
  Status launch(const std::vector<cleave::cuda::KernelLaunch> &launches,
                Params params, void *stream) const {
    std::vector<Kernel> kernels;
    CLEAVE_RETURN_IF_ERROR(find(launches, kernels));
    void *parameters[] = {&params};
    for (const Kernel &kernel : kernels)
      CLEAVE_RETURN_IF_ERROR(kernel.launch(getDriver(), parameters, stream));
    return Status();
  }

private:
  const Context *context = nullptr;
  Handle module;
};

/// Loads the cubin where it is for the context's chip, else the PTX, which the
/// driver compiles. `what` it is, for messages.
Status loadCode(const Context &context, const char *chip, const void *cubin,
                const void *ptx, const char *what, Handle &module);

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNEL_H
