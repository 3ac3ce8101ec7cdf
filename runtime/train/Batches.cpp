//===- Batches.cpp --------------------------------------------------------===//
#include "runtime/train/Batches.h"

using namespace cleave::runtime;

Status cleave::runtime::loadBatch(Executor &executor, const BatchSource &source,
                                  uint64_t step) {
  const Program &program = executor.getProgram();
  const Mesh &mesh = program.getMesh();
  auto axes = toSpan(program->batch_axes());
  uint64_t shards = uint64_t(mesh.getShardCount(axes));
  uint64_t shard =
      uint64_t(mesh.getShardIndex(executor.getCommunicator().getRank(), axes));
  uint64_t microBatch = program->global_batch() / program->micro_batches();
  uint64_t local = microBatch / shards;
  // A stage has what it reads: the first one tokens, the last one targets.
  std::vector<int32_t> unused(program->seq_len());
  std::span<int32_t> tokens = executor.getTokens(),
                     targets = executor.getTargets();
  auto getRow = [&](std::span<int32_t> ids, uint64_t row) {
    return ids.empty() ? unused.data() : ids.data() + row * program->seq_len();
  };
  if (tokens.empty() && targets.empty())
    return {};
  for (uint64_t m = 0; m < program->micro_batches(); ++m)
    for (uint64_t i = 0; i < local; ++i) {
      uint64_t row = m * local + i;
      CLEAVE_RETURN_IF_ERROR(
          source.read(step, m * microBatch + shard * local + i,
                      getRow(tokens, row), getRow(targets, row)));
    }
  return {};
}
