//===- CaptureTest.cpp - Captured streams and their replay ----------------===//
#include "test/cuda/Simulated.h"

using namespace cleave::simulated;

namespace {

constexpr int errorInvalidated = 901, errorUnjoined = 904, errorIsolation = 905;

/// Two streams that are captured: stream 2 copies what stream 1 wrote, and
/// stream 1 copies that, each behind the other where `isRight`.
class Forked {
public:
  Forked(const Simulation &machine, bool isRight) : machine(machine) {
    const DriverApi &cuda = machine.cuda;
    EXPECT_EQ(cuda.streamBeginCapture(first, captureThreadLocal), success);
    EXPECT_EQ(cuda.copyHostToDeviceAsync(place, host, 4, first), success);
    machine.order(first, second);
    EXPECT_EQ(cuda.copyDeviceToDeviceAsync(place + 4, place, 4, second),
              success);
    void *done = machine.makeEvent();
    if (isRight)
      machine.order(second, first);
    EXPECT_EQ(cuda.copyDeviceToDeviceAsync(place + 8, place + 4, 4, first),
              success);
    EXPECT_EQ(cuda.eventRecord(done, second), success);
    EXPECT_EQ(cuda.streamWaitEvent(first, done, 0), success);
    EXPECT_EQ(cuda.streamEndCapture(first, &graph), success);
    EXPECT_EQ(cuda.graphInstantiate(&exec, graph, 0), success);
    EXPECT_EQ(cuda.graphDestroy(graph), success);
  }
  /// What the last copy has, of a replay that copies `value`.
  int replay(int value) {
    *host = value;
    EXPECT_EQ(machine.cuda.graphLaunch(exec, first), success);
    EXPECT_EQ(machine.cuda.streamSynchronize(first), success);
    return machine.download<int>(place + 8, 1)[0];
  }

