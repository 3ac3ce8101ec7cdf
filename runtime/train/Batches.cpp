//===- Batches.cpp --------------------------------------------------------===//
#include "runtime/train/Batches.h"

using namespace cleave::runtime;

Status Batches::create(Executor &executor, const BatchSource &source,
                       std::unique_ptr<Batches> &batches) {
  std::unique_ptr<Batches> result(new Batches(executor, source));
  // A stage has what it reads: the first one tokens, the last one targets.
  const Stage &stage = executor.getStage();
  for (Batch &batch : result->batches) {
    CLEAVE_RETURN_IF_ERROR(result->allocate(stage->tokens(), batch.tokens));
    CLEAVE_RETURN_IF_ERROR(result->allocate(stage->targets(), batch.targets));
  }
  batches = std::move(result);
  return {};
}

Status Batches::allocate(const program::Operand *operand, Ids &ids) {
  ids.operand = operand;
  return executor.allocateStaging(operand ? operand->bytes()
                                          : executor.getProgram()->seq_len() *
                                                sizeof(int32_t),
                                  ids.memory);
}

int32_t *Batches::Ids::getRow(uint64_t row, uint64_t rowLength) const {
  return reinterpret_cast<int32_t *>(memory.data()) +
         (operand ? row * rowLength : 0);
}

Status Batches::Ids::write(Executor &executor) const {
  return operand ? executor.writeStaged(*operand, memory) : Status();
}

Status Batches::read(uint64_t step, const Batch &batch) const {
  const Program &program = executor.getProgram();
  const Mesh &mesh = program.getMesh();
  auto axes = toSpan(program->batch_axes());
  uint64_t shards = uint64_t(mesh.getShardCount(axes));
  uint64_t shard =
      uint64_t(mesh.getShardIndex(executor.getCommunicator().getRank(), axes));
  uint64_t microBatch = program->global_batch() / program->micro_batches();
  uint64_t local = microBatch / shards;
  if (!batch.tokens.operand && !batch.targets.operand)
    return {};
  for (uint64_t m = 0; m < program->micro_batches(); ++m)
    for (uint64_t i = 0; i < local; ++i) {
      uint64_t row = m * local + i;
      CLEAVE_RETURN_IF_ERROR(
          source.read(step, m * microBatch + shard * local + i,
                      batch.tokens.getRow(row, program->seq_len()),
                      batch.targets.getRow(row, program->seq_len())));
    }
  return {};
}

void Batches::prefetch(uint64_t step) {
  status = read(step, batches[step % 2]);
  prefetched = step;
}

Status Batches::load(uint64_t step) {
  if (prefetched != step)
    prefetch(step);
  prefetched.reset();
  CLEAVE_RETURN_IF_ERROR(status);
  const Batch &batch = batches[step % 2];
  CLEAVE_RETURN_IF_ERROR(batch.tokens.write(executor));
  return batch.targets.write(executor);
}
