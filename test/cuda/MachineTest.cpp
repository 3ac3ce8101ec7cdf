//===- MachineTest.cpp - Memory and order of the simulated machine --------===//
#include "test/cuda/Simulated.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

using namespace cleave::simulated;

namespace {

constexpr int seeds = 200;

TEST(Machine, DeviceSaysThatItIsSimulated) {
  Simulation machine;
  int count = 0, device = -1, major = 0, version = 0;
  char name[100];
  ASSERT_EQ(machine.cuda.deviceGetCount(&count), success);
  EXPECT_EQ(count, 1);
  ASSERT_EQ(machine.cuda.deviceGet(&device, 0), success);
  ASSERT_EQ(machine.cuda.deviceGetName(name, sizeof name, device), success);
  EXPECT_NE(std::string(name).find("simulated"), std::string::npos);
  ASSERT_EQ(machine.cuda.deviceGetAttribute(&major, attributeMajor, device),
            success);
  EXPECT_EQ(major, 9);
  ASSERT_EQ(machine.cuda.driverGetVersion(&version), success);
  EXPECT_GE(version, 13000);
}

TEST(Machine, FreshMemoryIsNaN) {
  Simulation machine;
  for (float value : machine.download<float>(machine.allocate(1024), 256))
    EXPECT_TRUE(std::isnan(value));
}

TEST(Machine, MemoryIsCounted) {
  Simulation machine{{"MEMORY", "1048576"}};
  size_t free = 0, total = 0;
  Address first = machine.allocate(300), second = 0;
  EXPECT_EQ(first % 256, 0u);
  ASSERT_EQ(machine.cuda.memGetInfo(&free, &total), success);
  EXPECT_EQ(total, 1048576u);
  EXPECT_EQ(free, total - 512);
  EXPECT_EQ(machine.cuda.memAlloc(&second, total), errorOutOfMemory);
  EXPECT_EQ(machine.cuda.memAlloc(&second, free), success);
  ASSERT_EQ(machine.cuda.memFree(second), success);
  EXPECT_EQ(machine.cuda.memFree(second), errorInvalidValue);
  EXPECT_EQ(machine.cuda.memAlloc(&second, free), success);
}

TEST(MachineDeathTest, HostCodeCannotReadDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Simulation machine;
        Address address = machine.allocate(64);
        volatile char byte = *reinterpret_cast<char *>(uintptr_t(address));
        std::exit(byte == 0);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

/// An operation whose effect the test sees.
class Note : public Work {
public:
  Note(std::vector<int> &notes, int note) : notes(notes), note(note) {}
  std::string getName() const override {
    return "note " + std::to_string(note);
  }
  Progress execute(Execution &) const override {
    notes.push_back(note);
    return Progress::Done;
  }

private:
  std::vector<int> &notes;
  int note;
};

TEST(Machine, NothingExecutesWhenItIsEnqueued) {
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation machine(seed);
    std::vector<int> notes;
    void *stream = machine.makeStream();
    for (int i = 0; i < 10; ++i)
      ASSERT_EQ(Libraries::get().enqueue(stream, new Note(notes, i)), success);
    EXPECT_TRUE(notes.empty());
    ASSERT_EQ(machine.cuda.streamSynchronize(stream), success);
    EXPECT_EQ(notes, std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

/// Stream 1 writes, stream 2 reads and stream 1 writes anew, each behind the
/// other where `isRight`. Returns what was read.
float readBehindWrite(const Simulation &machine, bool readWaits,
                      bool writeWaits) {
  Address value = machine.allocate(4), copy = machine.allocate(4);
  float *host = machine.allocatePinned<float>(2);
  host[0] = 1;
  host[1] = 2;
  void *first = machine.makeStream(), *second = machine.makeStream();
  const DriverApi &cuda = machine.cuda;
  EXPECT_EQ(cuda.copyHostToDeviceAsync(value, host, 4, first), success);
  if (readWaits)
    machine.order(first, second);
  EXPECT_EQ(cuda.copyDeviceToDeviceAsync(copy, value, 4, second), success);
  if (writeWaits)
    machine.order(second, first);
  EXPECT_EQ(cuda.copyHostToDeviceAsync(value, host + 1, 4, first), success);
  EXPECT_EQ(cuda.streamSynchronize(second), success);
  return machine.download<float>(copy, 1)[0];
}

TEST(Machine, EventsOrderStreams) {
  for (int seed = 0; seed < seeds; ++seed)
    EXPECT_EQ(readBehindWrite(Simulation(seed), true, true), 1) << seed;
}

TEST(Machine, MissingWaitIsSeenWithMostSeeds) {
  int early = 0, late = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    early += readBehindWrite(Simulation(seed), false, true) != 1;
    late += readBehindWrite(Simulation(seed), true, false) != 1;
  }
  EXPECT_GT(early, seeds / 2);
  // What comes too early is what nobody waits for.
  EXPECT_GT(late, seeds / 5);
}

TEST(Machine, SameSeedIsTheSameOrder) {
  auto run = [](int seed) {
    Simulation machine(seed);
    std::vector<int> notes;
    std::vector<void *> streams = {machine.makeStream(), machine.makeStream(),
                                   machine.makeStream()};
    for (int i = 0; i < 30; ++i)
      EXPECT_EQ(Libraries::get().enqueue(streams[i % 3], new Note(notes, i)),
                success);
    EXPECT_EQ(machine.cuda.contextSynchronize(), success);
    return notes;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(Machine, EventIsItsLatestRecordAtTheWait) {
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation machine(seed);
    std::vector<int> notes;
    auto enqueue = Libraries::get().enqueue;
    void *first = machine.makeStream(), *second = machine.makeStream();
    void *event = machine.makeEvent();
    // Never recorded: no wait.
    ASSERT_EQ(machine.cuda.streamWaitEvent(second, event, 0), success);
    enqueue(first, new Note(notes, 1));
    ASSERT_EQ(machine.cuda.eventRecord(event, first), success);
    enqueue(first, new Note(notes, 2));
    ASSERT_EQ(machine.cuda.eventRecord(event, first), success);
    ASSERT_EQ(machine.cuda.streamWaitEvent(second, event, 0), success);
    enqueue(first, new Note(notes, 3));
    // Recorded behind the wait: of no effect on it.
    ASSERT_EQ(machine.cuda.eventRecord(event, first), success);
    enqueue(second, new Note(notes, 4));
    ASSERT_EQ(machine.cuda.contextSynchronize(), success);
    auto find = [&](int note) { return std::ranges::find(notes, note); };
    EXPECT_LT(find(2), find(4));
    EXPECT_EQ(notes.size(), 4u);
  }
}

TEST(Machine, LegacyStreamWaitsForBlockingStreamsOnly) {
  int overtaken = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation machine(seed);
    std::vector<int> notes;
    auto enqueue = Libraries::get().enqueue;
    void *blocking = machine.makeStream(0), *other = machine.makeStream();
    enqueue(blocking, new Note(notes, 1));
    enqueue(other, new Note(notes, 2));
    enqueue(nullptr, new Note(notes, 3));
    enqueue(blocking, new Note(notes, 4));
    ASSERT_EQ(machine.cuda.contextSynchronize(), success);
    auto find = [&](int note) { return std::ranges::find(notes, note); };
    EXPECT_LT(find(1), find(3));
    EXPECT_LT(find(3), find(4));
    overtaken += find(3) < find(2);
  }
  EXPECT_GT(overtaken, seeds / 5);
}

TEST(Machine, PinnedMemoryIsReadWhenTheCopyExecutes) {
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation machine(seed);
    Address address = machine.allocate(8);
    int *pinned = machine.allocatePinned<int>(1);
    int pageable = 10;
    *pinned = 10;
    void *stream = machine.makeStream();
    const DriverApi &cuda = machine.cuda;
    ASSERT_EQ(cuda.copyHostToDeviceAsync(address, pinned, 4, stream), success);
    ASSERT_EQ(cuda.copyHostToDeviceAsync(address + 4, &pageable, 4, stream),
              success);
    *pinned = pageable = 20;
    ASSERT_EQ(cuda.streamSynchronize(stream), success);
    EXPECT_EQ(machine.download<int>(address, 2), std::vector<int>({20, 10}));
  }
}

/// Pinned memory is written when the copy executes; other memory, before the
/// call returns.
TEST(Machine, CopiesToTheHost) {
  Simulation machine;
  Address address = machine.upload(std::vector<int>{5});
  int *pinned = machine.allocatePinned<int>(1);
  int pageable = 0;
  *pinned = 0;
  void *stream = machine.makeStream();
  const DriverApi &cuda = machine.cuda;
  ASSERT_EQ(cuda.copyDeviceToHostAsync(pinned, address, 4, stream), success);
  EXPECT_EQ(*pinned, 0);
  ASSERT_EQ(cuda.copyDeviceToHostAsync(&pageable, address, 4, stream), success);
  EXPECT_EQ(pageable, 5);
  EXPECT_EQ(*pinned, 5);
}

/// A later copy may be seen before an earlier one, until the host knows that an
/// event behind both is done.
TEST(Machine, CopiesToTheHostAreSeenInAnyOrderUntilAnEvent) {
  int early = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation machine(seed);
    Address address = machine.upload(std::vector<int>{5});
    int *pinned = machine.allocatePinned<int>(2);
    pinned[0] = pinned[1] = 0;
    void *stream = machine.makeStream(), *event = machine.makeEvent();
    const DriverApi &cuda = machine.cuda;
    for (int i : {0, 1})
      ASSERT_EQ(cuda.copyDeviceToHostAsync(pinned + i, address, 4, stream),
                success);
    ASSERT_EQ(cuda.eventRecord(event, stream), success);
    int code = errorNotReady;
    while ((code = cuda.eventQuery(event)) == errorNotReady)
      early += pinned[0] != 5 && pinned[1] == 5;
    ASSERT_EQ(code, success);
    EXPECT_EQ(pinned[0], 5);
    EXPECT_EQ(pinned[1], 5);
  }
  EXPECT_GT(early, 0);
}

TEST(Machine, QueriesEndAndTimeIsPositive) {
  for (int seed = 0; seed < 20; ++seed) {
    Simulation machine(seed);
    Address address = machine.allocate(64);
    void *stream = machine.makeStream();
    void *start = machine.makeEvent(eventDefault),
         *end = machine.makeEvent(eventDefault);
    const DriverApi &cuda = machine.cuda;
    ASSERT_EQ(cuda.eventRecord(start, stream), success);
    ASSERT_EQ(cuda.memsetAsync(address, 0, 64, stream), success);
    ASSERT_EQ(cuda.eventRecord(end, stream), success);
    float time = 0;
    EXPECT_EQ(cuda.eventElapsedTime(&time, start, end), errorNotReady);
    int code = errorNotReady;
    for (int i = 0; i < 1000 && code == errorNotReady; ++i)
      code = cuda.eventQuery(end);
    ASSERT_EQ(code, success);
    ASSERT_EQ(cuda.eventElapsedTime(&time, start, end), success);
    EXPECT_GT(time, 0);
  }
}

/// Waits at its place for another of the same pair, as a collective does.
class Meeting : public Work {
public:
  Meeting(std::string name, int &arrived, int &mine)
      : name(std::move(name)), arrived(arrived), mine(mine) {}
  std::string getName() const override { return "meeting " + name; }
  Progress execute(Execution &) const override {
    arrived += mine == 0;
    mine = 1;
    return arrived == 2 ? Progress::Done : Progress::Blocked;
  }

private:
  std::string name;
  int &arrived, &mine;
};

struct Pair {
  int arrived = 0, first = 0, second = 0;
};

TEST(Machine, MeetingsOfStreams) {
  auto enqueue = Libraries::get().enqueue;
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation machine(seed);
    void *first = machine.makeStream(), *second = machine.makeStream();
    Pair a, b;
    enqueue(first, new Meeting("a", a.arrived, a.first));
    enqueue(first, new Meeting("b", b.arrived, b.first));
    enqueue(second, new Meeting("a", a.arrived, a.second));
    enqueue(second, new Meeting("b", b.arrived, b.second));
    EXPECT_EQ(machine.cuda.streamSynchronize(first), success);
  }
}

