//===- CopiedBatches.h - Batches that a program does nothing but copy -----===//
#ifndef CLEAVE_TEST_RUNTIME_TRAIN_COPIEDBATCHES_H
#define CLEAVE_TEST_RUNTIME_TRAIN_COPIEDBATCHES_H

#include "runtime/train/Batches.h"
#include "test/runtime/executor/RunProgram.h"

namespace cleave::test {

/// Ids that say of which step, sample and position they are; targets are
/// negative. The batch of step `bad` cannot be read.
class CountedBatches final : public runtime::BatchSource {
public:
  static constexpr uint64_t seqLen = 4, samples = 2;

  explicit CountedBatches(uint64_t bad = UINT64_MAX) : bad(bad) {}

  runtime::Status read(uint64_t step, uint64_t sample, int32_t *inputs,
                       int32_t *targets) const override {
    if (step == bad)
      return runtime::Status::error("no batch of step " + std::to_string(step));
    for (uint64_t i = 0; i < seqLen; ++i) {
      inputs[i] = int32_t(step * 100 + sample * 10 + i);
      targets[i] = -inputs[i];
    }
    return {};
  }
  uint64_t getMaxSteps() const override { return UINT64_MAX; }
  runtime::Status startAt(uint64_t, uint64_t) override { return {}; }
  runtime::Status
  describe(std::vector<runtime::DataIdentity> &) const override {
    return {};
  }

  /// The inputs of a step's batch, or its targets.
  static std::vector<int32_t> get(uint64_t step, bool isTargets) {
    std::vector<int32_t> inputs(samples * seqLen), targets(inputs);
    for (uint64_t sample = 0; sample < samples; ++sample)
      (void)CountedBatches().read(step, sample, inputs.data() + sample * seqLen,
                                  targets.data() + sample * seqLen);
    return isTargets ? targets : inputs;
  }

private:
  uint64_t bad;
};

/// One rank, a micro-batch of two samples, and copies of its ids as outputs.
inline ProgramBuilder makeCopiedBatches() {
  constexpr uint64_t bytes =
      CountedBatches::samples * CountedBatches::seqLen * sizeof(int32_t);
  ProgramBuilder b({});
  b.program.seq_len = CountedBatches::seqLen;
  b.program.global_batch = CountedBatches::samples;
  fb::Operand tokens = b.allocate(bytes), targets = b.allocate(bytes);
  b.stage->tokens = std::make_unique<fb::Operand>(tokens);
  b.stage->targets = std::make_unique<fb::Operand>(targets);
  for (auto [name, ids] : {std::pair("tokens", tokens), {"targets", targets}}) {
    fb::Operand copy = b.allocate(bytes);
    b.add(fb::CopyT(), {ids, copy});
    b.output(name, {CountedBatches::samples, CountedBatches::seqLen}, {{}, {}},
             copy);
  }
  return b;
}

/// Whether the copies are those of a step's batch.
inline bool hasBatch(runtime::Executor &executor, uint64_t step) {
  bool isSame = true;
  for (bool isTargets : {false, true}) {
    std::vector<int32_t> expected = CountedBatches::get(step, isTargets);
    auto compare = [&](std::span<const std::byte> bytes) {
      isSame &= std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
      return runtime::Status();
    };
    const fb::Output *output =
        executor.getStage().findOutput(isTargets ? "targets" : "tokens");
    isSame &= executor.read(*output->operand(), compare).ok();
  }
  return isSame;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_TRAIN_COPIEDBATCHES_H
