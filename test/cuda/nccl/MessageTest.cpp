//===- MessageTest.cpp - Messages of the simulated NCCL -------------------===//
#include "test/cuda/nccl/Ranks.h"
#include <atomic>

using namespace cleave::simulated;

namespace {

TEST(Message, KeepTheirOrder) {
  for (int seed = 0; seed < 100; ++seed)
    runRanks(2, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
      Address place = rank.upload(std::vector<int>{1, 2, 3, 4});
      for (int i = 0; i < 4; ++i) {
        Address at = place + uint64_t(i) * 4;
        if (rank.rank == 0)
          EXPECT_EQ(rank.send(at, 4, 1), ncclSuccess);
        else
          EXPECT_EQ(rank.receive(place + uint64_t(3 - i) * 4, 4, 0),
                    ncclSuccess);
      }
      rank.synchronize();
      if (rank.rank == 1)
        EXPECT_EQ(rank.download<int>(place, 4), (std::vector<int>{4, 3, 2, 1}));
      rank.destroy();
    });
}

/// Each rank sends to the next and receives from the one before, in a group:
/// one after the other they would wait for each other.
TEST(Message, RingInAGroup) {
  for (int seed = 0; seed < 100; ++seed)
    runRanks(
        seed % 2 ? 4 : 8, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
          Address mine = rank.upload(std::vector<int>{rank.rank});
          Address theirs = rank.allocate(4);
          int next = (rank.rank + 1) % rank.size;
          int before = (rank.rank + rank.size - 1) % rank.size;
          for (int round = 0; round < 3; ++round) {
            EXPECT_EQ(rank.nccl.groupStart(), ncclSuccess);
            EXPECT_EQ(rank.send(mine, 1, next, ncclInt32), ncclSuccess);
            EXPECT_EQ(rank.receive(theirs, 1, before, ncclInt32), ncclSuccess);
            EXPECT_EQ(rank.nccl.groupEnd(), ncclSuccess);
          }
          rank.synchronize();
          EXPECT_EQ(rank.download<int>(theirs, 1)[0], before);
          rank.destroy();
        });
}

/// Part p of the input goes to rank p, the rank itself included.
TEST(Message, Exchange) {
  for (int seed = 0; seed < 100; ++seed) {
    int size = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 4 : 8;
    runRanks(size, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
      std::vector<int> values, expected;
      for (int i = 0; i < size; ++i) {
        values.push_back(rank.rank * 100 + i);
        expected.push_back(i * 100 + rank.rank);
      }
      Address in = rank.upload(values), out = rank.allocate(4 * size_t(size));
      EXPECT_EQ(rank.nccl.groupStart(), ncclSuccess);
      for (int i = 0; i < size; ++i) {
        EXPECT_EQ(rank.send(in + uint64_t(i) * 4, 4, i), ncclSuccess);
        EXPECT_EQ(rank.receive(out + uint64_t(i) * 4, 4, i), ncclSuccess);
      }
      EXPECT_EQ(rank.nccl.groupEnd(), ncclSuccess);
      rank.synchronize();
      EXPECT_EQ(rank.download<int>(out, size_t(size)), expected);
      rank.destroy();
    });
  }
}

/// A send ends as the receiver comes: what it sends is not free before.
TEST(Message, SendWaitsForItsReceiver) {
  for (int seed = 0; seed < 50; ++seed) {
    std::atomic<bool> isAwaited{false};
    runRanks(2, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
      Address place = rank.upload(std::vector<int>{7});
      if (rank.rank == 0) {
        void *sent = nullptr;
        EXPECT_EQ(rank.cuda.eventCreate(&sent, eventDisableTiming), success);
        EXPECT_EQ(rank.send(place, 4, 1), ncclSuccess);
        EXPECT_EQ(rank.cuda.eventRecord(sent, rank.stream), success);
        for (int i = 0; i < 100; ++i)
          EXPECT_EQ(rank.cuda.eventQuery(sent), errorNotReady);
        isAwaited.store(true);
      } else {
        while (!isAwaited.load())
          std::this_thread::yield();
        EXPECT_EQ(rank.receive(place, 4, 0), ncclSuccess);
      }
      rank.synchronize();
      rank.destroy();
    });
  }
}

} // namespace
