//===- Launches.h - Which kernels an instruction takes --------------------===//
//
// What the host has to know of the kernels of this folder, without CUDA. The
// launches of one instruction run in order on one stream, and each gets the
// instruction's parameters by value. The last one's kernel is the one that
// Kernels.h names; the others' names begin with `cleave_part_`.
//
// The functions look at the sizes among the parameters only, so that pointers
// may be null as yet. Without work there is no launch.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_LAUNCHES_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_LAUNCHES_H

#include "runtime/abi/Workspace.h"
#include "runtime/cuda/kernels/Kernels.h"

#include <string>
#include <vector>

namespace cleave::cuda {

using cpu::ElementType;

struct KernelLaunch {
  std::string symbol;
  unsigned grid[3], block[3];
  /// Dynamic shared memory; above 48 KiB the kernel's attribute has to allow
  /// it.
  unsigned sharedBytes;
};

std::vector<KernelLaunch> getEmbeddingLaunches(const EmbeddingParams &params,
                                               ElementType typeTable,
                                               ElementType typeOut);

std::vector<KernelLaunch>
getEmbeddingGradLaunches(const EmbeddingGradParams &params,
                         ElementType typeDout, ElementType typeDtable);
/// Bytes of an EmbeddingGrad's scratch, which is aligned to 256 bytes.
size_t getEmbeddingGradScratch(int64_t rows, int64_t tableRows);

std::vector<KernelLaunch> getCopyRowsLaunches(const CopyRowsParams &params);

/// Whether there are kernels for these sizes: head dims up to 256. Those of
/// bf16 by tensor cores take multiples of 8, and arrays aligned to 16 bytes.
bool hasAttention(const AttentionSizes &sizes);

std::vector<KernelLaunch> getAttentionLaunches(const AttentionSizes &sizes,
                                               ElementType type);

std::vector<KernelLaunch> getAttentionGradLaunches(const AttentionSizes &sizes,
                                                   ElementType type);
/// Bytes of an AttentionGrad's scratch, aligned to 16 bytes: a number for each
/// query of each head.
size_t getAttentionGradScratch(const AttentionSizes &sizes);

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_LAUNCHES_H
