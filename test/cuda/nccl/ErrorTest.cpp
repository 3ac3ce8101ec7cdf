//===- ErrorTest.cpp - Errors of the simulated NCCL -----------------------===//
#include "test/cuda/nccl/Ranks.h"

using namespace cleave::simulated;

namespace {

/// What is said on stderr while ranks run.
template <typename... Args>
std::string getErrors(Args &&...args) {
  testing::internal::CaptureStderr();
  runRanks(std::forward<Args>(args)...);
  return testing::internal::GetCapturedStderr();
}

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

/// Both ranks end with a failure of the machine.
std::string failTogether(int seed, const std::function<void(Rank &)> &enqueue,
                         const char *patience = "30") {
  return getErrors(2,
                   Simulation::Settings{{"SEED", std::to_string(seed)},
                                        {"PATIENCE", patience}},
                   [&](Rank &rank) {
                     enqueue(rank);
                     rank.meet();
                     EXPECT_NE(rank.cuda.streamSynchronize(rank.stream),
                               success);
                   });
}

TEST(Error, CountsThatDiffer) {
  for (int seed = 0; seed < 10; ++seed) {
    std::string text = failTogether(seed, [](Rank &rank) {
      Address place = rank.allocate(64);
      EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
      EXPECT_EQ(rank.allReduce(place, place, 4 + size_t(rank.rank)),
                ncclSuccess);
    });
    EXPECT_HAS(text, "collective 2 of the communicator: rank ");
    EXPECT_HAS(text, "calls ncclAllReduce of 4 float32 (sum)");
    EXPECT_HAS(text, "calls ncclAllReduce of 5 float32 (sum)");
  }
}

TEST(Error, TypesThatDiffer) {
  std::string text = failTogether(1, [](Rank &rank) {
    Address place = rank.allocate(64);
    EXPECT_EQ(rank.allReduce(place, place, 4,
                             rank.rank ? ncclInt32 : ncclFloat32, ncclMax),
              ncclSuccess);
  });
  EXPECT_HAS(text, "of 4 float32 (max)");
  EXPECT_HAS(text, "of 4 int32 (max)");
}

TEST(Error, WrongOrder) {
  for (int seed = 0; seed < 10; ++seed) {
    std::string text = failTogether(seed, [](Rank &rank) {
      Address place = rank.allocate(64), other = rank.allocate(64);
      for (int i = 0; i < 2; ++i)
        if (i == rank.rank)
          EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
        else
          EXPECT_EQ(rank.allGather(place, other, 4), ncclSuccess);
    });
    EXPECT_HAS(text, "collective 1 of the communicator: rank ");
    EXPECT_HAS(text, "calls ncclAllGather of 4 int8");
  }
}

TEST(Error, GroupsThatDiffer) {
  std::string text = failTogether(3, [](Rank &rank) {
    Address place = rank.allocate(64);
    EXPECT_EQ(rank.nccl.groupStart(), ncclSuccess);
    for (int i = 0; i <= rank.rank; ++i)
      EXPECT_EQ(
          rank.allReduce(place + uint64_t(i) * 16, place + uint64_t(i) * 16, 4),
          ncclSuccess);
    EXPECT_EQ(rank.nccl.groupEnd(), ncclSuccess);
  });
  EXPECT_HAS(text, "rank 0 has 1");
  EXPECT_HAS(text, "rank 1 has 2");
}

TEST(Error, MessagesThatDiffer) {
  for (int seed = 0; seed < 10; ++seed) {
    std::string text = getErrors(
        2, Simulation::Settings{{"SEED", std::to_string(seed)}},
        [](Rank &rank) {
          Address place = rank.allocate(64);
          if (rank.rank == 0)
            EXPECT_EQ(rank.send(place, 8, 1), ncclSuccess);
          else
            EXPECT_EQ(rank.receive(place, 2, 0, ncclFloat32), ncclSuccess);
          // The sender may be done before the receiver looks.
          int code = rank.cuda.streamSynchronize(rank.stream);
          if (rank.rank == 1)
            EXPECT_NE(code, success);
        });
    EXPECT_HAS(text, "rank 0 calls ncclSend of 8 int8 to rank 1, which calls "
                     "ncclRecv of 2 float32");
  }
}

TEST(Error, SendWithoutReceive) {
  for (int seed = 0; seed < 10; ++seed) {
    std::string text = failTogether(seed, [](Rank &rank) {
      Address place = rank.allocate(64);
      if (rank.rank == 0)
        EXPECT_EQ(rank.send(place, 8, 1), ncclSuccess);
      else
        EXPECT_EQ(rank.receive(place, 8, 1 - rank.rank), ncclSuccess);
      EXPECT_EQ(rank.send(place, 8, 1 - rank.rank), ncclSuccess);
    });
    EXPECT_HAS(text, "deadlock: nothing can go on");
    EXPECT_HAS(text, "ncclSend of 8 int8 to rank 0 by rank 1 of 2");
    EXPECT_HAS(text, "it is message 2 between them, rank 1 has begun to "
                     "receive 1 so far");
  }
}

TEST(Error, RankThatDoesNotCome) {
  for (int seed = 0; seed < 10; ++seed) {
    std::string text = getErrors(
        3, Simulation::Settings{{"SEED", std::to_string(seed)}},
        [](Rank &rank) {
          Address place = rank.allocate(64);
          if (rank.rank == 2)
            return;
          EXPECT_EQ(rank.allReduce(place, place, 8), ncclSuccess);
          EXPECT_NE(rank.cuda.streamSynchronize(rank.stream), success);
        });
    EXPECT_HAS(text, "deadlock: nothing can go on");
    EXPECT_HAS(text, "it is the communicator's collective 1, rank 2 has begun "
                     "0 so far");
  }
}

/// A thread that only polls does not tell the machine that it waits.
TEST(Error, DeadlockOfWhoPolls) {
  std::string text =
      getErrors(2, Simulation::Settings{{"PATIENCE", "0.3"}}, [](Rank &rank) {
        Address place = rank.allocate(64);
        if (rank.rank == 1)
          return;
        EXPECT_EQ(rank.allReduce(place, place, 8), ncclSuccess);
        void *done = nullptr;
        EXPECT_EQ(rank.cuda.eventCreate(&done, eventDisableTiming), success);
        EXPECT_EQ(rank.cuda.eventRecord(done, rank.stream), success);
        int code = errorNotReady;
        while (code == errorNotReady)
          code = rank.cuda.eventQuery(done);
        EXPECT_NE(code, success);
      });
  EXPECT_HAS(text, "deadlock: ");
  EXPECT_HAS(text, "rank 1 has begun 0 so far");
}

TEST(Error, UnknownCommunicator) {
  std::string text = getErrors(1, Simulation::Settings{}, [](Rank &rank) {
    Address place = rank.allocate(64);
    Rank wrong = rank;
    wrong.comm = &wrong;
    EXPECT_EQ(wrong.allReduce(place, place, 4), ncclInvalidArgument);
    EXPECT_HAS(std::string(rank.nccl.getLastError(nullptr)),
               "there is no such communicator");
    rank.destroy();
    EXPECT_EQ(rank.allReduce(place, place, 4), ncclInvalidArgument);
    EXPECT_HAS(std::string(rank.nccl.getLastError(nullptr)), "was destroyed");
    EXPECT_EQ(rank.nccl.commDestroy(rank.comm), ncclInvalidArgument);
    EXPECT_EQ(rank.nccl.groupEnd(), ncclInvalidUsage);
  });
}

TEST(Error, Operands) {
  getErrors(2, Simulation::Settings{}, [](Rank &rank) {
    Address place = rank.allocate(64);
    EXPECT_EQ(rank.allReduce(place, place + 4, 4), ncclInvalidArgument);
    EXPECT_EQ(rank.allReduce(place, place, 4, ncclInt8), ncclInvalidArgument);
    EXPECT_EQ(rank.allGather(place, place, 4, 6), ncclInvalidArgument);
    EXPECT_EQ(rank.send(place, 4, 2), ncclInvalidArgument);
    EXPECT_EQ(rank.send(place, 4, rank.rank), ncclInvalidUsage);
    // An error in a group is its result, and nothing of it begins.
    EXPECT_EQ(rank.nccl.groupStart(), ncclSuccess);
    EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
    EXPECT_EQ(rank.send(place, 4, 2), ncclInvalidArgument);
    EXPECT_EQ(rank.nccl.groupEnd(), ncclInvalidArgument);
    rank.synchronize();
    rank.destroy();
  });
}

TEST(Error, OutOfBounds) {
  std::string text = failTogether(1, [](Rank &rank) {
    Address place = rank.allocate(16);
    EXPECT_EQ(rank.allReduce(place, place, 5), ncclSuccess);
  });
  EXPECT_HAS(text, "ncclAllReduce of 5 float32 (sum) by rank ");
  EXPECT_HAS(text, "the input: 20 bytes");
}

/// A stream that does not wait for a collective writes to what it has.
std::string race(int seed, bool isInput) {
  return getErrors(
      2, Simulation::Settings{{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
        void *other = nullptr;
        EXPECT_EQ(rank.cuda.streamCreate(&other, streamNonBlocking), success);
        Address in = rank.upload(makeFloats(rank.rank, 4));
        Address out = rank.allocate(16);
        EXPECT_EQ(rank.allReduce(in, out, 4), ncclSuccess);
        EXPECT_EQ(rank.cuda.memsetAsync(isInput ? in : out, 1, 16, other),
                  success);
        rank.meet();
        rank.cuda.contextSynchronize();
      });
}

TEST(Error, RacesAreSeen) {
  for (bool isInput : {true, false}) {
    int seen = 0;
    for (int seed = 0; seed < 100; ++seed)
      seen += race(seed, isInput)
                  .find(isInput ? "its input was written while it ran"
                                : "its output was written while it ran") !=
              std::string::npos;
    EXPECT_GT(seen, 10);
  }
}

TEST(Error, OneGpuTwice) {
  std::string text = getErrors(
      2, Simulation::Settings{},
      [](Rank &rank) {
        Address place = rank.allocate(16);
        EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
        rank.meet();
        EXPECT_NE(rank.cuda.streamSynchronize(rank.stream), success);
      },
      "", [](int) { return 1; });
  EXPECT_HAS(text, "duplicate GPU: rank ");
}

TEST(Error, OneCommunicatorInTwoStreams) {
  int seen = 0;
  for (int seed = 0; seed < 50; ++seed) {
    std::string text = getErrors(
        2, Simulation::Settings{{"SEED", std::to_string(seed)}},
        [](Rank &rank) {
          Rank other = rank;
          EXPECT_EQ(rank.cuda.streamCreate(&other.stream, streamNonBlocking),
                    success);
          Address place = rank.allocate(32);
          EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
          EXPECT_EQ(other.allReduce(place + 16, place + 16, 4), ncclSuccess);
          rank.meet();
          rank.cuda.contextSynchronize();
        });
    seen += text.find("in another stream") != std::string::npos;
  }
  EXPECT_GT(seen, 10);
}

TEST(Error, GraphOutlivesItsCommunicator) {
  std::string text = getErrors(2, Simulation::Settings{}, [](Rank &rank) {
    Address place = rank.upload(makeFloats(rank.rank, 4));
    void *graph = nullptr, *exec = nullptr;
    EXPECT_EQ(rank.cuda.streamBeginCapture(rank.stream, captureThreadLocal),
              success);
    EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
    EXPECT_EQ(rank.cuda.streamEndCapture(rank.stream, &graph), success);
    EXPECT_EQ(rank.cuda.graphInstantiate(&exec, graph, 0), success);
    EXPECT_EQ(rank.cuda.graphDestroy(graph), success);
    EXPECT_EQ(rank.cuda.graphLaunch(exec, rank.stream), success);
    rank.synchronize();
    EXPECT_EQ(rank.nccl.commDestroy(rank.comm), ncclInternalError);
    rank.meet();
    EXPECT_EQ(rank.cuda.graphLaunch(exec, rank.stream), success);
    rank.meet();
    EXPECT_NE(rank.cuda.streamSynchronize(rank.stream), success);
  });
  EXPECT_HAS(text, "a graph that was captured with its operations was not "
                   "destroyed before");
  EXPECT_HAS(text, "the communicator was destroyed before");
}

TEST(Error, DestroyedInAnotherOrder) {
  NcclId second;
  ASSERT_EQ(getNccl().getUniqueId(&second), ncclSuccess);
  std::string text =
      getErrors(2, Simulation::Settings{{"PATIENCE", "0.2"}}, [&](Rank &rank) {
        Rank other = rank;
        EXPECT_EQ(rank.nccl.commInitRank(&other.comm, 2, second, rank.rank),
                  ncclSuccess);
        EXPECT_EQ(
            rank.nccl.commDestroy(rank.rank == 0 ? rank.comm : other.comm),
            ncclInternalError);
      });
  EXPECT_HAS(text, "ranks destroy their communicators in the same order");
}

/// What is in flight ends as its rank aborts, and its peers are told.
TEST(Error, Abort) {
  for (int seed = 0; seed < 50; ++seed)
    getErrors(2, Simulation::Settings{{"SEED", std::to_string(seed)}},
              [](Rank &rank) {
                Address place = rank.allocate(16);
                if (rank.rank == 0) {
                  EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
                  EXPECT_EQ(rank.cuda.memsetAsync(place, 0, 16, rank.stream),
                            success);
                  EXPECT_EQ(rank.nccl.commAbort(rank.comm), ncclSuccess);
                  rank.synchronize();
                  EXPECT_EQ(rank.download<int>(place, 1)[0], 0);
                } else {
                  EXPECT_EQ(rank.waitForError(), ncclRemoteError);
                  EXPECT_HAS(std::string(rank.nccl.getLastError(nullptr)),
                             "rank 0 has aborted");
                  EXPECT_EQ(rank.nccl.commAbort(rank.comm), ncclSuccess);
                }
              });
}

/// An operation that is behind another communicator's in one stream ends only
/// where both are aborted together.
void abortTwo(bool isGroup) {
  NcclId second;
  ASSERT_EQ(getNccl().getUniqueId(&second), ncclSuccess);
  int result = ncclSuccess;
  std::string text = getErrors(
      2, Simulation::Settings{{"PATIENCE", isGroup ? "30" : "0.2"}},
      [&](Rank &rank) {
        Rank other = rank;
        EXPECT_EQ(rank.nccl.commInitRank(&other.comm, 2, second, rank.rank),
                  ncclSuccess);
        if (rank.rank == 1)
          return;
        Address place = rank.allocate(16);
        EXPECT_EQ(other.allReduce(place, place, 4), ncclSuccess);
        EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
        if (isGroup)
          EXPECT_EQ(rank.nccl.groupStart(), ncclSuccess);
        result = rank.nccl.commAbort(rank.comm);
        rank.nccl.commAbort(other.comm);
        if (isGroup)
          result = rank.nccl.groupEnd();
      });
  bool isHung =
      result != ncclSuccess || text.find("deadlock: ") != std::string::npos;
  EXPECT_EQ(isHung, !isGroup) << text;
}

TEST(Error, AbortOfSeveralInAGroup) {
  abortTwo(false);
  abortTwo(true);
}

TEST(Error, WishedInFlight) {
  for (int seed = 0; seed < 20; ++seed)
    getErrors(
        2,
        Simulation::Settings{{"SEED", std::to_string(seed)}, {"PATIENCE", "5"}},
        [](Rank &rank) {
          Address place = rank.allocate(16);
          EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
          EXPECT_EQ(rank.allReduce(place, place, 4), ncclSuccess);
          void *done = nullptr;
          EXPECT_EQ(rank.cuda.eventCreate(&done, eventDisableTiming), success);
          EXPECT_EQ(rank.cuda.eventRecord(done, rank.stream), success);
          int code = errorNotReady, error = ncclSuccess;
          while (code == errorNotReady && error == ncclSuccess) {
            code = rank.cuda.eventQuery(done);
            EXPECT_EQ(rank.nccl.commGetAsyncError(rank.comm, &error),
                      ncclSuccess);
          }
          EXPECT_EQ(error, ncclRemoteError);
          EXPECT_EQ(rank.nccl.commAbort(rank.comm), ncclSuccess);
          rank.synchronize();
        },
        "nccl-error@2");
}

TEST(Error, OldVersion) {
  setenv("CLEAVE_SIMULATED_FAULT", "nccl-old", 1);
  int version = 0;
  EXPECT_EQ(getNccl().getVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 21003);
  unsetenv("CLEAVE_SIMULATED_FAULT");
  EXPECT_EQ(getNccl().getVersion(&version), ncclSuccess);
  EXPECT_GE(version, 21800);
}

TEST(Error, NoId) {
  setenv("CLEAVE_SIMULATED_FAULT", "nccl-id", 1);
  NcclId id;
  testing::internal::CaptureStderr();
  EXPECT_NE(getNccl().getUniqueId(&id), ncclSuccess);
  EXPECT_HAS(testing::internal::GetCapturedStderr(), "no socket interface");
  unsetenv("CLEAVE_SIMULATED_FAULT");
}

TEST(Error, Ids) {
  runRanks(1, {}, [](Rank &rank) {
    testing::internal::CaptureStderr();
    void *comm = nullptr;
    NcclId id{};
    EXPECT_EQ(rank.nccl.commInitRank(&comm, 1, id, 0), ncclInvalidArgument);
    EXPECT_EQ(rank.nccl.getUniqueId(&id), ncclSuccess);
    EXPECT_EQ(rank.nccl.commInitRank(&comm, 1, id, 1), ncclInvalidArgument);
    EXPECT_EQ(rank.nccl.commInitRank(&comm, 1, id, 0), ncclSuccess);
    // All of its ranks are there.
    void *other = nullptr;
    EXPECT_EQ(rank.nccl.commInitRank(&other, 1, id, 0), ncclInvalidArgument);
    EXPECT_EQ(rank.nccl.commDestroy(comm), ncclSuccess);
    testing::internal::GetCapturedStderr();
    rank.destroy();
  });
}

TEST(Error, MissingRankAtTheStart) {
  runRanks(1, {{"PATIENCE", "0.2"}}, [](Rank &rank) {
    testing::internal::CaptureStderr();
    NcclId id;
    void *comm = nullptr;
    EXPECT_EQ(rank.nccl.getUniqueId(&id), ncclSuccess);
    EXPECT_NE(rank.nccl.commInitRank(&comm, 3, id, 1), ncclSuccess);
    EXPECT_HAS(testing::internal::GetCapturedStderr(),
               "rank 1 of 3 waits for rank 0, rank 2, which did not come");
    rank.destroy();
  });
}

} // namespace
