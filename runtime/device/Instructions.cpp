//===- Instructions.cpp - What each opcode does ---------------------------===//
#include "runtime/cpu/Attention.h"
#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/Gemm.h"
#include "runtime/device/Stream.h"
#include <cstring>

using namespace cleave::runtime;
namespace fb = cleave::program;
using cleave::cpu::ElementType;

static_assert(int(fb::DType::F32) == int(ElementType::F32) &&
                  int(fb::DType::BF16) == int(ElementType::BF16) &&
                  int(fb::DType::I32) == int(ElementType::I32),
              "the program's type codes are the kernels'");
static_assert(int(fb::Reduction::Sum) == int(Reduction::Sum) &&
                  int(fb::Reduction::Max) == int(Reduction::Max),
              "the program's reductions are the communicator's");

std::byte *Stream::get(const CpuInstruction &bound, size_t i) {
  const fb::Operand &operand = bound.operands[i];
  return arena + getPlace(operand, current.microBatch);
}

Status Stream::dispatch(const CpuInstruction &bound) {
  switch (bound.opcode) {
  case fb::Opcode::Launch:
    launch(bound);
    return {};
  case fb::Opcode::Gemm:
    gemm(bound);
    return {};
  case fb::Opcode::Attention:
    attention(bound);
    return {};
  case fb::Opcode::AttentionGrad:
    attentionGrad(bound);
    return {};
  case fb::Opcode::Embedding:
    embedding(bound);
    return {};
  case fb::Opcode::EmbeddingGrad:
    embeddingGrad(bound);
    return {};
  case fb::Opcode::Fill:
    cpu::fillZero(get(bound, 0), int64_t(bound.operands[0].bytes()), pool);
    return {};
  case fb::Opcode::Copy:
    cpu::copyBytes(get(bound, 0), get(bound, 1),
                   int64_t(bound.operands[0].bytes()), pool);
    return {};
  case fb::Opcode::AllReduce:
  case fb::Opcode::AllGather:
  case fb::Opcode::ReduceScatter:
  case fb::Opcode::AllToAll:
    return collective(bound);
  case fb::Opcode::Slice:
    slice(bound);
    return {};
  case fb::Opcode::Schedule:
    schedule(bound);
    return {};
  case fb::Opcode::Send:
    return communicator.send(bound.peer, bound.channel, get(bound, 0),
                             bound.operands[0].bytes());
  case fb::Opcode::Recv:
    return communicator.receive(bound.peer, bound.channel, get(bound, 0),
                                bound.operands[0].bytes());
  case fb::Opcode::NONE:
    break;
  }
  return Status::error("unknown opcode " + std::to_string(int(bound.opcode)));
}

void Stream::launch(const CpuInstruction &bound) {
  for (size_t i = 0; i < bound.operands.size(); ++i)
    buffers[i] = get(bound, i);
  const int64_t params[] = {bound.shardIndex, current.isFirst ? 0 : 1};
  pool.parallelFor(0, bound.range, bound.grain,
                   [&](int64_t begin, int64_t end, int) {
                     bound.kernel(buffers.data(), params, begin, end);
                   });
}

static ElementType convert(fb::DType type) { return ElementType(type); }

void Stream::gemm(const CpuInstruction &bound) {
  const fb::Gemm &gemm = *bound.instruction->work_as_Gemm();
  bool hasBias = gemm.has_bias();
  cpu::GemmArgs args{};
  args.m = gemm.m();
  args.n = gemm.n();
  args.k = gemm.k();
  args.transA = gemm.trans_a();
  args.transB = gemm.trans_b();
  args.typeA = convert(gemm.type_a());
  args.typeB = convert(gemm.type_b());
  args.typeC = convert(gemm.type_c());
  args.a = get(bound, 0);
  args.b = get(bound, 1);
  args.bias = hasBias ? getAs<const float>(bound, 2) : nullptr;
  args.c = get(bound, 2 + hasBias);
  args.accumulate = accumulates(gemm.accumulate(), current.isFirst);
  cpu::gemm(args, get(bound, 3 + hasBias), pool);
}

