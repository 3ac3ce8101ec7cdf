//===- CollectiveTest.cpp - Collectives of the simulated NCCL -------------===//
#include "runtime/comm/Reduce.h"
#include "test/cuda/nccl/Ranks.h"
#include <cstring>

using namespace cleave::simulated;
using cleave::runtime::ElementType;
using cleave::runtime::Reduction;

namespace {

using Bytes = std::vector<char>;

struct Type {
  int nccl;
  ElementType type;
};
constexpr Type types[] = {{ncclFloat32, ElementType::F32},
                          {ncclBfloat16, ElementType::BF16},
                          {ncclInt32, ElementType::I32}};

/// A rank's input as bytes of the type.
Bytes makeInput(ElementType type, int rank, size_t count, int salt) {
  std::vector<float> values = makeFloats(rank, count, salt);
  Bytes bytes(count * cleave::runtime::getElementBytes(type));
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], 4);
    if (type == ElementType::BF16)
      bits >>= 16;
    std::memcpy(bytes.data() + i * bytes.size() / count, &bits,
                bytes.size() / count);
  }
  return bytes;
}

/// What the CPU's communicator has, of all ranks' inputs.
Bytes reduce(ElementType type, int ranks, size_t count, int salt,
             Reduction reduction) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank)
    inputs.push_back(makeInput(type, rank, count, salt));
  std::vector<const void *> pointers;
  for (const Bytes &input : inputs)
    pointers.push_back(input.data());
  Bytes result(inputs[0].size());
  void *out = result.data();
  cleave::runtime::reduceInOrder(pointers, {&out, 1}, count, type, reduction);
  return result;
}

/// Every collective of every type, as the CPU has it to the bit.
void checkAll(Rank &rank, int salt) {
  constexpr size_t count = 72;
  for (const Type &type : types)
    for (Reduction reduction : {Reduction::Sum, Reduction::Max}) {
      int op = reduction == Reduction::Sum ? ncclSum : ncclMax;
      uint64_t element = cleave::runtime::getElementBytes(type.type);
      Bytes expected = reduce(type.type, rank.size, count, salt, reduction);
      Address in = rank.upload(makeInput(type.type, rank.rank, count, salt));
      Address out = rank.allocate(count * element);
      EXPECT_EQ(rank.allReduce(in, out, count, type.nccl, op), ncclSuccess);
      // In place, behind the other.
      EXPECT_EQ(rank.allReduce(in, in, count, type.nccl, op), ncclSuccess);
      rank.synchronize();
      EXPECT_EQ(rank.download<char>(out, count * element), expected);
      EXPECT_EQ(rank.download<char>(in, count * element), expected);

      size_t part = count / size_t(rank.size);
      rank.write(in, makeInput(type.type, rank.rank, count, salt));
      Bytes mine(expected.begin() + rank.rank * int64_t(part * element),
                 expected.begin() + (rank.rank + 1) * int64_t(part * element));
      EXPECT_EQ(rank.reduceScatter(in, out, part, type.nccl, op), ncclSuccess);
      rank.synchronize();
      EXPECT_EQ(rank.download<char>(out, part * element), mine);
      Address place = in + uint64_t(rank.rank) * part * element;
      EXPECT_EQ(rank.reduceScatter(in, place, part, type.nccl, op),
                ncclSuccess);
      rank.synchronize();
      EXPECT_EQ(rank.download<char>(place, part * element), mine);

      // Of what all have now, and of that in place.
      Address gathered = rank.allocate(part * element * size_t(rank.size));
      EXPECT_EQ(rank.allGather(place, gathered, part, type.nccl), ncclSuccess);
      EXPECT_EQ(rank.allGather(place, in, part * element), ncclSuccess);
      rank.synchronize();
      expected.resize(part * element * size_t(rank.size));
      EXPECT_EQ(rank.download<char>(gathered, expected.size()), expected);
      EXPECT_EQ(rank.download<char>(in, expected.size()), expected);
    }
}

TEST(Collective, AllOfThemAsOnTheCpu) {
  for (int seed = 0; seed < 100; ++seed) {
    int size = seed % 10 == 9 ? 8 : seed % 3 == 2 ? 4 : 2;
    runRanks(size, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
      checkAll(rank, seed);
      rank.destroy();
    });
  }
}

TEST(Collective, Large) {
  runRanks(2, {}, [&](Rank &rank) {
    constexpr size_t count = 1 << 18;
    for (int salt = 0; salt < 3; ++salt) {
      // Larger ones behind smaller ones and the other way round.
      size_t part = count >> (salt == 1 ? 4 : 1);
      Address in = rank.upload(makeFloats(rank.rank, part, salt));
      EXPECT_EQ(rank.allReduce(in, in, part), ncclSuccess);
      rank.synchronize();
      std::vector<float> first = makeFloats(0, part, salt),
                         second = makeFloats(1, part, salt);
      for (size_t i = 0; i < part; ++i)
        first[i] += second[i];
      EXPECT_EQ(rank.download<float>(in, part), first);
    }
    rank.destroy();
  });
}

