//===- StepGuardTest.cpp - Which steps are bad ----------------------------===//
#include "runtime/train/StepGuard.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using cleave::runtime::StepGuard;
using cleave::runtime::StepLimits;

namespace {

/// Losses 1, 2, 1, 2, ...: of n of them the mean is 1.5, and the variance a
/// quarter of n / (n - 1). Norms are ten times as large.
void acceptSteps(StepGuard &guard, size_t count) {
  for (size_t i = 0; i != count; ++i)
    guard.accept(double(1 + i % 2), double(10 + 10 * (i % 2)));
}

float getLimit(size_t count, double sigmas) {
  double n = double(count);
  return float(1.5 + sigmas * std::sqrt(0.25 * n / (n - 1)));
}

// Further than what rounding does.
constexpr float below = 1 - 1e-6f, above = 1 + 1e-6f;

TEST(StepGuard, WhatIsNoNumberIsBad) {
  StepGuard guard(/*budget=*/0, /*sigmas=*/0);
  const float nan = std::nanf("");
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(guard.judge(nan, 1), "the loss is not a number");
  EXPECT_EQ(guard.judge(1, nan), "the gradient norm is not a number");
  EXPECT_EQ(guard.judge(infinite, 1), "the loss is infinite");
  EXPECT_EQ(guard.judge(1, infinite), "the gradient norm is infinite");
  EXPECT_EQ(guard.judge(1e38f, 1e38f), "");
}

TEST(StepGuard, SpikesAreFarAboveTheLastSteps) {
  constexpr size_t count = 32;
  constexpr double sigmas = 6;
  StepGuard guard(0, sigmas);
  acceptSteps(guard, count);
  const float limit = getLimit(count, sigmas);
  EXPECT_EQ(guard.judge(limit * below, 10 * limit * below), "");
  EXPECT_EQ(guard.judge(limit * above, 1),
            "the loss is 4.548, more than 6 standard deviations above the 1.5 "
            "of the last 32 steps");
  EXPECT_EQ(guard.judge(1, 10 * limit * above),
            "the gradient norm is 45.48, more than 6 standard deviations above "
            "the 15 of the last 32 steps");
  // A step that is far below is good news.
  EXPECT_EQ(guard.judge(-1e9, 0), "");
}

/// What a device is told before the step is what the host says after it.
TEST(StepGuard, LimitsAreTheLeastThatIsBad) {
  for (double sigmas : {0, 2, 6}) {
    StepGuard guard(0, sigmas);
    acceptSteps(guard, 50);
    StepLimits limits = guard.getLimits();
    if (sigmas > 0) {
      EXPECT_NEAR(limits.loss, getLimit(50, sigmas), 1e-6);
      EXPECT_NEAR(limits.gradNorm, 10 * getLimit(50, sigmas), 1e-5);
    }
    EXPECT_NE(guard.judge(limits.loss, 1), "");
    EXPECT_EQ(guard.judge(std::nextafter(limits.loss, 0.0f), 1), "");
    EXPECT_NE(guard.judge(1, limits.gradNorm), "");
    EXPECT_EQ(guard.judge(1, std::nextafter(limits.gradNorm, 0.0f)), "");
  }
}

/// Where nothing ever changes, no change is no spike.
TEST(StepGuard, WhatIsAlwaysTheSameIsGood) {
  StepGuard guard(0, 6);
  for (size_t i = 0; i != StepGuard::window; ++i)
    guard.accept(0.1f, 0.3f);
  EXPECT_EQ(guard.judge(0.1f, 0.3f), "");
  EXPECT_NE(guard.judge(0.1001f, 0.3f), "");
}

TEST(StepGuard, FewStepsSayNothing) {
  StepGuard guard(0, 6);
  acceptSteps(guard, StepGuard::leastKnown - 1);
  EXPECT_EQ(guard.judge(1e9, 1e9), "");
  acceptSteps(guard, 1);
  EXPECT_NE(guard.judge(1e9, 1e9), "");
}

TEST(StepGuard, TheWindowIsTheLastSteps) {
  StepGuard guard(0, 6);
  for (int i = 0; i != 1000; ++i)
    guard.accept(1e6, 1e6);
  acceptSteps(guard, StepGuard::window);
  EXPECT_EQ(guard.getLosses().size(), StepGuard::window);
  EXPECT_EQ(guard.getGradNorms().size(), StepGuard::window);
  float limit = getLimit(StepGuard::window, 6);
  EXPECT_EQ(guard.judge(limit * below, 1), "");
  EXPECT_NE(guard.judge(limit * above, 1), "");
}

/// A stretch of a run that asks for no spikes leaves the next one its own last
/// steps, and not those before it.
TEST(StepGuard, StepsCountWhoeverAsks) {
  StepGuard first(0, 6);
  acceptSteps(first, StepGuard::window);
  StepGuard second(0, 0);
  second.resume(0, first.getLosses(), first.getGradNorms());
  for (size_t i = 0; i != StepGuard::window; ++i)
    second.accept(100 + double(i % 2), 100 + double(i % 2));
  EXPECT_EQ(second.judge(1e9, 1e9), "");
  StepGuard third(0, 6);
  third.resume(0, second.getLosses(), second.getGradNorms());
  EXPECT_EQ(third.judge(101, 101), "");
  EXPECT_NE(third.judge(110, 101), "");
}

TEST(StepGuard, TheBudgetIsOfAllRuns) {
  StepGuard strict(0, 0);
  EXPECT_EQ(strict.skip(7, "bad").message(),
            "step 7: bad; the state is that before the step (--skip-budget "
            "lets steps be skipped)");
  StepGuard guard(3, 0);
  guard.resume(1, {}, {});
  EXPECT_TRUE(guard.skip(20, "bad").ok());
  EXPECT_TRUE(guard.skip(21, "bad").ok());
  EXPECT_EQ(guard.getSkipped(), 3);
  EXPECT_EQ(guard.skip(22, "bad").message(),
            "step 22: bad; 4 steps were skipped, the first of this run step "
            "20; --skip-budget is 3");
}

} // namespace
