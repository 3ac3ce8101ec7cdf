//===- PackTest.cpp - Validity, optimality and speed of packing -----------===//
#include "cleave/Memory/Pack.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>
#include <random>

using namespace cleave;

namespace {

using Buffers = std::vector<BufferLifetime>;

Packing pack(const Buffers &buffers, const PackOptions &options = {}) {
  return llvm::cantFail(packArena(buffers, options));
}

bool overlapInTime(const BufferLifetime &a, const BufferLifetime &b) {
  return a.firstUse <= b.lastUse && b.firstUse <= a.lastUse;
}

/// Most live bytes, instruction by instruction.
int64_t getLowerBound(const Buffers &buffers) {
  int64_t bound = 0;
  for (const BufferLifetime &at : buffers) {
    int64_t live = 0;
    for (const BufferLifetime &buffer : buffers)
      if (buffer.firstUse <= at.firstUse && at.firstUse <= buffer.lastUse)
        live += buffer.size;
    bound = std::max(bound, live);
  }
  return bound;
}

/// All that a packing promises, by looking at every pair.
void expectValid(const Buffers &buffers, const Packing &packing) {
  ASSERT_EQ(packing.offsets.size(), buffers.size());
  int64_t peak = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_GE(packing.offsets[i], 0);
    ASSERT_EQ(packing.offsets[i] % buffers[i].alignment, 0);
    int64_t end = packing.offsets[i] + buffers[i].size;
    peak = std::max(peak, end);
    if (buffers[i].size == 0)
      continue;
    for (size_t j = 0; j < i; ++j)
      if (buffers[j].size && overlapInTime(buffers[i], buffers[j])) {
        ASSERT_TRUE(end <= packing.offsets[j] ||
                    packing.offsets[j] + buffers[j].size <= packing.offsets[i])
            << "buffers " << j << " and " << i;
      }
  }
  EXPECT_EQ(packing.peak, peak);
  EXPECT_EQ(packing.lowerBound, getLowerBound(buffers));
}

