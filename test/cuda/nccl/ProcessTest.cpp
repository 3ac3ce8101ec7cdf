//===- ProcessTest.cpp - Ranks of the simulated NCCL that are processes ---===//
#include "test/cuda/nccl/Ranks.h"
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::simulated;

namespace {

/// A process for each rank, with a machine of its own. Returns their ends, as
/// waitpid has them; 0 where nothing was amiss.
std::vector<int> runProcesses(int size, Simulation::Settings settings,
                              const std::function<void(Rank &)> &body) {
  settings.emplace("GPUS", std::to_string(size));
  settings.emplace("MEMORY", std::to_string(16 << 20));
  settings.emplace("THREADS", "1");
  NcclId id;
  EXPECT_EQ(getNccl().getUniqueId(&id), ncclSuccess);
  std::vector<pid_t> children;
  for (int i = 0; i < size; ++i) {
    pid_t child = fork();
    if (child == 0) {
      Simulation::reset(settings);
      EXPECT_EQ(Libraries::get().driver.init(0), success);
      Rank rank(i, size, id, i);
      body(rank);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  std::vector<int> ends;
  for (pid_t child : children) {
    int end = -1;
    EXPECT_EQ(waitpid(child, &end, 0), child);
    ends.push_back(end);
  }
  return ends;
}

TEST(Process, CollectivesAndMessages) {
  for (int seed = 0; seed < 100; ++seed) {
    int size = seed % 10 == 9 ? 8 : seed % 2 ? 4 : 2;
    std::vector<int> ends =
        runProcesses(size, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
          constexpr size_t count = 24;
          std::vector<float> sum = makeFloats(0, count);
          for (int other = 1; other < size; ++other) {
            std::vector<float> values = makeFloats(other, count);
            for (size_t i = 0; i < count; ++i)
              sum[i] += values[i];
          }
          Address place = rank.upload(makeFloats(rank.rank, count));
          Address part = rank.allocate(count * 4), all = rank.allocate(96);
          Address from = rank.allocate(4);
          size_t own = count / size_t(size);
          for (int step = 0; step < 3; ++step) {
            rank.write(place, makeFloats(rank.rank, count));
            EXPECT_EQ(rank.reduceScatter(place, part, own), ncclSuccess);
            EXPECT_EQ(rank.allGather(part, all, own * 4), ncclSuccess);
            EXPECT_EQ(rank.allReduce(place, place, count), ncclSuccess);
            EXPECT_EQ(rank.nccl.groupStart(), ncclSuccess);
            EXPECT_EQ(rank.send(place, 4, (rank.rank + 1) % size), ncclSuccess);
            EXPECT_EQ(rank.receive(from, 4, (rank.rank + size - 1) % size),
                      ncclSuccess);
            EXPECT_EQ(rank.nccl.groupEnd(), ncclSuccess);
            rank.synchronize();
            EXPECT_EQ(rank.download<float>(place, count), sum);
            EXPECT_EQ(rank.download<float>(all, count), sum);
            EXPECT_EQ(rank.download<float>(from, 1)[0], sum[0]);
          }
          rank.destroy();
        });
    EXPECT_EQ(ends, std::vector<int>(size_t(size), 0)) << "seed " << seed;
  }
}

TEST(Process, EndOfOneIsTold) {
  std::vector<int> ends = runProcesses(3, {{"PATIENCE", "20"}}, [](Rank &rank) {
    Address place = rank.allocate(16);
    if (rank.rank == 1)
      _exit(0);
    EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
    EXPECT_EQ(rank.waitForError(), ncclRemoteError);
    // Of the one that has ended, or of the other, which has heard of it.
    std::string text = rank.nccl.getLastError(nullptr);
    EXPECT_TRUE(text.find("the process of rank 1 has ended") !=
                    std::string::npos ||
                text.find("has aborted") != std::string::npos)
        << text;
    EXPECT_EQ(rank.nccl.commAbort(rank.comm), ncclSuccess);
    rank.synchronize();
  });
  EXPECT_EQ(ends, std::vector<int>(3, 0));
}

/// Each process sees it by itself, or is told.
TEST(Process, WrongOrder) {
  std::vector<int> ends = runProcesses(2, {{"PATIENCE", "1"}}, [](Rank &rank) {
    Address place = rank.allocate(16), other = rank.allocate(16);
    for (int i = 0; i < 2; ++i)
      if (i == rank.rank)
        EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
      else
        EXPECT_EQ(rank.allGather(place, other, 8), ncclSuccess);
    testing::internal::CaptureStderr();
    EXPECT_NE(rank.cuda.streamSynchronize(rank.stream), success);
    testing::internal::GetCapturedStderr();
    EXPECT_NE(rank.waitForError(), ncclSuccess);
    EXPECT_NE(std::string(rank.nccl.getLastError(nullptr))
                  .find("collective 1 of the communicator: rank "),
              std::string::npos);
  });
  EXPECT_EQ(ends, std::vector<int>(2, 0));
}

TEST(Process, Deadlock) {
  std::vector<int> ends =
      runProcesses(2, {{"PATIENCE", "0.5"}}, [](Rank &rank) {
        Address place = rank.allocate(16);
        if (rank.rank == 1) {
          rank.waitForError();
          return;
        }
        EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
        testing::internal::CaptureStderr();
        EXPECT_NE(rank.cuda.streamSynchronize(rank.stream), success);
        std::string text = testing::internal::GetCapturedStderr();
        EXPECT_NE(text.find("rank 1 has begun 0 so far"), std::string::npos)
            << text;
        rank.nccl.commAbort(rank.comm);
      });
  EXPECT_EQ(ends, std::vector<int>(2, 0));
}

TEST(Process, NothingIsLeft) {
  char folder[] = "/tmp/cleave-test-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder));
  setenv("TMPDIR", folder, 1);
  std::vector<int> ends = runProcesses(2, {}, [](Rank &rank) {
    Address place = rank.allocate(16);
    EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
    rank.synchronize();
  });
  unsetenv("TMPDIR");
  EXPECT_EQ(ends, std::vector<int>(2, 0));
  // Which it is only where it is empty.
  EXPECT_EQ(rmdir(folder), 0);
}

} // namespace
