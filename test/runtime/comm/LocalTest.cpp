//===- LocalTest.cpp - Ranks as threads -----------------------------------===//
#include "runtime/comm/World.h"
#include "test/runtime/comm/CollectiveChecks.h"
#include "test/runtime/comm/MessageChecks.h"
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

Status run(std::vector<int> mesh,
           const std::function<Status(Communicator &)> &body,
           int threadsPerRank = 1) {
  return runRanks(Mesh(std::move(mesh)), {Backend::Local, threadsPerRank, {}},
                  body);
}

TEST(Local, EveryCollectiveOnEveryGroupOfEveryMesh) {
  std::atomic<int64_t> checks = 0;
  auto meshes = getAllMeshes(8);
  for (const auto &mesh : meshes) {
    Status status = run(mesh, [&](Communicator &communicator) {
      int64_t mine = 0;
      Status result = checkAllCollectives(communicator, mine);
      checks += mine;
      return result;
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::printf("%zu meshes, %lld collectives checked on a rank\n", meshes.size(),
              static_cast<long long>(checks.load()));
  EXPECT_GT(checks.load(), 50000);
}

TEST(Local, HostCalls) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Status status = run({ranks}, checkHostCalls);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

/// Rank 1 ends before rank 0 returns what both agreed on, and so stops it.
TEST(Local, SaysWhatRanksAgreedOnThoughOneIsStopped) {
  Status status = run({2}, [](Communicator &communicator) {
    bool isFirst = communicator.getRank() == 0;
    Status agreed =
        communicator.agree(isFirst ? Status::error("a bad token") : Status());
    if (!isFirst)
      return agreed;
    while (!communicator.isAborted())
      std::this_thread::yield();
    std::vector<double> all;
    double mine = 0;
    return communicator.gatherDoubles({&mine, 1}, all);
  });
  EXPECT_EQ(status.getCode(), StatusCode::Failed);
  EXPECT_EQ(status.message(), "rank 0: a bad token");
}

/// With and without a core for every rank: the waits differ, the bits do not.
TEST(Local, SameBitsEveryTime) {
  for (ElementType type : {ElementType::F32, ElementType::BF16}) {
    std::vector<uint64_t> digests;
    for (int round = 0; round < 4; ++round) {
      Status status = run(
          {2, 2},
          [&](Communicator &communicator) {
            uint64_t digest = 0;
            CLEAVE_RETURN_IF_ERROR(
                computeDigest(communicator, 100003, type, digest));
            if (communicator.getRank() == 0)
              digests.push_back(digest);
            return Status();
          },
          round % 2 ? 1 : 1000);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    for (uint64_t digest : digests)
      EXPECT_EQ(digest, digests[0]);
  }
}

TEST(Local, OneRanksFailureStopsAll) {
  for (int failing = 0; failing < 4; ++failing) {
    auto begin = std::chrono::steady_clock::now();
    std::atomic<int> stopped = 0;
    Status status = run({2, 2}, [&](Communicator &comm) -> Status {
      const Group *world, *tp;
      CLEAVE_RETURN_IF_ERROR(comm.getWorldGroup(world));
      const uint8_t axis = 1;
      CLEAVE_RETURN_IF_ERROR(comm.getGroup({&axis, 1}, tp));
      for (int i = 0; i < 100; ++i) {
        if (i == 50 && comm.getRank() == failing)
          return Status::error("disk on fire");
        float value = 1;
        Status result = comm.allReduce(i % 2 ? *world : *tp, &value, &value, 1,
                                       ElementType::F32, Reduction::Sum);
        if (!result.ok()) {
          ++stopped;
          EXPECT_EQ(result.getCode(), StatusCode::Aborted);
          return result;
        }
      }
      return Status::error("was not stopped");
    });
    EXPECT_EQ(status.message(),
              "rank " + std::to_string(failing) + ": disk on fire");
    EXPECT_EQ(stopped.load(), 3);
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(5));
  }
}

/// A rank that stops must not free what its peers still read: each round, one
/// rank fails at some point, and buffers die with the ranks.
TEST(Local, NoBufferIsReadAfterItsRankStopped) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    int failing = int(random() % 8), when = int(random() % 6);
    Status status = run({8}, [&](Communicator &comm) -> Status {
      const Group *world;
      CLEAVE_RETURN_IF_ERROR(comm.getWorldGroup(world));
      std::vector<float> in(20000, 1), out(in.size());
      for (int i = 0; i < 10; ++i) {
        if (i == when && comm.getRank() == failing)
          return Status::error("stop");
        CLEAVE_RETURN_IF_ERROR(comm.allReduce(*world, in.data(), out.data(),
                                              in.size(), ElementType::F32,
                                              Reduction::Sum));
        if (out[i] != 8 || out.back() != 8)
          return Status::error("wrong sum");
      }
      return {};
    });
    ASSERT_EQ(status.message(), "rank " + std::to_string(failing) + ": stop");
  }
}

TEST(Local, MessagesOfManyChannels) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    Status status = run({ranks}, checkMessages);
    EXPECT_TRUE(status.ok()) << status.message();
    status =
        run({ranks}, [](Communicator &comm) { return checkRing(comm, 300); });
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(Local, OneRanksFailureStopsWhoWaitsForAMessage) {
  auto begin = std::chrono::steady_clock::now();
  std::atomic<int> stopped = 0;
  Status status = run({4}, [&](Communicator &comm) -> Status {
    float value = 1;
    if (comm.getRank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return Status::error("disk on fire");
    }
    // Of a rank that will fail, and of one that waits itself.
    int from = comm.getRank() == 3 ? 0 : 2;
    RankPosition position;
    comm.setPosition(&position);
    Status result = comm.receive(from, 0, &value, sizeof(value));
    comm.setPosition(nullptr);
    EXPECT_FALSE(position.read().isWaiting());
    EXPECT_EQ(position.read().axes, uint64_t(from));
    EXPECT_EQ(result.getCode(), StatusCode::Aborted);
    ++stopped;
    return result;
  });
  EXPECT_EQ(status.message(), "rank 2: disk on fire");
  EXPECT_EQ(stopped.load(), 3);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Local, AMessageOfAnotherSizeIsNamed) {
  Status status = run({2}, [](Communicator &comm) -> Status {
    char bytes[8] = {};
    if (comm.getRank() == 0)
      return comm.send(1, 3, bytes, 4);
    return comm.receive(0, 3, bytes, 8);
  });
  EXPECT_EQ(status.message(), "rank 1: the message of rank 0 on channel 3 has "
                              "4 bytes, expects 8");
}

TEST(Local, AgreedFailuresAreSaidOnce) {
  Status status = run({4}, [](Communicator &comm) {
    Status failure = comm.agree(Status::error("data.bin: does not exist"));
    EXPECT_TRUE(comm.hasAgreedToFail());
    EXPECT_EQ(failure.getCode(),
              comm.getRank() == 0 ? StatusCode::Failed : StatusCode::Aborted);
    return failure;
  });
  EXPECT_EQ(status.message(), "data.bin: does not exist");
  status = run({4}, [](Communicator &comm) {
    return comm.agree(comm.getRank() >= 2 ? Status::error("disk full")
                                          : Status());
  });
  EXPECT_EQ(status.getCode(), StatusCode::Failed);
  EXPECT_EQ(status.message(), "rank 2: disk full");
}

TEST(Local, DifferentCallsAreNamed) {
  Status status = run({2}, [](Communicator &comm) -> Status {
    const Group *world;
    CLEAVE_RETURN_IF_ERROR(comm.getWorldGroup(world));
    float values[8] = {};
    return comm.allReduce(*world, values, values, comm.getRank() + 4,
                          ElementType::F32, Reduction::Sum);
  });
  EXPECT_NE(status.message().find("call different collectives"),
            std::string::npos)
      << status.message();
}

TEST(Local, ExceptionsBecomeFailures) {
  Status status = run({2}, [](Communicator &comm) -> Status {
    if (comm.getRank() == 1)
      throw std::bad_alloc();
    const Group *world;
    CLEAVE_RETURN_IF_ERROR(comm.getWorldGroup(world));
    return comm.barrier(*world);
  });
  EXPECT_EQ(status.message(), "rank 1: out of memory");
}

TEST(Local, SingleRanksSayNoNumber) {
  Status status =
      run({1}, [](Communicator &) { return Status::error("no such file"); });
  EXPECT_EQ(status.message(), "no such file");
}

} // namespace
