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
  int32_t *tokens = executor.getTokens().data();
  int32_t *targets = executor.getTargets().data();
  for (uint64_t m = 0; m < program->micro_batches(); ++m)
    for (uint64_t i = 0; i < local; ++i) {
      CLEAVE_RETURN_IF_ERROR(source.read(
          step, m * microBatch + shard * local + i, tokens, targets));
      tokens += program->seq_len();
      targets += program->seq_len();
    }
  return {};
}
