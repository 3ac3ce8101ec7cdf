//===- Batches.cpp --------------------------------------------------------===//
#include "runtime/train/Batches.h"
#include <cstring>
#include <vector>

using namespace cleave::runtime;

namespace {

/// The ids of a rank's samples, [micro_batches, local batch, seq_len], or one
/// row that nobody reads where a stage has no such input.
class Ids {
public:
  Ids(const cleave::program::Operand *operand, uint64_t rowLength)
      : operand(operand), rowLength(rowLength),
        ids(operand ? operand->bytes() / sizeof(int32_t) : rowLength) {}

  int32_t *getRow(uint64_t row) {
    return ids.data() + (operand ? row * rowLength : 0);
  }
  Status write(Executor &executor) const {
    if (!operand)
      return {};
    return executor.write(*operand, [&](std::span<std::byte> bytes) {
      std::memcpy(bytes.data(), ids.data(), bytes.size());
      return Status();
    });
  }

private:
  const cleave::program::Operand *operand;
  uint64_t rowLength;
  std::vector<int32_t> ids;
};

} // namespace

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
  const Stage &stage = executor.getStage();
  if (!stage->tokens() && !stage->targets())
    return {};
  Ids tokens(stage->tokens(), program->seq_len());
  Ids targets(stage->targets(), program->seq_len());
  for (uint64_t m = 0; m < program->micro_batches(); ++m)
    for (uint64_t i = 0; i < local; ++i) {
      uint64_t row = m * local + i;
      CLEAVE_RETURN_IF_ERROR(
          source.read(step, m * microBatch + shard * local + i,
                      tokens.getRow(row), targets.getRow(row)));
    }
  CLEAVE_RETURN_IF_ERROR(tokens.write(executor));
  return targets.write(executor);
}
