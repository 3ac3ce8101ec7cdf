//===- FitTest.cpp - Known constants from the seconds they give -----------===//
#include "cleave/Calibrate/Fit.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace cleave;

namespace {

Device makeDevice() {
  Device device;
  device.memoryBandwidth = 4e10;
  device.multiprocessors = 2;
  MatrixUnit &unit = device.matrix[size_t(DType::F32)];
  unit.peak = 5e11;
  device.matrix[size_t(DType::BF16)] = unit;
  return device;
}

/// Products that are bound by arithmetic, by memory, and by their startup.
TEST(FitTest, ProductsGiveTheConstantsThatMadeThem) {
  Device truth = makeDevice();
  MatrixUnit &unit = truth.matrix[size_t(DType::F32)];
  unit.efficiency = 0.77;
  unit.tileStartup = 3e-6;
  unit.launch = 2e-5;
  unit.memoryEfficiency = 0.6;
  std::vector<MatmulSample> samples;
  for (int64_t m : {64, 128, 512, 2048})
    for (int64_t n : {64, 512, 4096})
      for (int64_t k : {16, 64, 512, 2048})
        samples.push_back({m, n, k,
                           getMatmulTime(truth, DType::F32, double(m),
                                         double(n), double(k))});
  Device fitted = makeDevice();
  fitMatmuls(fitted, DType::F32, samples);
  const MatrixUnit &found = fitted.getMatrix(DType::F32);
  EXPECT_NEAR(found.efficiency, 0.77, 0.01);
  EXPECT_NEAR(found.tileStartup, 3e-6, 3e-7);
  EXPECT_NEAR(found.launch, 2e-5, 1e-6);
  EXPECT_NEAR(found.memoryEfficiency, 0.6, 0.02);

  // A tenth of the calls disturbed, ten times as long: the others decide.
  for (size_t i = 0; i < samples.size(); i += 10)
    samples[i].seconds *= 10;
  fitMatmuls(fitted, DType::F32, samples);
  EXPECT_NEAR(found.efficiency, 0.77, 0.04);
}

TEST(FitTest, AttentionGivesTheConstantsThatMadeIt) {
  Device truth = makeDevice();
  truth.attention["known"] = {0.35, 0.45, 150, 0.9, 0};
  std::vector<AttentionSample> samples;
  for (Direction direction : {Direction::Forward, Direction::Backward})
    for (int64_t rows : {64, 256, 1024})
      for (int64_t dim : {32, 64, 128}) {
        double n = double(rows);
        samples.push_back(
            {direction, 16, rows, dim,
             getAttentionTime(truth, "known", DType::BF16, direction, 16, n,
                              n * (n + 1) / 2, double(dim), double(dim))});
      }
  AttentionUnit found = fitAttention(makeDevice(), samples);
  EXPECT_NEAR(found.forward, 0.35, 0.01);
  EXPECT_NEAR(found.backward, 0.45, 0.01);
  EXPECT_NEAR(found.ramp, 150, 10);
  EXPECT_NEAR(found.narrow, 0.9, 0.01);
}

/// By hand: 2 us and 1 us a rank more, then x bytes at 10, 8 and 5 GB/s.
TEST(FitTest, CollectivesGiveTheCurveThatMadeThem) {
  std::vector<CollectiveSample> samples;
  const std::pair<int64_t, double> rates[] = {{2, 1e10}, {4, 8e9}, {8, 5e9}};
  for (auto [ranks, rate] : rates)
    for (double bytes : {1e3, 1e4, 1e5, 1e6, 1e7}) {
      double n = double(ranks), startup = 2e-6 + 1e-6 * (n - 1);
      samples.push_back({CollectiveKind::AllReduce, ranks, bytes,
                         startup + 2 * bytes * (n - 1) / n / rate});
      // Of another kind, which is not to be looked at.
      samples.push_back({CollectiveKind::AllGather, ranks, bytes, 1});
    }
  CollectiveCurve curve = fitCollective(CollectiveKind::AllReduce, samples);
  EXPECT_NEAR(curve.startup, 2e-6, 1e-7);
  EXPECT_NEAR(curve.startupPerRank, 1e-6, 5e-8);
  EXPECT_EQ(curve.pipeline, 0);
  ASSERT_EQ(curve.bandwidth.size(), 3u);
  for (size_t i = 0; i != 3; ++i) {
    EXPECT_EQ(curve.bandwidth[i].first, rates[i].first);
    EXPECT_NEAR(curve.bandwidth[i].second, rates[i].second,
                0.02 * rates[i].second);
  }
}

} // namespace