TEST(Machine, DeadlockIsReportedAtOnce) {
  auto enqueue = Libraries::get().enqueue;
  Simulation machine;
  void *first = machine.makeStream(), *second = machine.makeStream();
  Pair a, b;
  enqueue(first, new Meeting("a", a.arrived, a.first));
  enqueue(first, new Meeting("b", b.arrived, b.first));
  enqueue(second, new Meeting("b", b.arrived, b.second));
  enqueue(second, new Meeting("a", a.arrived, a.second));
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine.cuda.streamSynchronize(first), errorLaunchFailed);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
  EXPECT_NE(text.find("next: meeting a"), std::string::npos) << text;
  EXPECT_NE(text.find("next: meeting b"), std::string::npos) << text;
  EXPECT_EQ(machine.cuda.contextSynchronize(), errorLaunchFailed);
}

/// Who asks again and again is told as well, in the end.
TEST(Machine, DeadlockIsReportedToQueries) {
  Simulation machine{{"PATIENCE", "0.05"}};
  void *stream = machine.makeStream(), *event = machine.makeEvent();
  Pair pair;
  Libraries::get().enqueue(stream,
                           new Meeting("of one", pair.arrived, pair.first));
  ASSERT_EQ(machine.cuda.eventRecord(event, stream), success);
  testing::internal::CaptureStderr();
  int code = errorNotReady;
  while (code == errorNotReady)
    code = machine.cuda.eventQuery(event);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, errorLaunchFailed);
  EXPECT_NE(text.find("next: meeting of one, which is blocked"),
            std::string::npos)
      << text;
}