/// A bucket begins together, and streams wait for it.
TEST(Collective, Bucket) {
  for (int seed = 0; seed < 100; ++seed)
    runRanks(
        seed % 2 ? 2 : 4, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
          std::vector<Address> places;
          EXPECT_EQ(rank.nccl.groupStart(), ncclSuccess);
          for (size_t i = 0; i < 3; ++i) {
            places.push_back(
                rank.upload(std::vector<int>(10 + i, 1 << (rank.rank * 4))));
            EXPECT_EQ(rank.allReduce(places[i], places[i], 10 + i, ncclInt32),
                      ncclSuccess);
          }
          EXPECT_EQ(rank.nccl.groupEnd(), ncclSuccess);
          rank.synchronize();
          int sum = rank.size == 2 ? 0x11 : 0x1111;
          for (size_t i = 0; i < 3; ++i)
            EXPECT_EQ(rank.download<int>(places[i], 10 + i),
                      std::vector<int>(10 + i, sum));
          rank.destroy();
        });
}

/// Two communicators of the same ranks in two streams, of which each rank
/// enqueues another one first; replayed, with other input each time.
TEST(Collective, CapturedAndReplayed) {
  for (int seed = 0; seed < 100; ++seed) {
    NcclId second;
    ASSERT_EQ(getNccl().getUniqueId(&second), ncclSuccess);
    runRanks(2, {{"SEED", std::to_string(seed)}}, [&](Rank &rank) {
      const DriverApi &cuda = rank.cuda;
      Rank other = rank;
      EXPECT_EQ(cuda.streamCreate(&other.stream, streamNonBlocking), success);
      EXPECT_EQ(rank.nccl.commInitRank(&other.comm, 2, second, rank.rank),
                ncclSuccess);
      void *host = nullptr;
      EXPECT_EQ(cuda.memHostAlloc(&host, 8, 0), success);
      auto *values = static_cast<int *>(host);
      Address place = rank.allocate(4), gathered = rank.allocate(8);
      Address sum = rank.allocate(8);
      void *begin = nullptr, *end = nullptr;
      EXPECT_EQ(cuda.eventCreate(&begin, eventDisableTiming), success);
      EXPECT_EQ(cuda.eventCreate(&end, eventDisableTiming), success);
      auto enqueue = [&] {
        EXPECT_EQ(cuda.copyHostToDeviceAsync(place, values, 4, rank.stream),
                  success);
        EXPECT_EQ(
            cuda.copyHostToDeviceAsync(sum + 4, values + 1, 4, rank.stream),
            success);
        EXPECT_EQ(cuda.eventRecord(begin, rank.stream), success);
        EXPECT_EQ(cuda.streamWaitEvent(other.stream, begin, 0), success);
        auto reduce = [&] {
          EXPECT_EQ(other.allReduce(sum + 4, sum, 1, ncclInt32), ncclSuccess);
        };
        if (rank.rank == 0)
          reduce();
        EXPECT_EQ(rank.allGather(place, gathered, 4), ncclSuccess);
        if (rank.rank == 1)
          reduce();
        EXPECT_EQ(cuda.eventRecord(end, other.stream), success);
        EXPECT_EQ(cuda.streamWaitEvent(rank.stream, end, 0), success);
      };
      auto check = [&](int base) {
        rank.synchronize();
        EXPECT_EQ(rank.download<int>(gathered, 2),
                  (std::vector<int>{base, base + 1}));
        EXPECT_EQ(rank.download<int>(sum, 1)[0], 2 * base + 21);
      };
      auto prepare = [&](int base) {
        values[0] = base + rank.rank;
        values[1] = base + 10 + rank.rank;
      };
      prepare(1);
      enqueue();
      check(1);
      void *graph = nullptr, *exec = nullptr;
      EXPECT_EQ(cuda.streamBeginCapture(rank.stream, captureThreadLocal),
                success);
      enqueue();
      EXPECT_EQ(cuda.streamEndCapture(rank.stream, &graph), success);
      EXPECT_EQ(cuda.graphInstantiate(&exec, graph, 0), success);
      EXPECT_EQ(cuda.graphDestroy(graph), success);
      for (int base = 2; base < 6; ++base) {
        prepare(base);
        EXPECT_EQ(cuda.graphLaunch(exec, rank.stream), success);
        check(base);
      }
      EXPECT_EQ(cuda.graphExecDestroy(exec), success);
      rank.destroy();
      other.destroy();
    });
  }
}

} // namespace
