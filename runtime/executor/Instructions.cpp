//===- Instructions.cpp - What each opcode does ---------------------------===//
#include "runtime/cpu/Attention.h"
#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/Gemm.h"
#include "runtime/executor/Executor.h"
#include <cstring>

using namespace cleave::runtime;
namespace fb = cleave::program;
using cleave::cpu::ElementType;

static_assert(int(fb::DType::F32) == int(ElementType::F32) &&
                  int(fb::DType::BF16) == int(ElementType::BF16) &&
                  int(fb::DType::I32) == int(ElementType::I32),
              "the program's type codes are the kernels'");

std::byte *Executor::get(const Step &step, size_t i) {
  const fb::Operand &operand = step.operands[i];
  uint64_t offset = getPlace(operand, microBatch);
  highWater = std::max(highWater, offset + operand.bytes());
  return arena.getData() + offset;
}

Status Executor::execute(const Step &step) {
  switch (step.opcode) {
  case fb::Opcode::Launch:
    launch(step);
    return {};
  case fb::Opcode::Gemm:
    gemm(step);
    return {};
  case fb::Opcode::Attention:
    attention(step);
    return {};
  case fb::Opcode::AttentionGrad:
    attentionGrad(step);
    return {};
  case fb::Opcode::Embedding:
    embedding(step);
    return {};
  case fb::Opcode::EmbeddingGrad:
    embeddingGrad(step);
    return {};
  case fb::Opcode::Fill:
    cpu::fillZero(get(step, 0), int64_t(step.operands[0].bytes()), pool);
    return {};
  case fb::Opcode::Copy:
    cpu::copyBytes(get(step, 0), get(step, 1),
                   int64_t(step.operands[0].bytes()), pool);
    return {};
  case fb::Opcode::AllReduce:
  case fb::Opcode::AllGather:
  case fb::Opcode::ReduceScatter:
  case fb::Opcode::AllToAll:
    return collective(step);
  case fb::Opcode::Slice:
    slice(step);
    return {};
  case fb::Opcode::Schedule:
    schedule(step);
    return {};
  case fb::Opcode::Send:
    return communicator.send(step.peer, step.channel, get(step, 0),
                             step.operands[0].bytes());
  case fb::Opcode::Recv:
    return communicator.receive(step.peer, step.channel, get(step, 0),
                                step.operands[0].bytes());
  }
  return Status::error("unknown opcode " + std::to_string(int(step.opcode)));
}

void Executor::launch(const Step &step) {
  for (size_t i = 0; i < step.operands.size(); ++i)
    buffers[i] = get(step, i);
  const int64_t params[] = {step.shardIndex, isFirst ? 0 : 1};
  pool.parallelFor(0, step.rows, step.grain,
                   [&](int64_t begin, int64_t end, int) {
                     step.kernel(buffers.data(), params, begin, end);
                   });
}

void Executor::gemm(const Step &step) {
  auto ints = step.ints;
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
  args.a = get(step, 0);
  args.b = get(step, 1);
  args.bias = hasBias ? getAs<const float>(step, 2) : nullptr;
  args.c = get(step, 2 + hasBias);
  args.accumulate = accumulates(ints[8]);
  cpu::gemm(args, get(step, 3 + hasBias), pool);
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

void Executor::attention(const Step &step) {
  cpu::AttentionArgs args{};
  args.shape = getAttentionShape(step.ints, step.floats);
  args.q = get(step, 0);
  args.k = get(step, 1);
  args.v = get(step, 2);
  args.out = get(step, 3);
  args.lse = getAs<float>(step, 4);
  cpu::attention(args, get(step, 5), pool);
}

void Executor::attentionGrad(const Step &step) {
  cpu::AttentionGradArgs args{};
  args.shape = getAttentionShape(step.ints, step.floats);
  args.q = get(step, 0);
  args.k = get(step, 1);
  args.v = get(step, 2);
  args.out = get(step, 3);
  args.lse = getAs<const float>(step, 4);
  args.dout = get(step, 5);
  args.dq = get(step, 6);
  args.dk = get(step, 7);
  args.dv = get(step, 8);
  cpu::attentionGrad(args, get(step, 9), pool);
}

void Executor::embedding(const Step &step) {
  cpu::EmbeddingArgs args{};
  args.rows = step.ints[0];
  args.width = step.ints[1];
  args.tableRows = step.ints[2];
  args.first = step.shardIndex * args.tableRows;
  args.typeTable = ElementType(step.ints[3]);
  args.typeOut = ElementType(step.ints[4]);
  args.ids = getAs<const int32_t>(step, 0);
  args.table = get(step, 1);
  args.out = get(step, 2);
  cpu::embedding(args, pool);
}

void Executor::embeddingGrad(const Step &step) {
  cpu::EmbeddingGradArgs args{};
  args.rows = step.ints[0];
  args.width = step.ints[1];
  args.tableRows = step.ints[2];
  args.first = step.shardIndex * args.tableRows;
  args.typeDout = ElementType(step.ints[3]);
  args.typeDtable = ElementType(step.ints[4]);
  args.ids = getAs<const int32_t>(step, 0);
  args.dout = get(step, 1);
  args.dtable = get(step, 2);
  args.accumulate = accumulates(step.ints[5]);
  cpu::embeddingGrad(args, pool);
}

void Executor::slice(const Step &step) {
  int64_t outer = step.ints[0];
  int64_t bytes =
      step.ints[1] * int64_t(getElementBytes(ElementType(step.ints[2])));
  const std::byte *in = get(step, 0) + step.shardIndex * bytes;
  std::byte *out = get(step, 1);
  int64_t stride = bytes * int64_t(step.shardCount);
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

void Executor::schedule(const Step &step) {
  const float values[4] = {
      float(runtime::getLearningRate(step.schedule, currentStep)),
      float(getBiasCorrection(step.schedule.beta1, currentUpdates)),
      float(getBiasCorrection(step.schedule.beta2, currentUpdates)), 0.0f};
  std::memcpy(get(step, 0), values, sizeof(values));
}

Status Executor::collective(const Step &step) {
  auto ints = step.ints;
  const std::byte *in = get(step, 0);
  std::byte *out = get(step, 1);
  switch (step.opcode) {
  case fb::Opcode::AllReduce:
    return communicator.allReduce(*step.group, in, out, uint64_t(ints[0]),
                                  ElementType(ints[1]), Reduction(ints[2]));
  case fb::Opcode::AllGather:
    return communicator.allGather(*step.group, in, out, uint64_t(ints[0]),
                                  uint64_t(ints[1]) *
                                      getElementBytes(ElementType(ints[2])));
  case fb::Opcode::ReduceScatter:
    return communicator.reduceScatter(*step.group, in, out, uint64_t(ints[0]),
                                      uint64_t(ints[1]), ElementType(ints[2]),
                                      Reduction(ints[3]));
  default:
    return communicator.allToAll(
        *step.group, in, out,
        {uint64_t(ints[0]), uint64_t(ints[1]), uint64_t(ints[2]),
         uint64_t(ints[3]), uint64_t(ints[4]),
         getElementBytes(ElementType(ints[5])), ints[6] != 0});
  }
}