/// However eager the streams are whose operations wait for a peer, who polls
/// another stream gets there: nothing completes meanwhile that would change how
/// eager they are.
TEST(Machine, QueriesEndBesideStreamsThatWait) {
  auto enqueue = Libraries::get().enqueue;
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation machine(seed);
    std::vector<Pair> pairs(6);
    std::vector<int> notes;
    for (Pair &pair : pairs)
      enqueue(machine.makeStream(),
              new Meeting("of one", pair.arrived, pair.first));
    void *stream = machine.makeStream(), *event = machine.makeEvent();
    enqueue(stream, new Note(notes, seed));
    ASSERT_EQ(machine.cuda.eventRecord(event, stream), success);
    int code = errorNotReady;
    for (int i = 0; i < 50 && code == errorNotReady; ++i)
      code = machine.cuda.eventQuery(event);
    EXPECT_EQ(code, success) << seed;
    // The peers come, so that the machine may end.
    for (Pair &pair : pairs)
      enqueue(stream, new Meeting("of one", pair.arrived, pair.second));
    EXPECT_EQ(machine.cuda.contextSynchronize(), success);
  }
}

/// Ranks that are threads of one process.
TEST(Machine, ThreadsMeet) {
  auto enqueue = Libraries::get().enqueue;
  for (int seed = 0; seed < 20; ++seed) {
    Simulation machine{{"GPUS", "2"}, {"SEED", std::to_string(seed)}};
    std::vector<Pair> pairs(20);
    auto body = [&](int rank) {
      void *context = nullptr;
      EXPECT_EQ(machine.cuda.primaryContextRetain(&context, rank), success);
      EXPECT_EQ(machine.cuda.contextSetCurrent(context), success);
      void *stream = machine.makeStream();
      for (Pair &pair : pairs) {
        enqueue(stream, new Meeting("of threads", pair.arrived,
                                    rank == 0 ? pair.first : pair.second));
        EXPECT_EQ(machine.cuda.streamSynchronize(stream), success);
      }
    };
    std::thread first(body, 0), second(body, 1);
    first.join();
    second.join();
  }
}

} // namespace
