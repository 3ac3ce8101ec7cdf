//===- Emulator.h - The runtime's CUDA kernels on the CPU -----------------===//
//
// The kernels are compiled for the host, and a block's threads are fibers. What
// Device.h declares for the host is defined here, after the PTX ISA. Mistakes
// that a GPU would let pass end the test: threads of a warp that wait for each
// other in different places, addresses that are not aligned or outside the
// block's shared memory, and ldmatrix with bank conflicts. Shared memory begins
// as NaNs, and a copy is done when it is waited for, no earlier.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_CUDA_KERNELS_EMULATOR_H
#define CLEAVE_TEST_RUNTIME_CUDA_KERNELS_EMULATOR_H

#include "runtime/cuda/kernels/Launches.h"

#include <functional>

namespace cleave::cuda {

/// Runs `thread` for each thread of the launch, block by block.
void emulate(const KernelLaunch &launch, const std::function<void()> &thread);

/// The kernel of that name in this executable.
void *findKernel(const std::string &symbol);

template <class Params>
void emulate(const std::vector<KernelLaunch> &launches, const Params &params) {
  for (const KernelLaunch &launch : launches) {
    auto *kernel =
        reinterpret_cast<void (*)(Params)>(findKernel(launch.symbol));
    emulate(launch, [&] { kernel(params); });
  }
}

} // namespace cleave::cuda

#endif // CLEAVE_TEST_RUNTIME_CUDA_KERNELS_EMULATOR_H
