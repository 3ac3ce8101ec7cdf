//===- InstructionKernels.h - Instructions by the runtime's own kernels ---===//
//
// What an instruction's table says, in the structures that the kernels of
// kernels/ take, and which of them it launches. Needs no GPU: pointers in the
// structures are null as yet.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_INSTRUCTIONKERNELS_H
#define CLEAVE_RUNTIME_CUDA_INSTRUCTIONKERNELS_H

#include "runtime/cuda/kernels/Launches.h"
#include "runtime/program/program_generated.h"

namespace cleave::runtime::cuda {

/// Of Attention or AttentionGrad.
template <typename Table>
cleave::cuda::AttentionSizes getSizes(const Table &table) {
  return {table.batch(),        table.seq(),           table.heads(),
          table.kv_heads(),     table.head_dim(),      table.window(),
          float(table.scale()), float(table.softcap())};
}

/// Of Embedding or EmbeddingGrad.
template <typename Params, typename Table>
Params getRowParams(const Table &table, int64_t shardIndex) {
  Params params{};
  params.rows = table.rows();
  params.width = table.width();
  params.tableRows = table.table_rows();
  params.first = shardIndex * table.table_rows();
  return params;
}

cleave::cuda::CopyRowsParams getParams(const program::Slice &table,
                                       uint64_t shards);

/// The launches of an instruction that our kernels compute, or a part of it:
/// attention where it is not cuDNN's, and conversions of what cuBLASLt is
/// given. None of any other, such as a `Launch`, whose kernel is generated, a
/// collective, or an attention that there is no kernel for.
std::vector<cleave::cuda::KernelLaunch>
getOwnLaunches(const program::Instruction &instruction);

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_INSTRUCTIONKERNELS_H
