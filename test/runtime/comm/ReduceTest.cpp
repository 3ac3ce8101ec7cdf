//===- ReduceTest.cpp - The order and the rounding of reductions ----------===//
#include "runtime/comm/Reduce.h"
#include "runtime/cpu/Bf16.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace cleave::runtime;
using cleave::cpu::fromBf16;
using cleave::cpu::toBf16;

namespace {

template <typename T>
T reduceOne(std::vector<T> values, ElementType type, Reduction reduction) {
  std::vector<const void *> inputs;
  for (const T &value : values)
    inputs.push_back(&value);
  T result;
  void *output = &result;
  reduceInOrder(inputs, {&output, 1}, 1, type, reduction);
  return result;
}

TEST(Reduce, AddsInTheOrderOfTheInputs) {
  // ((2^24 + 1) + 1) + -2^24 is 0 in f32: each 1 is lost. In any order that
  // adds the ones first it is 2.
  float big = 16777216;
  EXPECT_EQ(
      reduceOne<float>({big, 1, 1, -big}, ElementType::F32, Reduction::Sum), 0);
  EXPECT_EQ(
      reduceOne<float>({1, 1, big, -big}, ElementType::F32, Reduction::Sum), 2);
}

TEST(Reduce, RoundsBf16Once) {
  // 256 + 1 + 1 + 1 + 1: in bf16 each 1 would be lost; in f32 it is 260.
  uint16_t one = toBf16(1), big = toBf16(256);
  EXPECT_EQ(fromBf16(reduceOne<uint16_t>({big, one, one, one, one},
                                         ElementType::BF16, Reduction::Sum)),
            260);
  // 256 + 1 is a tie between 256 and 258: to even.
  EXPECT_EQ(fromBf16(reduceOne<uint16_t>({big, one}, ElementType::BF16,
                                         Reduction::Sum)),
            256);
}

TEST(Reduce, IntegersWrap) {
  int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(reduceOne<int32_t>({most, 1}, ElementType::I32, Reduction::Sum),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(reduceOne<int32_t>({-5, -3, -4}, ElementType::I32, Reduction::Max),
            -3);
}

TEST(Reduce, MaximaKeepInfinitiesAndNans) {
  float infinity = std::numeric_limits<float>::infinity();
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(reduceOne<float>({-infinity, -3}, ElementType::F32, Reduction::Max),
            -3);
  EXPECT_EQ(reduceOne<float>({1, infinity}, ElementType::F32, Reduction::Max),
            infinity);
  for (auto values : {std::vector<float>{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}})
    EXPECT_TRUE(
        std::isnan(reduceOne<float>(values, ElementType::F32, Reduction::Max)));
}

TEST(Reduce, ChunksCoverEverythingOnce) {
  for (uint64_t elements : {0, 1, 15, 16, 17, 64, 1000, 4096, 99999})
    for (int count = 1; count <= 9; ++count) {
      uint64_t next = 0;
      for (int i = 0; i < count; ++i) {
        Range chunk = getReduceChunk(elements, i, count);
        EXPECT_EQ(chunk.begin, next);
        EXPECT_LE(chunk.begin, chunk.end);
        EXPECT_LE(chunk.end - chunk.begin, (elements / 16 / count + 2) * 16);
        if (chunk.end != elements) {
          EXPECT_EQ(chunk.end % 16, 0u);
        }
        next = chunk.end;
      }
      EXPECT_EQ(next, elements);
    }
}

} // namespace
