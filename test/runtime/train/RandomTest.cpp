//===- RandomTest.cpp -----------------------------------------------------===//
#include "runtime/train/Random.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace cleave::runtime;

namespace {

TEST(Random, PhiloxGivesTheKnownAnswers) {
  // kat_vectors of the authors' Random123, philox4x32 with 10 rounds.
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// The normal distribution function.
double phi(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

TEST(Random, IsTheQuantileOfItsBits) {
  // Each number must be where the distribution function gives its bits back.
  uint64_t key = getRandomKey(1, "w");
  std::vector<float> values(1 << 16);
  fillNormal(key, 0, 1, values.size(), 1, values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    auto block = philox({uint32_t(i / 4), 0, 0, 0},
                        {uint32_t(key), uint32_t(key >> 32)});
    double p = (block[i % 4] + 0.5) / 4294967296.0;
    // Compared at the nearer end, where the function is not flat.
    double x = p < 0.5 ? values[i] : -values[i];
    double tail = std::min(p, 1 - p);
    ASSERT_NEAR(phi(x) / tail, 1, 1e-5) << i << " " << p << " " << values[i];
  }
}

TEST(Random, IsNormal) {
  const size_t n = 1 << 20;
  std::vector<float> values(n);
  fillNormal(getRandomKey(3, "x"), 0, 1, n, 1, values.data());
  double sum = 0, squares = 0, neighbours = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += values[i];
    squares += double(values[i]) * values[i];
    if (i > 0)
      neighbours += double(values[i]) * values[i - 1];
  }
  // Five standard deviations of each statistic.
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(double(n)));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(neighbours / n, 0, 5 / std::sqrt(double(n)));
  // Kolmogorov and Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand.
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (size_t i = 0; i < n; ++i)
    distance = std::max({distance, std::abs(phi(values[i]) - double(i) / n),
                         std::abs(phi(values[i]) - double(i + 1) / n)});
  EXPECT_LT(distance, 1.95 / std::sqrt(double(n)));
}

TEST(Random, DoesNotDependOnHowItIsCut) {
  uint64_t key = getRandomKey(5, "y");
  std::vector<float> whole(1000);
  fillNormal(key, 7, 1, whole.size(), 0.02f, whole.data());
  for (uint64_t first : {0, 1, 2, 3, 64, 65, 500})
    for (uint64_t count : {0, 1, 3, 4, 5, 63, 64, 67, 400}) {
      std::vector<float> part(count);
      fillNormal(key, 7 + first, 1, count, 0.02f, part.data());
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first));
    }
  std::vector<float> strided(100);
  fillNormal(key, 8, 9, strided.size(), 0.02f, strided.data());
  for (size_t i = 0; i < strided.size(); ++i)
    ASSERT_EQ(strided[i], whole[1 + 9 * i]);
  // Beyond 2^32 blocks as well.
  float far[2];
  fillNormal(key, uint64_t(1) << 40, 1, 2, 1, far);
  EXPECT_NE(far[0], far[1]);
}

TEST(Random, DependsOnSeedAndName) {
  EXPECT_NE(getRandomKey(0, "a"), getRandomKey(1, "a"));
  EXPECT_NE(getRandomKey(0, "a"), getRandomKey(0, "b"));
  EXPECT_EQ(getRandomKey(0, "a"), getRandomKey(0, "a"));
}

} // namespace