/// Of Attention or AttentionGrad.
template <typename Table>
static cleave::cpu::AttentionShape getAttentionShape(const Table &table) {
  return {table.batch(),         table.seq(),          table.heads(),
          table.kv_heads(),      table.head_dim(),     table.window(),
          convert(table.type()), float(table.scale()), float(table.softcap())};
}

void Stream::attention(const CpuInstruction &bound) {
  cpu::AttentionArgs args{};
  args.shape = getAttentionShape(*bound.instruction->work_as_Attention());
  args.q = get(bound, 0);
  args.k = get(bound, 1);
  args.v = get(bound, 2);
  args.out = get(bound, 3);
  args.lse = getAs<float>(bound, 4);
  cpu::attention(args, get(bound, 5), pool);
}

void Stream::attentionGrad(const CpuInstruction &bound) {
  cpu::AttentionGradArgs args{};
  args.shape = getAttentionShape(*bound.instruction->work_as_AttentionGrad());
  args.q = get(bound, 0);
  args.k = get(bound, 1);
  args.v = get(bound, 2);
  args.out = get(bound, 3);
  args.lse = getAs<const float>(bound, 4);
  args.dout = get(bound, 5);
  args.dq = get(bound, 6);
  args.dk = get(bound, 7);
  args.dv = get(bound, 8);
  cpu::attentionGrad(args, get(bound, 9), pool);
}

void Stream::embedding(const CpuInstruction &bound) {
  const fb::Embedding &embedding = *bound.instruction->work_as_Embedding();
  cpu::EmbeddingArgs args{};
  args.rows = embedding.rows();
  args.width = embedding.width();
  args.tableRows = embedding.table_rows();
  args.first = bound.shardIndex * args.tableRows;
  args.typeTable = convert(embedding.type_table());
  args.typeOut = convert(embedding.type_out());
  args.ids = getAs<const int32_t>(bound, 0);
  args.table = get(bound, 1);
  args.out = get(bound, 2);
  cpu::embedding(args, pool);
}

void Stream::embeddingGrad(const CpuInstruction &bound) {
  const fb::EmbeddingGrad &embedding =
      *bound.instruction->work_as_EmbeddingGrad();
  cpu::EmbeddingGradArgs args{};
  args.rows = embedding.rows();
  args.width = embedding.width();
  args.tableRows = embedding.table_rows();
  args.first = bound.shardIndex * args.tableRows;
  args.typeDout = convert(embedding.type_dout());
  args.typeDtable = convert(embedding.type_dtable());
  args.ids = getAs<const int32_t>(bound, 0);
  args.dout = get(bound, 1);
  args.dtable = get(bound, 2);
  args.accumulate = accumulates(embedding.accumulate(), current.isFirst);
  cpu::embeddingGrad(args, pool);
}

void Stream::slice(const CpuInstruction &bound) {
  const fb::Slice &slice = *bound.instruction->work_as_Slice();
  int64_t outer = slice.outer();
  int64_t bytes =
      slice.inner() * int64_t(getElementBytes(convert(slice.type())));
  const std::byte *in = get(bound, 0) + bound.shardIndex * bytes;
  std::byte *out = get(bound, 1);
  int64_t stride = bytes * int64_t(bound.shardCount);
  if (outer == 1) {
    cpu::copyBytes(in, out, bytes, pool);
    return;
  }
  int64_t grain = std::max<int64_t>(1, 65536 / bytes);
  pool.parallelFor(0, outer, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(out + i * bytes, in + i * stride, size_t(bytes));
  });
}

void Stream::schedule(const CpuInstruction &bound) {
  ScheduleValues values = getScheduleValues(bound, current.inputs);
  std::memcpy(get(bound, 0), values.values, sizeof(values.values));
}

/// The first, and those that begin together with it.
Status Stream::collective(const CpuInstruction &first) {
  if (first.opcode == fb::Opcode::AllToAll)
    return communicator.allToAll(
        *first.group, get(first, 0), get(first, 1),
        describeCollective(*first.instruction).exchange);
  std::vector<Collective> collectives;
  for (const CpuInstruction &bound : std::span(&first, first.bucket)) {
    Collective &each = collectives.emplace_back();
    static_cast<CollectiveWork &>(each) =
        describeCollective(*bound.instruction);
    each.in = get(bound, 0);
    each.out = get(bound, 1);
  }
  return communicator.runTogether(*first.group, collectives);
}
