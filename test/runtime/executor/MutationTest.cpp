//===- MutationTest.cpp - What the verifier accepts, the executor survives ===//
#include "test/runtime/executor/RunProgram.h"
#include "test/runtime/program/SamplePrograms.h"
#include "test/runtime/program/StagePrograms.h"
#include <gtest/gtest.h>
#include <random>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// A generated kernel is trusted; this one stands for any.
void anything(void *const *, const int64_t *, int64_t, int64_t) {}

/// Runs what is accepted of `rounds` mutants; says how many ran to their end.
int runMutants(const std::vector<uint8_t> &good, int rounds) {
  std::mt19937 random(5);
  const CleaveKernelEntry entries[] = {{"square", anything},
                                       {"norm", anything},
                                       {"update", anything},
                                       {"shrink", anything}};
  int executed = 0, accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint8_t> bytes = good;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      // Small changes of aligned numbers are the ones that stay legal.
      size_t at = random() % (bytes.size() / 4) * 4;
      bytes[at] = uint8_t(random() % 2 ? bytes[at] + 64 : random() % 9);
    }
    std::vector<uint8_t> sealed = sealProgram(bytes.data(), bytes.size());
    Program program;
    if (!Program::load(sealed.data(), sealed.size(), "mutant", program).ok())
      continue;
    ++accepted;
    if (program.getWorldSize() > 8 || program.getArenaBytes() > (1 << 20) ||
        program->micro_batches() > 8)
      continue; // legal, but too much for a test
    Status status = runRanks(
        program.getMesh(), {}, [&](Communicator &communicator) -> Status {
          std::unique_ptr<Executor> executor;
          CLEAVE_RETURN_IF_ERROR(
              Executor::create(program, communicator, {entries, 4},
                               makeOptions(1, /*poison=*/false), executor));
          CLEAVE_RETURN_IF_ERROR(executor->runStep(0));
          EXPECT_LE(executor->getHighWaterBytes(), program.getArenaBytes());
          return {};
        });
    executed += status.ok();
  }
  std::printf("%d of %d mutated programs accepted, %d executed\n", accepted,
              rounds, executed);
  return executed;
}

TEST(Mutation, AcceptedProgramsRun) {
  EXPECT_GT(runMutants(makeSample().pack(), 20000), 500);
}

/// None waits for ever for a message.
TEST(Mutation, AcceptedStagesComeToAnEnd) {
  EXPECT_GT(runMutants(makeStages(2, 3).pack(), 20000), 500);
}

} // namespace