  const Simulation &machine;
  Address place = machine.allocate(12);
  int *host = machine.allocatePinned<int>(1);
  void *first = machine.makeStream(), *second = machine.makeStream();
  void *graph = nullptr, *exec = nullptr;
};

TEST(Capture, ReplayOfTwoStreams) {
  for (int seed = 0; seed < 200; ++seed) {
    Simulation machine(seed);
    Forked forked(machine, true);
    for (int value = 1; value <= 3; ++value)
      EXPECT_EQ(forked.replay(value), value);
  }
}

TEST(Capture, MissingWaitIsSeenInReplays) {
  int seen = 0;
  for (int seed = 0; seed < 200; ++seed) {
    Simulation machine(seed);
    Forked forked(machine, false);
    bool isWrong = false;
    for (int value = 1; value <= 3; ++value)
      isWrong |= forked.replay(value) != value;
    seen += isWrong;
  }
  EXPECT_GT(seen, 100);
}

/// Captured work does not execute, and launches come one behind the other.
TEST(Capture, LaunchesKeepTheirOrder) {
  for (int seed = 0; seed < 50; ++seed) {
    Simulation machine(seed);
    const DriverApi &cuda = machine.cuda;
    Address sum = machine.upload(std::vector<int>{0, 0});
    void *stream = machine.makeStream(), *other = machine.makeStream();
    void *graph = nullptr, *exec = nullptr;
    ASSERT_EQ(cuda.streamBeginCapture(stream, captureThreadLocal), success);
    // 0, x -> x, x + 0: the second place is the first of the launch before.
    ASSERT_EQ(cuda.copyDeviceToDeviceAsync(sum + 4, sum, 4, stream), success);
    ASSERT_EQ(cuda.memsetAsync(sum, 1, 4, stream), success);
    ASSERT_EQ(cuda.streamEndCapture(stream, &graph), success);
    EXPECT_EQ(machine.download<int>(sum, 2), std::vector<int>({0, 0}));
    ASSERT_EQ(cuda.graphInstantiate(&exec, graph, 0), success);
    ASSERT_EQ(cuda.graphLaunch(exec, stream), success);
    ASSERT_EQ(cuda.graphLaunch(exec, other), success);
    ASSERT_EQ(cuda.graphExecDestroy(exec), success);
    ASSERT_EQ(cuda.streamSynchronize(other), success);
    EXPECT_EQ(machine.download<int>(sum, 2),
              std::vector<int>({0x01010101, 0x01010101}));
  }
}

/// Each launch records the event of a node anew, where it comes to it.
TEST(Capture, EventsThatLaunchesRecord) {
  for (int seed = 0; seed < 20; ++seed) {
    Simulation machine(seed);
    const DriverApi &cuda = machine.cuda;
    Address place = machine.allocate(4);
    void *stream = machine.makeStream(), *graph = nullptr, *exec = nullptr;
    void *inside = machine.makeEvent(eventDefault),
         *before = machine.makeEvent(eventDefault),
         *behind = machine.makeEvent(eventDefault);
    EXPECT_EQ(cuda.eventRecordWithFlags(inside, stream, eventRecordExternal),
              1); // outside of a capture
    ASSERT_EQ(cuda.streamBeginCapture(stream, captureThreadLocal), success);
    ASSERT_EQ(cuda.memsetAsync(place, 0, 4, stream), success);
    ASSERT_EQ(cuda.eventRecordWithFlags(inside, stream, eventRecordExternal),
              success);
    ASSERT_EQ(cuda.memsetAsync(place, 1, 4, stream), success);
    ASSERT_EQ(cuda.streamEndCapture(stream, &graph), success);
    ASSERT_EQ(cuda.graphInstantiate(&exec, graph, 0), success);
    for (int launch = 0; launch < 2; ++launch) {
      ASSERT_EQ(cuda.eventRecordWithFlags(before, stream, eventRecordDefault),
                success);
      ASSERT_EQ(cuda.graphLaunch(exec, stream), success);
      // From when on the host sees it is the seed's.
      EXPECT_EQ(cuda.eventQuery(inside),
                seed % 3 == 0 ? errorNotReady : success);
      ASSERT_EQ(cuda.eventRecord(behind, stream), success);
      ASSERT_EQ(cuda.eventSynchronize(behind), success);
      float first = 0, second = 0, both = 0;
      ASSERT_EQ(cuda.eventElapsedTime(&first, before, inside), success);
      ASSERT_EQ(cuda.eventElapsedTime(&second, inside, behind), success);
      ASSERT_EQ(cuda.eventElapsedTime(&both, before, behind), success);
      EXPECT_EQ(first + second, both);
    }
    ASSERT_EQ(cuda.eventDestroy(inside), success);
    EXPECT_NE(cuda.graphLaunch(exec, stream), success);
  }
}

TEST(Capture, UnjoinedStreamIsAnError) {
  Simulation machine;
  const DriverApi &cuda = machine.cuda;
  Address place = machine.allocate(4);
  void *first = machine.makeStream(), *second = machine.makeStream();
  void *graph = nullptr;
  ASSERT_EQ(cuda.streamBeginCapture(first, captureThreadLocal), success);
  machine.order(first, second);
  ASSERT_EQ(cuda.memsetAsync(place, 0, 4, second), success);
  EXPECT_EQ(cuda.streamEndCapture(first, &graph), errorUnjoined);
  // Both streams are as before.
  EXPECT_EQ(cuda.memsetAsync(place, 0, 4, second), success);
  EXPECT_EQ(cuda.streamSynchronize(second), success);
}

TEST(Capture, WhatCannotBeCapturedEndsIt) {
  Simulation machine;
  const DriverApi &cuda = machine.cuda;
  Address place = machine.allocate(4), other = 0;
  int value = 0;
  void *stream = machine.makeStream(), *graph = nullptr;
  auto expectEnd = [&](int code) {
    EXPECT_NE(code, success);
    EXPECT_EQ(cuda.memsetAsync(place, 0, 4, stream), errorInvalidated);
    EXPECT_EQ(cuda.streamEndCapture(stream, &graph), errorInvalidated);
    EXPECT_EQ(cuda.streamBeginCapture(stream, captureThreadLocal), success);
  };
  ASSERT_EQ(cuda.streamBeginCapture(stream, captureThreadLocal), success);
  expectEnd(cuda.streamSynchronize(stream));
  expectEnd(cuda.contextSynchronize());
  expectEnd(cuda.memAlloc(&other, 4));
  expectEnd(cuda.copyHostToDeviceAsync(place, &value, 4, stream));
  expectEnd(cuda.copyHostToDevice(place, &value, 4));
  void *outside = machine.makeStream(), *event = machine.makeEvent();
  ASSERT_EQ(cuda.eventRecord(event, outside), success);
  int code = cuda.streamWaitEvent(stream, event, 0);
  EXPECT_EQ(code, errorIsolation);
  expectEnd(code);
  EXPECT_EQ(cuda.streamEndCapture(stream, &graph), success);
}

} // namespace
