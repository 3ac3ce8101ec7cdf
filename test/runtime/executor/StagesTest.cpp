//===- StagesTest.cpp - A step is the same however it is cut --------------===//
#include "runtime/executor/Gather.h"
#include "test/runtime/executor/RunProgram.h"
#include "test/runtime/program/StagePrograms.h"
#include <gtest/gtest.h>
#include <mutex>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// All states and the norm after some steps, gathered, by role and name, as all
/// ranks have them.
using Values = std::map<std::string, std::vector<float>>;

Status runStages(const ProgramBuilder &builder, int64_t steps, Values &result) {
  std::mutex mutex;
  bool isFirst = true;
  return runProgram(
      builder,
      [&](Executor &executor) -> Status {
        const Program &program = executor.getProgram();
        for (const fb::State *state : toList(executor.getStage()->states())) {
          // By its name, so that stages have the same of what they share.
          float seed = float(state->name()->str().back() % 7);
          fillShard(executor, *state, [&](const std::vector<uint64_t> &i) {
            return 0.25f * float((i[0] * 5 + i[1] * 3) % 7) - 0.1f * seed;
          });
        }
        for (int64_t step = 0; step < steps; ++step)
          CLEAVE_RETURN_IF_ERROR(executor.runStep(step));
        Values values;
        for (const fb::State *state : program.getStates()) {
          GlobalTensor tensor;
          CLEAVE_RETURN_IF_ERROR(gatherState(executor, *state, tensor));
          values[state->role()->str() + state->name()->str()] =
              toFloats(tensor);
        }
        GlobalTensor norm;
        CLEAVE_RETURN_IF_ERROR(
            gatherOutput(executor, *program.findOutput("norm"), norm));
        values["norm"] = toFloats(norm);
        // What stages share is the same on all.
        if (const fb::State *shared = executor.getStage().findState("shared")) {
          std::span<float> mine = toFloatSpan(getBytes(executor, *shared));
          EXPECT_EQ(std::vector<float>(mine.begin(), mine.end()),
                    values["parametershared"]);
        }
        std::lock_guard<std::mutex> lock(mutex);
        if (isFirst)
          result = values;
        EXPECT_EQ(values, result);
        isFirst = false;
        return {};
      },
      staged::kernelTable, makeOptions(1));
}

TEST(StagedStep, IsTheSameInAnyNumberOfStages) {
  for (uint64_t dp : {1, 2})
    for (uint64_t microBatches : {1, 2, 3, 5, 8}) {
      Values expected;
      Status status = runStages(makeStages(1, microBatches, dp), 3, expected);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(expected.size(), 4u * 2 + 3);
      EXPECT_GT(expected["norm"][0], 0);
      for (uint64_t stages : {2, 4}) {
        Values actual;
        status = runStages(makeStages(stages, microBatches, dp), 3, actual);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(actual, expected)
            << stages << " stages, " << microBatches << " micro-batches";
      }
    }
}

TEST(StagedStep, StopsWhereOneStageFails) {
  for (uint64_t failing : {0, 1, 3}) {
    Status status = runProgram(
        makeStages(4, 4),
        [&](Executor &executor) -> Status {
          Status result;
          for (int64_t step = 0; result.ok(); ++step) {
            if (step == 2 && executor.getStage().getNumber() == failing)
              return Status::error("stop");
            result = executor.runStep(step);
          }
          EXPECT_EQ(result.getCode(), StatusCode::Aborted);
          return result;
        },
        staged::kernelTable);
    EXPECT_EQ(status.message(), "rank " + std::to_string(failing) + ": stop");
  }
}

} // namespace
