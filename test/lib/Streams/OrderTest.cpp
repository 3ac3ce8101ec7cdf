//===- OrderTest.cpp ------------------------------------------------------===//
#include "cleave/Streams/Order.h"
#include "gtest/gtest.h"
#include <array>
#include <map>
#include <random>

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

//===----------------------------------------------------------------------===//
// Beside a walk of every run
//===----------------------------------------------------------------------===//

/// Whether two ops race, found byte by byte and run by run.
static bool hasRace(const StreamProgram &program) {
  using Clock = std::array<int64_t, maxStreams>;
  struct Access {
    int64_t stream, ordinal;
    bool writes;
  };
  std::map<int64_t, std::vector<Access>> history; // of each byte, all of them
  std::map<int64_t, Clock> recorded; // by event; zeros before it is recorded
  std::array<Clock, maxStreams> known = {};
  Clock issued = {};
  for (size_t r = 0; r < program.runs.size(); ++r) {
    const StreamRun &run = program.runs[r];
    if (int64_t(r) == program.updateRun)
      known.fill(issued);
    for (int64_t i = run.begin; i < run.end; ++i) {
      const StreamOp &op = program.ops[size_t(i)];
      Clock &clock = known[size_t(op.stream)];
      for (int64_t event : op.waits)
        for (size_t s = 0; s < clock.size(); ++s)
          clock[s] = std::max(clock[s], recorded[event][s]);
      clock[size_t(op.stream)] = ++issued[size_t(op.stream)];
      for (const ByteAccess &access : op.accesses)
        for (int64_t k = 0; k < access.bytes; ++k) {
          int64_t place = access.places ? run.microBatch % access.places : 0;
          auto &before = history[access.begin + place * access.stride + k];
          for (const Access &other : before)
            if ((access.writes || other.writes) &&
                clock[size_t(other.stream)] < other.ordinal)
              return true;
          before.push_back(
              {op.stream, issued[size_t(op.stream)], access.writes});
        }
      if (op.event > 0)
        recorded[op.event] = clock;
    }
  }
  return false;
}

/// The runs of a pipeline's stage: 1F1B with some micro-batches in flight, all
/// forward runs first, or chunks of two that take turns (interleaved).
static std::vector<StreamRun> makeRuns(std::mt19937 &random, int64_t forward,
                                       int64_t ops, int64_t microBatches) {
  std::vector<StreamRun> runs;
  auto add = [&](bool isForward, int64_t m) {
    runs.push_back({isForward ? 0 : forward, isForward ? forward : ops, m});
  };
  int64_t ahead = std::array<int64_t, 4>{0, 1, 3, microBatches}[random() % 4];
  ahead = std::min(ahead, microBatches);
  int64_t group = 1 + int64_t(random() % 2);
  for (int64_t m = 0; m < microBatches + ahead; m += group) {
    for (int64_t k = m; k < std::min(m + group, microBatches); ++k)
      add(true, k);
    for (int64_t k = m; k < m + group; ++k)
      if (k >= ahead && k - ahead < microBatches)
        add(false, k - ahead);
  }
  return runs;
}

/// What is skipped would have said nothing else, whatever the schedule, the
/// places and the streams.
TEST(Order, RepeatedRunsAreWhatAWalkOfAllRunsFinds) {
  std::mt19937 random(11);
  int races = 0, waits = 0;
  constexpr int programs = 2000;
  for (int n = 0; n < programs; ++n) {
    StreamProgram program;
    int64_t microBatches = 1 + int64_t(random() % 150);
    int64_t ops = 2 + int64_t(random() % 8);
    for (int64_t i = 0; i < ops; ++i) {
      std::vector<ByteAccess> accesses;
      for (unsigned count = random() % 3; count > 0; --count) {
        // Buffers of 4 bytes, each with a number of places of its own.
        int64_t buffer = random() % 6;
        const int64_t places[] = {0, 1, 2, 3, 4, microBatches};
        accesses.push_back({buffer * 1000, 1 + int64_t(random() % 4),
                            places[size_t(buffer)], 4, random() % 3 == 0});
      }
      program.ops.push_back(makeOp(int64_t(random() % 4), accesses));
    }
    // Some know of others.
    for (int64_t i = 1; i < ops; ++i)
      if (random() % 3 == 0) {
        int64_t other = int64_t(random() % uint64_t(i));
        program.ops[size_t(other)].event = other + 1;
        program.ops[size_t(i)].waits.push_back(other + 1);
      }
    int64_t forward = 1 + int64_t(random() % uint64_t(ops));
    program.runs = makeRuns(random, forward, ops, microBatches);
    program.updateRun = int64_t(program.runs.size());

    bool expected = hasRace(program);
    ASSERT_EQ(findRace(program).has_value(), expected) << "program " << n;
    races += expected;
    if (!program.hasStreams())
      continue;
    size_t before = 0, after = 0;
    for (const StreamOp &op : program.ops)
      before += op.waits.size();
    addWaits(program);
    for (const StreamOp &op : program.ops)
      after += op.waits.size();
    waits += int(after - before);
    ASSERT_FALSE(hasRace(program)) << "program " << n;
    ASSERT_FALSE(findRace(program)) << "program " << n;
    ASSERT_GT(after + !expected, before) << "program " << n;
  }
  std::cout << races << " of " << programs << " had races, " << waits
            << " waits were added\n";
  EXPECT_GT(races, programs / 4);
  EXPECT_LT(races, programs * 9 / 10);
}
