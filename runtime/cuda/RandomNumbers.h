//===- RandomNumbers.h - What products are timed with ---------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_RANDOMNUMBERS_H
#define CLEAVE_RUNTIME_CUDA_RANDOMNUMBERS_H

#include "runtime/cuda/Driver.h"

namespace cleave::runtime::cuda {

/// Fills the memory with numbers of mean 0 and deviation 1, be they read as
/// bf16 or as f32: always the same ones, and again behind each MiB. How fast a
/// GPU multiplies depends on the power that it draws, and that on how many bits
/// change: with one number everywhere, it would be faster than in training.
Status fillWithRandomNumbers(const Driver &driver, const DeviceMemory &memory,
                             void *stream);

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_RANDOMNUMBERS_H
