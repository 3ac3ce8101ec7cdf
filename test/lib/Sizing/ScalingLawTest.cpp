//===- ScalingLawTest.cpp - Optima against search and published tables ----===//
#include "cleave/Sizing/ScalingLaw.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace cleave;

namespace {

ScalingLaw get(llvm::StringRef name) {
  return llvm::cantFail(getScalingLaw(name));
}

/// E + A/N^alpha + B/D^beta, with the constants as they are printed:
/// by Besiroglu et al. 2024, and in the TeX source of Hoffmann et al. 2022.
double lossOf(llvm::StringRef law, double n, double d) {
  if (law == "hoffmann")
    return 1.69337368 + 406.401018 / std::pow(n, 0.33917084) +
           410.722827 / std::pow(d, 0.2849083);
  return 1.8172 + 482.01 / std::pow(n, 0.3478) + 2085.43 / std::pow(d, 0.3658);
}

/// The best N for C FLOPs: of a grid over its logarithm, refined by grids.
double searchOptimum(llvm::StringRef law, double flops) {
  double low = std::log(1e3), high = std::log(1e18);
  for (int round = 0; round < 8; ++round) {
    const int steps = 200;
    double step = (high - low) / steps, best = low, bestLoss = 1e300;
    for (int i = 0; i <= steps; ++i) {
      double n = std::exp(low + i * step);
      double loss = lossOf(law, n, flops / 6 / n);
      if (loss < bestLoss) {
        bestLoss = loss;
        best = low + i * step;
      }
    }
    low = best - step;
    high = best + step;
  }
  return std::exp((low + high) / 2);
}

TEST(ScalingLawTest, OptimumIsThatOfASearch) {
  for (llvm::StringRef name : {"hoffmann", "besiroglu"})
    for (double flops = 1e15; flops < 1e31; flops *= 7) {
      ModelSize best = get(name).getOptimum(flops);
      double n = searchOptimum(name, flops);
      // Near the optimum the loss is flat: rounding leaves 1e-6 of N or so.
      EXPECT_NEAR(best.parameters / n, 1, 1e-5) << name.str() << " " << flops;
      EXPECT_NEAR(6 * best.parameters * best.tokens / flops, 1, 1e-12);
    }
}

TEST(ScalingLawTest, LossIsThatOfTheFit) {
  for (llvm::StringRef name : {"hoffmann", "besiroglu"})
    for (double n : {1e8, 7e10, 4.05e11})
      for (double d : {1e10, 1.4e12, 1.5e13})
        EXPECT_NEAR(get(name).fit.getLoss({n, d}), lossOf(name, n, d), 1e-12);
}

/// Table A3 of Hoffmann et al. 2022, approach 3. Its 1.26e+24 FLOPs for 175
/// billion parameters is a slip: 6 x 175e9 x 12.0e12 is 1.26e25. The table
/// comes from more digits than were published: these constants stay within 8 %
/// of it, those that the body of the paper rounds (0.34, 0.28) are 20 to 31 %
/// off.
TEST(ScalingLawTest, HoffmannGivesItsPublishedTable) {
  struct Row {
    double parameters, flops, tokens;
  };
  const Row table[] = {{400e6, 2.21e19, 9.2e9},    {1e9, 1.62e20, 27.1e9},
                       {10e9, 2.46e22, 410.1e9},   {67e9, 1.71e24, 4.1e12},
                       {175e9, 1.26e25, 12e12},    {280e9, 3.52e25, 20.1e12},
                       {520e9, 1.36e26, 43.5e12},  {1e12, 5.65e26, 94.1e12},
                       {10e12, 8.55e28, 1425.5e12}};
  for (const Row &row : table) {
    ModelSize best = get("hoffmann").getOptimum(row.flops);
    EXPECT_NEAR(best.parameters / row.parameters, 1, 0.08) << row.parameters;
    EXPECT_NEAR(best.tokens / row.tokens, 1, 0.11) << row.parameters;
  }
  // Figure 4: approach 3 puts 40 billion parameters on Gopher's budget.
  EXPECT_NEAR(get("hoffmann").getOptimum(5.76e23).parameters, 40e9, 1e9);
}

/// Table 3 of Hoffmann et al. 2022 (approach 1): 67 billion parameters and 1.5
/// trillion tokens for 5.76e23 FLOPs.
TEST(ScalingLawTest, CorrectedFitAndRatioAgreeWithApproach1) {
  ModelSize fit = get("besiroglu").getOptimum(5.76e23);
  EXPECT_NEAR(fit.parameters / 67e9, 1, 0.15);
  EXPECT_NEAR(fit.tokens / 1.5e12, 1, 0.15);
  ModelSize ratio = get("ratio").getOptimum(5.76e23);
  EXPECT_NEAR(ratio.parameters / 67e9, 1, 0.05);
  EXPECT_NEAR(ratio.tokens / 1.5e12, 1, 0.10);
  // Besiroglu et al. 2024: about 20 tokens per parameter, and
  // N grows with C^0.5126.
  EXPECT_NEAR(fit.tokens / fit.parameters, 20, 2);
  double growth = get("besiroglu").getOptimum(5.76e24).parameters;
  EXPECT_NEAR(std::log10(growth / fit.parameters), 0.5126, 5e-4);
}

TEST(ScalingLawTest, RatioOf20) {
  // Chinchilla: 70e9 parameters, 1.4e12 tokens, 5.88e23 FLOPs.
  ModelSize size = get("ratio").getOptimum(5.88e23);
  EXPECT_NEAR(size.parameters, 70e9, 1);
  EXPECT_NEAR(size.tokens, 1.4e12, 20);
  EXPECT_DOUBLE_EQ(get("ratio").getOptimalTokens(70e9), 1.4e12);
  EXPECT_DOUBLE_EQ(get("ratio").getOptimalParameters(1.4e12), 70e9);
}

TEST(ScalingLawTest, OneOfBothGivesTheOther) {
  for (const ScalingLaw &law : getScalingLaws())
    for (double flops = 1e18; flops < 1e29; flops *= 13) {
      ModelSize best = law.getOptimum(flops);
      EXPECT_NEAR(law.getOptimalTokens(best.parameters) / best.tokens, 1, 1e-9);
      EXPECT_NEAR(law.getOptimalParameters(best.tokens) / best.parameters, 1,
                  1e-9);
    }
}

TEST(ScalingLawTest, TrainingFlops) {
  // Dubey et al. 2024, arXiv:2407.21783: 405e9 parameters on 15.6e12 tokens
  // took 3.8e25 FLOPs; Brown et al. 2020: GPT-3 175B took 3.14e23.
  EXPECT_NEAR(getTrainingFlops({405e9, 15.6e12}), 3.8e25, 0.05e25);
  EXPECT_NEAR(getTrainingFlops({174.6e9, 300e9}), 3.14e23, 0.005e23);
}

TEST(ScalingLawTest, UnknownLaw) {
  llvm::Expected<ScalingLaw> law = getScalingLaw("kaplan");
  ASSERT_FALSE(bool(law));
  EXPECT_EQ(llvm::toString(law.takeError()),
            "law: expects one of besiroglu, hoffmann, ratio, got \"kaplan\"");
}

} // namespace
