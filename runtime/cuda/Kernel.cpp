//===- Kernel.cpp ---------------------------------------------------------===//
#include "runtime/cuda/Kernel.h"
#include "runtime/cuda/kernels/Images.h"
#include <algorithm>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

Status Kernel::launch(const Driver &driver, void **parameters,
                      void *stream) const {
  CLEAVE_CUDA(driver, launchKernel(function, grid[0], grid[1], grid[2],
                                   block[0], block[1], block[2], sharedBytes,
                                   stream, parameters, nullptr));
  return Status();
}

Status cuda::loadCode(const Context &context, const char *chip,
                      const void *cubin, const void *ptx, const char *what,
                      Handle &module) {
  // A driver that is older than what made the machine code refuses that, and
  // may take the PTX.
  if (cubin && context.getChip() == chip &&
      context.loadModule(cubin, module).ok())
    return Status();
  Status status = context.loadModule(ptx, module);
  if (status.ok())
    return status;
  return Status::error(std::string(what) + ", compiled for " + chip +
                       ", cannot be loaded on " + context.getName() + " (" +
                       context.getChip() + "): " + status.message());
}

Status OwnKernels::load(const Context &context, OwnKernels &kernels) {
  kernels.context = &context;
  using namespace cleave::cuda;
  return loadCode(context, "sm_90", kernelCubinBytes ? kernelCubin : nullptr,
                  kernelPtx, "the runtime's code", kernels.module);
}

Status OwnKernels::find(const std::vector<cleave::cuda::KernelLaunch> &launches,
                        std::vector<Kernel> &kernels) const {
  for (const cleave::cuda::KernelLaunch &launch : launches) {
    Kernel kernel;
    CLEAVE_RETURN_IF_ERROR(
        context->getFunction(module, launch.symbol.c_str(), kernel.function));
    std::copy_n(launch.grid, 3, kernel.grid);
    std::copy_n(launch.block, 3, kernel.block);
    kernel.sharedBytes = launch.sharedBytes;
    constexpr unsigned sharedByDefault = 48 << 10;
    if (kernel.sharedBytes > context->getMostShared())
      return Status::error(
          "the kernel " + launch.symbol + " takes " +
          std::to_string(kernel.sharedBytes) +
          " bytes of shared memory a block, and " + context->getName() +
          " has " + std::to_string(context->getMostShared()) +
          ": in bf16 cuDNN may compute this attention, and --device cpu "
          "computes any");
    if (kernel.sharedBytes > sharedByDefault)
      CLEAVE_CUDA(getDriver(),
                  funcSetAttribute(kernel.function, attributeMaxDynamicShared,
                                   int(kernel.sharedBytes)));
    kernels.push_back(kernel);
  }
  return Status();
}
