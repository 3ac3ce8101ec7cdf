//===- ProductPartsTest.cpp - What parts hide, beside playing them --------===//
#include "cleave/Cost/ProductParts.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace cleave;

namespace {

/// Seconds that the rank waits, with a clock for it and one for the stream: all
/// parts of what is before, then each of what is after once it has moved.
double play(const ProductParts &parts) {
  auto count = double(parts.count);
  double own = 0, stream = 0, waited = 0;
  std::vector<double> moved;
  for (int64_t i = 0; i < parts.count; ++i) {
    own += parts.before / count;
    stream = std::max(stream, own + parts.skew) + parts.communication / count;
    moved.push_back(stream);
  }
  for (double each : moved) {
    waited += std::max(0., each - own);
    own = std::max(own, each) + parts.after / count;
  }
  return waited;
}

TEST(ProductParts, ExposedIsWhatIsWaitedForWhenTheyArePlayed) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> seconds(0, 4);
  int exposed = 0;
  for (int i = 0; i < 2000; ++i) {
    ProductParts parts{.count = int64_t(1) << (random() % 4),
                       .before = seconds(random),
                       .after = seconds(random),
                       .communication = seconds(random),
                       .skew = seconds(random) / 4};
    EXPECT_NEAR(parts.getExposed(), play(parts), 1e-12);
    exposed += parts.getExposed() > 0;
    // What runs meanwhile hides as much, and at most all.
    double alone = parts.getExposed();
    parts.beside = 1;
    EXPECT_NEAR(parts.getExposed(), std::max(0., alone - 1), 1e-12);
    // But not where a part of both collectives stands alone.
    parts.isBroken = true;
    EXPECT_GE(parts.getExposed(), parts.communication / double(parts.count));
  }
  EXPECT_GT(exposed, 500);
}

TEST(ProductParts, WholeHidesNothing) {
  ProductParts parts{.before = 3, .after = 5, .communication = 2};
  EXPECT_EQ(parts.getExposed(), 2);
}

} // namespace
