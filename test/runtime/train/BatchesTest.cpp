//===- BatchesTest.cpp - Batches that are read a step ahead ---------------===//
#include "test/runtime/io/TestFiles.h"
#include "test/runtime/train/CopiedBatches.h"

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// Calls `body` with what has the batches of `source`.
void runBatches(const CountedBatches &source,
                const std::function<void(Executor &, Batches &)> &body) {
  ASSERT_OK(runProgram(
      makeCopiedBatches(),
      [&](Executor &executor) -> Status {
        std::unique_ptr<Batches> batches;
        CLEAVE_RETURN_IF_ERROR(Batches::create(executor, source, batches));
        body(executor, *batches);
        return {};
      },
      {}, makeOptions(1)));
}

TEST(Batches, AreReadWhenTheyAreLoadedOrAhead) {
  runBatches(CountedBatches(), [](Executor &executor, Batches &batches) {
    for (int64_t step = 3; step < 9; ++step) {
      ASSERT_OK(batches.load(uint64_t(step)));
      ASSERT_OK(executor.runStep({step, step}, [&] {
        if (step % 3 != 0)
          batches.prefetch(uint64_t(step) + 1);
      }));
      EXPECT_TRUE(hasBatch(executor, uint64_t(step))) << step;
    }
  });
}

/// Such as once a signal has stopped a run.
TEST(Batches, AheadNeedNotBeUsed) {
  runBatches(CountedBatches(), [](Executor &executor, Batches &batches) {
    batches.prefetch(1);
    ASSERT_OK(batches.load(4));
    ASSERT_OK(executor.runStep(4));
    EXPECT_TRUE(hasBatch(executor, 4));
  });
}

TEST(Batches, AheadThatCannotBeReadFailWithTheirStep) {
  runBatches(CountedBatches(5), [](Executor &executor, Batches &batches) {
    ASSERT_OK(batches.load(4));
    ASSERT_OK(executor.runStep({4, 4}, [&] { batches.prefetch(5); }));
    EXPECT_TRUE(hasBatch(executor, 4));
    EXPECT_ERROR(batches.load(5), "no batch of step 5");
    EXPECT_ERROR(batches.load(5), "no batch of step 5");
    EXPECT_OK(batches.load(6));
  });
}

} // namespace
