//===- Instructions.cpp - What each opcode does ---------------------------===//
#include "runtime/cpu/Attention.h"
#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/Gemm.h"
#include "runtime/executor/Stream.h"
#include <cstring>

using namespace cleave::runtime;
namespace fb = cleave::program;
using cleave::cpu::ElementType;

static_assert(int(fb::DType::F32) == int(ElementType::F32) &&
                  int(fb::DType::BF16) == int(ElementType::BF16) &&
                  int(fb::DType::I32) == int(ElementType::I32),
              "the program's type codes are the kernels'");

std::byte *Stream::get(const BoundInstruction &bound, size_t i) {
  const fb::Operand &operand = bound.operands[i];
  uint64_t offset = getPlace(operand, current.microBatch);
  highWater = std::max(highWater, offset + operand.bytes());
  return arena + offset;
}

Status Stream::dispatch(const BoundInstruction &bound) {
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
  }
  return Status::error("unknown opcode " + std::to_string(int(bound.opcode)));
}

void Stream::launch(const BoundInstruction &bound) {
  for (size_t i = 0; i < bound.operands.size(); ++i)
    buffers[i] = get(bound, i);
  const int64_t params[] = {bound.shardIndex, current.isFirst ? 0 : 1};
  pool.parallelFor(0, bound.rows, bound.grain,
                   [&](int64_t begin, int64_t end, int) {
                     bound.kernel(buffers.data(), params, begin, end);
                   });
}

void Stream::gemm(const BoundInstruction &bound) {
  auto ints = bound.ints;
  bool hasBias = ints[9] != 0;
  cpu::GemmArgs args{};
  args.m = ints[0];
  args.n = ints[1];
  args.k = ints[2];
  args.transA = ints[3] != 0;
  args.transB = ints[4] != 0;
  args.typeA = ElementType(ints[5]);
  args.typeB = ElementType(ints[6]);
  args.typeC = ElementType(ints[7]);
  args.a = get(bound, 0);
  args.b = get(bound, 1);
  args.bias = hasBias ? getAs<const float>(bound, 2) : nullptr;
  args.c = get(bound, 2 + hasBias);
  args.accumulate = accumulates(ints[8]);
  cpu::gemm(args, get(bound, 3 + hasBias), pool);
}

static cleave::cpu::AttentionShape
getAttentionShape(std::span<const int64_t> ints,
                  std::span<const double> floats) {
  return {ints[0],
          ints[1],
          ints[2],
          ints[3],
          ints[4],
          ints[5],
          ElementType(ints[6]),
          float(floats[0]),
          float(floats[1])};
}

void Stream::attention(const BoundInstruction &bound) {
  cpu::AttentionArgs args{};
  args.shape = getAttentionShape(bound.ints, bound.floats);
  args.q = get(bound, 0);
  args.k = get(bound, 1);
  args.v = get(bound, 2);
  args.out = get(bound, 3);
  args.lse = getAs<float>(bound, 4);
  cpu::attention(args, get(bound, 5), pool);
}

void Stream::attentionGrad(const BoundInstruction &bound) {
  cpu::AttentionGradArgs args{};
  args.shape = getAttentionShape(bound.ints, bound.floats);
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

void Stream::embedding(const BoundInstruction &bound) {
  cpu::EmbeddingArgs args{};
  args.rows = bound.ints[0];
  args.width = bound.ints[1];
  args.tableRows = bound.ints[2];
  args.first = bound.shardIndex * args.tableRows;
  args.typeTable = ElementType(bound.ints[3]);
  args.typeOut = ElementType(bound.ints[4]);
  args.ids = getAs<const int32_t>(bound, 0);
  args.table = get(bound, 1);
  args.out = get(bound, 2);
  cpu::embedding(args, pool);
}

void Stream::embeddingGrad(const BoundInstruction &bound) {
  cpu::EmbeddingGradArgs args{};
  args.rows = bound.ints[0];
  args.width = bound.ints[1];
  args.tableRows = bound.ints[2];
  args.first = bound.shardIndex * args.tableRows;
  args.typeDout = ElementType(bound.ints[3]);
  args.typeDtable = ElementType(bound.ints[4]);
  args.ids = getAs<const int32_t>(bound, 0);
  args.dout = get(bound, 1);
  args.dtable = get(bound, 2);
  args.accumulate = accumulates(bound.ints[5]);
  cpu::embeddingGrad(args, pool);
}

void Stream::slice(const BoundInstruction &bound) {
  int64_t outer = bound.ints[0];
  int64_t bytes =
      bound.ints[1] * int64_t(getElementBytes(ElementType(bound.ints[2])));
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

void Stream::schedule(const BoundInstruction &bound) {
  const float values[4] = {
      float(runtime::getLearningRate(bound.schedule, current.step)),
      float(getBiasCorrection(bound.schedule.beta1, current.updates)),
      float(getBiasCorrection(bound.schedule.beta2, current.updates)), 0.0f};
  std::memcpy(get(bound, 0), values, sizeof(values));
}

Status Stream::collective(const BoundInstruction &bound) {
  auto ints = bound.ints;
  const std::byte *in = get(bound, 0);
  std::byte *out = get(bound, 1);
  switch (bound.opcode) {
  case fb::Opcode::AllReduce:
    return communicator.allReduce(*bound.group, in, out, uint64_t(ints[0]),
                                  ElementType(ints[1]), Reduction(ints[2]));
  case fb::Opcode::AllGather:
    return communicator.allGather(*bound.group, in, out, uint64_t(ints[0]),
                                  uint64_t(ints[1]) *
                                      getElementBytes(ElementType(ints[2])));
  case fb::Opcode::ReduceScatter:
    return communicator.reduceScatter(*bound.group, in, out, uint64_t(ints[0]),
                                      uint64_t(ints[1]), ElementType(ints[2]),
                                      Reduction(ints[3]));
  default:
    return communicator.allToAll(
        *bound.group, in, out,
        {uint64_t(ints[0]), uint64_t(ints[1]), uint64_t(ints[2]),
         uint64_t(ints[3]), uint64_t(ints[4]),
         getElementBytes(ElementType(ints[5])), ints[6] != 0});
  }
}
