//===- Images.h - The runtime's own CUDA kernels, compiled ----------------===//
//
// Kernels.cmake has them written. One module holds all kernels.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_IMAGES_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_IMAGES_H

#include <stddef.h>

namespace cleave::cuda {

/// PTX for sm_90 and later, with the zero that ends it. The text is empty where
/// the build had no clang that compiles for NVIDIA's GPUs.
extern const unsigned char kernelPtx[] __asm__("cleave_kernel_ptx");
extern const size_t kernelPtxBytes __asm__("cleave_kernel_ptx_bytes");

/// The same for sm_90, assembled; no bytes where the build had no ptxas.
extern const unsigned char kernelCubin[] __asm__("cleave_kernel_cubin");
extern const size_t kernelCubinBytes __asm__("cleave_kernel_cubin_bytes");

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_IMAGES_H