/// The best peak over all orders of placing each buffer as low as it goes,
/// found by trying offsets one alignment after the other.
int64_t getOptimum(const Buffers &buffers) {
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t best = INT64_MAX;
  do {
    std::vector<int64_t> offsets(buffers.size());
    int64_t peak = 0;
    for (size_t i = 0; i < order.size() && peak < best; ++i) {
      const BufferLifetime &buffer = buffers[order[i]];
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j < i; ++j) {
          const BufferLifetime &other = buffers[order[j]];
          int64_t begin = offsets[order[j]], end = begin + other.size;
          if (overlapInTime(buffer, other) && offset < end &&
              begin < offset + buffer.size) {
            offset += buffer.alignment;
            moved = true;
          }
        }
      }
      offsets[order[i]] = offset;
      peak = std::max(peak, offset + buffer.size);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

Buffers getRandom(std::mt19937 &random, int count, int times, int sizes,
                  int64_t alignment, int longest) {
  Buffers buffers;
  for (int i = 0; i < count; ++i) {
    int64_t first = random() % times;
    buffers.push_back({static_cast<int64_t>(random() % sizes + 1), first,
                       first + static_cast<int64_t>(random() % longest),
                       alignment});
  }
  return buffers;
}

/// What a training step leaves live: parameters all along, activations from
/// forward to backward, temporaries inside a layer, and gradients till the end.
Buffers getTrainingStep(int layers, int opsPerLayer, std::mt19937 &random) {
  Buffers buffers;
  int64_t forwardEnd = int64_t(layers) * opsPerLayer;
  int64_t end = 3 * forwardEnd + layers;
  auto getSize = [&] { return int64_t(random() % 64 + 1) * 4096; };
  for (int layer = 0; layer < layers; ++layer) {
    int64_t backward =
        forwardEnd + 2 * int64_t(layers - 1 - layer) * opsPerLayer;
    buffers.push_back({getSize() * 4, 0, end, 64});
    for (int op = 0; op < opsPerLayer; ++op) {
      int64_t forward = int64_t(layer) * opsPerLayer + op;
      int64_t use = backward + 2 * (opsPerLayer - 1 - op);
      // Every other value is kept for the backward pass.
      buffers.push_back({getSize(), forward, op % 2 ? use : forward + 2, 64});
      buffers.push_back({getSize(), use, use + 2, 64});
      buffers.push_back({getSize(), use + 1, use + 1, 64});
    }
    buffers.push_back({getSize() * 4, backward + opsPerLayer, end, 64});
  }
  return buffers;
}

TEST(PackArena, Trivial) {
  EXPECT_EQ(pack({}).peak, 0);
  EXPECT_EQ(pack({{100, 0, 0, 64}}).peak, 100);
  // Apart in time: the same place. Together: side by side, aligned.
  EXPECT_EQ(pack({{100, 0, 1, 64}, {100, 2, 3, 64}}).peak, 100);
  EXPECT_EQ(pack({{100, 0, 2, 64}, {100, 2, 3, 64}}).peak, 228);
  EXPECT_EQ(pack({{0, 0, 9, 64}, {8, 0, 9, 64}, {0, 0, 9, 64}}).peak, 8);
}

TEST(PackArena, OptimalOnSmallInstances) {
  std::mt19937 random(7);
  int instances = 0, optimal = 0, greedyOptimal = 0;
  double worst = 1;
  PackOptions options;
  options.effort = 2'000'000;
  options.effortPerByte = options.effort; // a byte is much of ten
  PackOptions greedy;
  greedy.effort = 0;
  for (int i = 0; i < 600; ++i) {
    int64_t alignment = i % 3 == 2 ? 4 : 1;
    Buffers buffers = getRandom(random, 4 + i % 5, 10, 16, alignment, 6);
    Packing packing = pack(buffers, options);
    expectValid(buffers, packing);
    int64_t optimum = getOptimum(buffers);
    ASSERT_LE(optimum, packing.peak);
    ASSERT_GE(optimum, packing.lowerBound);
    ++instances;
    greedyOptimal += pack(buffers, greedy).peak == optimum;
    optimal += packing.peak == optimum;
    worst = std::max(worst, double(packing.peak) / optimum);
  }
  std::cout << "small instances: " << optimal << " of " << instances
            << " optimal (" << greedyOptimal << " without local search), worst "
            << worst << " of the optimum\n";
  EXPECT_LT(greedyOptimal, optimal);
  EXPECT_LE(worst, 1.05);
}

TEST(PackArena, ValidOnRandomInstances) {
  std::mt19937 random(11);
  PackOptions options;
  options.effort = 1'000'000;
  options.effortPerByte = 100;
  for (int i = 0; i < 300; ++i) {
    int count = random() % 400;
    Buffers buffers =
        getRandom(random, count, 1 + random() % 500, 1 + random() % 100000,
                  int64_t(1) << (random() % 9), 1 + random() % 200);
    for (BufferLifetime &buffer : buffers) {
      if (random() % 8 == 0)
        buffer.alignment *= 16;
      if (random() % 50 == 0)
        buffer.size = 0;
    }
    Packing packing = pack(buffers, options);
    expectValid(buffers, packing);
    // The same again.
    EXPECT_EQ(pack(buffers, options).offsets, packing.offsets);
  }
}

TEST(PackArena, TrainingSteps) {
  std::mt19937 random(3);
  for (auto [layers, ops] : {std::pair(12, 20), std::pair(32, 40)}) {
    Buffers buffers = getTrainingStep(layers, ops, random);
    Packing packing = pack(buffers);
    expectValid(buffers, packing);
    double ratio = double(packing.peak) / packing.lowerBound;
    std::cout << buffers.size() << " buffers of a training step: " << ratio
              << " of the lower bound (" << packing.order << ")\n";
    EXPECT_LE(ratio, 1.02);
  }
}

TEST(PackArena, TwentyThousandBuffers) {
  std::mt19937 random(5);
  Buffers training = getTrainingStep(128, 52, random);
  Buffers scattered = getRandom(random, 20000, 20000, 1 << 20, 64, 1000);
  PackOptions options;
  options.effort = 0;
  for (const Buffers &buffers : {training, scattered}) {
    auto begin = std::chrono::steady_clock::now();
    Packing packing = pack(buffers, options);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    std::cout << buffers.size() << " buffers, greedy orders: " << seconds
              << " s, " << double(packing.peak) / packing.lowerBound
              << " of the lower bound (" << packing.order << ")\n";
    expectValid(buffers, packing);
  }
}

TEST(PackArena, Refusals) {
  auto getError = [](const Buffers &buffers) {
    return llvm::toString(packArena(buffers).takeError());
  };
  EXPECT_EQ(getError({{1, 0, 0, 1}, {-1, 0, 0, 1}}),
            "expects buffer 1 to have a size of at least 0, got -1");
  EXPECT_EQ(getError({{1, 3, 2, 1}}),
            "expects buffer 0 to be used last at or after its first use (3), "
            "got 2");
  EXPECT_EQ(getError({{1, 0, 0, 48}}),
            "expects the alignment of buffer 0 to be a power of two, got 48");
  EXPECT_EQ(getError({{1, 0, 0, 0}}),
            "expects the alignment of buffer 0 to be a power of two, got 0");
  EXPECT_EQ(getError({{INT64_MAX / 2, 0, 0, 1}, {INT64_MAX / 2, 0, 0, 1}}),
            "expects the sizes of all buffers to add up to less than 2^63 "
            "bytes");
}

} // namespace
