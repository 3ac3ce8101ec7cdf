//===- InstructionKernels.cpp ---------------------------------------------===//
#include "runtime/cuda/InstructionKernels.h"
#include "runtime/cuda/kernels/CollectiveLaunches.h"
#include "runtime/program/Program.h"

using namespace cleave::runtime;
using namespace cleave::cuda;
namespace fb = cleave::program;

static ElementType convert(fb::DType type) { return ElementType(type); }

CopyRowsParams cuda::getParams(const fb::Slice &table, uint64_t shards) {
  CopyRowsParams params{};
  params.outer = table.outer();
  params.bytes = table.inner() * int64_t(getBytes(table.type()));
  params.inStride = params.bytes * int64_t(shards);
  params.outStride = params.bytes;
  return params;
}

std::vector<KernelLaunch>
cuda::getOwnLaunches(const fb::Instruction &instruction) {
  switch (instruction.work_type()) {
  case fb::Opcode::Gemm: {
    // cuBLASLt adds a bias of C's type, and ours are f32.
    const fb::Gemm &gemm = *instruction.work_as_Gemm();
    if (!gemm.has_bias() || gemm.type_c() != fb::DType::BF16)
      return {};
    return getConvertLaunches(gemm.n());
  }
  case fb::Opcode::Attention: {
    const fb::Attention &table = *instruction.work_as_Attention();
    if (!hasAttention(getSizes(table)))
      return {};
    return getAttentionLaunches(getSizes(table), convert(table.type()));
  }
  case fb::Opcode::AttentionGrad: {
    const fb::AttentionGrad &table = *instruction.work_as_AttentionGrad();
    if (!hasAttention(getSizes(table)))
      return {};
    return getAttentionGradLaunches(getSizes(table), convert(table.type()));
  }
  case fb::Opcode::Embedding: {
    const fb::Embedding &table = *instruction.work_as_Embedding();
    return getEmbeddingLaunches(getRowParams<EmbeddingParams>(table, 0),
                                convert(table.type_table()),
                                convert(table.type_out()));
  }
  case fb::Opcode::EmbeddingGrad: {
    const fb::EmbeddingGrad &table = *instruction.work_as_EmbeddingGrad();
    return getEmbeddingGradLaunches(getRowParams<EmbeddingGradParams>(table, 0),
                                    convert(table.type_dout()),
                                    convert(table.type_dtable()));
  }
  case fb::Opcode::Slice: {
    // One row is a copy of the driver's.
    const fb::Slice &table = *instruction.work_as_Slice();
    if (table.outer() == 1)
      return {};
    return getCopyRowsLaunches(getParams(table, 1));
  }
  default:
    return {};
  }
}
