//===- RuntimeKernels.h - Twins of the runtime's own kernels --------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_RUNTIMEKERNELS_H
#define CLEAVE_TEST_CUDA_DRIVER_RUNTIMEKERNELS_H

#include "test/cuda/driver/Engine.h"

namespace cleave::simulated {

/// By the name of a kernel of runtime/cuda/kernels; null for any other name.
std::shared_ptr<const Function> findRuntimeKernel(const std::string &name);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_RUNTIMEKERNELS_H
