//===- OrderTest.cpp ------------------------------------------------------===//
#include "cleave/Streams/Order.h"
#include "gtest/gtest.h"

using namespace cleave;

static StreamOp makeOp(int64_t stream, std::vector<ByteAccess> accesses) {
  StreamOp op;
  op.stream = stream;
  op.accesses.assign(accesses.begin(), accesses.end());
  return op;
}

/// Two values are made in stream 1, a and then b, in a place of its own for
/// each micro-batch; when all are made, each micro-batch reads a, and then b.
static StreamProgram makeProgram(int64_t microBatches) {
  constexpr int64_t bytes = 64;
  ByteAccess a{0, bytes, microBatches, bytes, false};
  ByteAccess b{microBatches * bytes, bytes, microBatches, bytes, false};
  ByteAccess makesA = a, makesB = b;
  makesA.writes = makesB.writes = true;
  StreamProgram program;
  program.ops = {makeOp(1, {makesA}), makeOp(1, {makesB}), makeOp(0, {a}),
                 makeOp(0, {b})};
  for (int64_t m = 0; m < microBatches; ++m)
    program.runs.push_back({0, 2, m});
  for (int64_t m = 0; m < microBatches; ++m)
    program.runs.push_back({2, 4, m});
  program.updateRun = 2 * microBatches;
  return program;
}

/// Whoever knows the last a knows all b but the last, which one micro-batch
/// alone reads.
TEST(Order, TheLastMicroBatchMayNeedAWaitThatNoOtherNeeds) {
  for (int64_t microBatches : {2, 5, 6, 40}) {
    StreamProgram program = makeProgram(microBatches);
    program.ops[0].event = 1;
    program.ops[2].waits = {1};
    std::optional<Race> race = findRace(program);
    ASSERT_TRUE(race) << microBatches << " micro-batches";
    EXPECT_EQ(race->earlier, 1);
    EXPECT_EQ(race->later, 3);
    EXPECT_EQ(race->microBatch, microBatches - 1);

    addWaits(program);
    ASSERT_EQ(program.ops[3].waits.size(), 1u);
    EXPECT_EQ(program.ops[3].waits[0], program.ops[1].event);
    EXPECT_FALSE(findRace(program));
  }
}

/// Where micro-batches take turns in few places, a long stretch is as its first
/// runs are.
TEST(Order, TurnsInFewPlacesAreGoneThroughAFewTimes) {
  for (int64_t microBatches : {3, 17, 1000}) {
    StreamProgram program;
    ByteAccess writes{0, 64, 2, 64, true}, reads{0, 64, 2, 64, false};
    program.ops = {makeOp(0, {writes}), makeOp(1, {reads})};
    for (int64_t m = 0; m < microBatches; ++m)
      program.runs.push_back({0, 2, m});
    program.updateRun = microBatches;
    std::optional<Race> race = findRace(program);
    ASSERT_TRUE(race);
    EXPECT_EQ(race->microBatch, 0);
    addWaits(program);
    EXPECT_FALSE(findRace(program));
    EXPECT_FALSE(program.ops[0].waits.empty()); // the place is read before
    EXPECT_FALSE(program.ops[1].waits.empty());
  }
}

/// Of a stretch of an own op, one of stream 1 and another own one, where in the
/// list stream 0 may be while the second runs.
TEST(Order, WhatNobodyWaitsForIsInFlightInLaterRuns) {
  StreamProgram program;
  program.ops = {makeOp(0, {}), makeOp(1, {}), makeOp(0, {}), makeOp(0, {})};
  program.ops[1].event = 1;
  for (int64_t m = 0; m < 2; ++m)
    program.runs.push_back({0, 3, m});
  program.runs.push_back({3, 4, 0});
  program.updateRun = 2; // where all streams are waited for
  auto get = [&] {
    std::vector<OpRange> ranges = getInFlight(program);
    for (int64_t own : {0, 2, 3}) {
      EXPECT_EQ(ranges[size_t(own)].first, own);
      EXPECT_EQ(ranges[size_t(own)].last, own);
    }
    return std::pair(ranges[1].first, ranges[1].last);
  };
  EXPECT_EQ(get(), std::pair(int64_t(0), int64_t(2)));
  program.ops[2].waits = {1};
  EXPECT_EQ(get(), std::pair(int64_t(1), int64_t(1)));
  program.ops[2].waits = {};
  program.ops[0].waits = {1};
  EXPECT_EQ(get(), std::pair(int64_t(1), int64_t(2)));
  program.ops[0].waits = {};
  program.updateRun = 3; // behind all: what comes before is no barrier
  EXPECT_EQ(get(), std::pair(int64_t(0), int64_t(3)));
}
