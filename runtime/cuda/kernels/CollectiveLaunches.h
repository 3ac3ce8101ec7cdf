//===- CollectiveLaunches.h - How kernels of Collectives.cu are launched --===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_COLLECTIVELAUNCHES_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_COLLECTIVELAUNCHES_H

#include "runtime/cuda/kernels/Launches.h"

namespace cleave::cuda {

/// Of ConvertParams, ReduceParams and CopyPartsParams.
std::vector<KernelLaunch> getConvertLaunches(int64_t elements);
std::vector<KernelLaunch> getReduceLaunches(int64_t elements,
                                            cpu::ElementType type, bool isMax);
std::vector<KernelLaunch> getCopyPartsLaunches(const CopyPartsParams &params);

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_COLLECTIVELAUNCHES_H
