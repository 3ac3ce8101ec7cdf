//===- ExpandMathTest.cpp - Math functions against f64, in ulp ------------===//
#include "Harness.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <limits>

using namespace cleave;
using namespace cleave::test;

namespace {

struct Function {
  const char *name;
  double (*reference)(double);
  /// Largest error allowed, in units in the last place of the true result.
  double bound;
};

double rsqrt(double x) { return 1 / std::sqrt(x); }

constexpr Function functions[] = {
    {"exp", std::exp, 1.0}, {"log", std::log, 1.0}, {"tanh", std::tanh, 2.4},
    {"erf", std::erf, 1.0}, {"rsqrt", rsqrt, 1.5},
};

/// The distance between the f32 around `x`, a subnormal's near zero.
double getUlp(double x) {
  int exponent = std::max(std::ilogb(std::abs(x)), -126);
  return std::ldexp(1.0, exponent - 23);
}

/// |got - want| in ulp of want; infinities and NaN must agree.
double getError(float got, double want) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) == std::isnan(got) ? 0 : 1e30;
  // Within half an ulp of overflow either is right.
  if (std::isinf(got) || std::abs(want) > std::numeric_limits<float>::max())
    return std::abs(want) > 3.40282e38 && std::abs(got) > 3.40282e38 ? 0 : 1e30;
  if (want == 0)
    return got == 0 ? 0 : 1e30;
  return std::abs(double(got) - want) / getUlp(want);
}

class ExpandMath
    : public testing::TestWithParam<std::tuple<const char *, Function>> {};

} // namespace

/// Every 769th bit pattern of f32: 5.6 million inputs over all signs, sizes,
/// subnormals, infinities and NaNs.
TEST_P(ExpandMath, IsAccurate) {
  auto [cpu, function] = GetParam();
  constexpr int64_t block = 1 << 16;
  CompiledSamples compiled(makeMathSamples(block), cpu);
  CleaveKernelFn kernel = compiled.getFunction(function.name);
  std::vector<float> x(block), y(block);
  void *buffers[] = {x.data(), y.data()};
  int64_t params[] = {0, 0};
  double worst = 0;
  float worstAt = 0;
  uint64_t bits = 0, end = uint64_t(1) << 32;
  while (bits < end) {
    int64_t count = 0;
    for (; count < block && bits < end; bits += 769)
      x[size_t(count++)] = std::bit_cast<float>(uint32_t(bits));
    kernel(buffers, params, 0, count);
    for (size_t i = 0; i < size_t(count); ++i) {
      double error = getError(y[i], function.reference(x[i]));
      if (error > worst) {
        worst = error;
        worstAt = x[i];
      }
    }
  }
  printf("%s on %s: largest error %.3f ulp, at %a\n", function.name, cpu, worst,
         double(worstAt));
  EXPECT_LE(worst, function.bound) << "at " << worstAt;
}

/// Where a polynomial ends and another begins, and the ends of the range.
TEST_P(ExpandMath, IsAccurateAtSeams) {
  auto [cpu, function] = GetParam();
  std::vector<float> x;
  for (float seam : {0.0f, 0.625f, 0.927734375f, 1.0f, 0.70710678f, 1.41421356f,
                     3.92f, 4.0f, 9.02f, 10.0f, 88.72284f, 89.0f, -87.33654f,
                     -103.2789f, -103.9721f, -104.0f, 1.17549435e-38f})
    for (int step = -2000; step <= 2000; ++step)
      for (float sign : {1.0f, -1.0f})
        x.push_back(sign * std::bit_cast<float>(std::bit_cast<uint32_t>(seam) +
                                                uint32_t(step)));
  CompiledSamples compiled(makeMathSamples(int64_t(x.size())), cpu);
  std::vector<float> y(x.size());
  void *buffers[] = {x.data(), y.data()};
  int64_t params[] = {0, 0};
  compiled.getFunction(function.name)(buffers, params, 0, int64_t(x.size()));
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(getError(y[i], function.reference(x[i])), function.bound)
        << "at " << x[i] << ": " << y[i];
}

INSTANTIATE_TEST_SUITE_P(Functions, ExpandMath,
                         testing::Combine(testing::Values("native",
                                                          "x86-64-v3"),
                                          testing::ValuesIn(functions)),
                         [](const auto &info) {
                           return std::string(std::get<1>(info.param).name) +
                                  (std::get<0>(info.param)[0] == 'n' ? "Native"
                                                                     : "Avx2");
                         });
