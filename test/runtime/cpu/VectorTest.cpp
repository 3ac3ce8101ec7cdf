#include "test/runtime/cpu/Reference.h"
#include "test/runtime/cpu/VectorFunctions.h"

#include <memory>

using namespace cleave::cpu;

namespace {

/// Distance from the exact value, in units of the result's last place.
double getUlps(float got, double want) {
  float near = std::abs(float(want));
  double ulp = double(std::nextafter(near, INFINITY)) - near;
  return std::abs(double(got) - want) / ulp;
}

class VectorTest : public testing::TestWithParam<Isa> {
protected:
  const VectorFunctions &getFunctions() const {
#if defined(__x86_64__)
    if (GetParam() >= Isa::Avx512)
      return avx512Functions;
    if (GetParam() == Isa::Avx2)
      return avx2Functions;
#endif
    return portableFunctions;
  }

  using Unary = void (*)(const float *, float *);
  /// fn(x), the same in every lane.
  float apply(Unary fn, float x) const {
    std::vector<float> in(getFunctions().width, x), out(in.size());
    fn(in.data(), out.data());
    for (float y : out)
      EXPECT_EQ(y, out[0]);
    return out[0];
  }
};
INSTANTIATE_TEST_SUITE_P(Isa, VectorTest, testing::ValuesIn(getIsas()),
                         [](const auto &info) { return getName(info.param); });

TEST_P(VectorTest, ExpIsAccurate) {
  Unary fn = getFunctions().exp;
  double most = 0;
  auto check = [&](float x) {
    most = std::max(most, getUlps(apply(fn, x), std::exp(double(x))));
  };
  for (float x = -87.3f; x < 88.0f; x += 0.00537f)
    check(x);
  for (float x = 1e-9f; x < 1; x *= 1.003f) {
    check(x);
    check(-x);
  }
  // Without a fused multiply-add the reduced argument carries a rounding more.
  EXPECT_LT(most, GetParam() == Isa::Portable ? 2.0 : 1.0);
  EXPECT_EQ(apply(fn, 0), 1);
  EXPECT_EQ(apply(fn, -1000), 0);
  EXPECT_EQ(apply(fn, -INFINITY), 0);
}

TEST_P(VectorTest, TanhIsAccurate) {
  Unary fn = getFunctions().tanh;
  double most = 0;
  for (float x = 1e-8f; x < 40; x *= 1.0017f)
    most = std::max({most, getUlps(apply(fn, x), std::tanh(double(x))),
                     getUlps(apply(fn, -x), std::tanh(-double(x)))});
  EXPECT_LT(most, 2.0);
  EXPECT_EQ(apply(fn, 0), 0);
  EXPECT_EQ(apply(fn, 1e30f), 1);
  EXPECT_EQ(apply(fn, -1e30f), -1);
}

TEST_P(VectorTest, TransposeMovesEveryLane) {
  int width = getFunctions().width;
  std::vector<float> square(width * width);
  for (int i = 0; i < width * width; ++i)
    square[i] = float(i);
  getFunctions().transpose(square.data());
  for (int i = 0; i < width; ++i)
    for (int j = 0; j < width; ++j)
      EXPECT_EQ(square[i * width + j], float(j * width + i));
}

TEST_P(VectorTest, SumAndMaximumSeeEveryLane) {
  int width = getFunctions().width;
  for (int lane = 0; lane < width; ++lane) {
    std::vector<float> v(width, -2);
    v[lane] = 5;
    EXPECT_EQ(getFunctions().maximum(v.data()), 5);
    EXPECT_EQ(getFunctions().sum(v.data()), 5 - 2 * (width - 1));
  }
}

TEST_P(VectorTest, PartialLoadsAndStoresKeepToTheirLanes) {
  int width = getFunctions().width;
  for (int n = 0; n <= width; ++n) {
    // Exactly n elements to read: a sanitizer sees any other.
    std::unique_ptr<float[]> in(new float[n]);
    std::unique_ptr<uint16_t[]> in16(new uint16_t[n]);
    for (int i = 0; i < n; ++i) {
      in[i] = float(i);
      in16[i] = toBf16(float(i));
    }
    std::vector<float> out(width, -1);
    std::vector<uint16_t> out16(width, 7);
    getFunctions().increment(in.get(), out.data(), n);
    getFunctions().incrementBf16(in16.get(), out16.data(), n);
    for (int i = 0; i < width; ++i) {
      EXPECT_EQ(out[i], i < n ? float(i + 1) : -1);
      EXPECT_EQ(out16[i], i < n ? toBf16(float(i + 1)) : 7);
    }
  }
}

TEST_P(VectorTest, RoundsToBf16AsTheScalarDoes) {
  int width = getFunctions().width;
  std::mt19937 generator(5);
  std::vector<float> in(width);
  std::vector<uint16_t> out(width);
  for (int round = 0; round < 20000; ++round) {
    for (float &x : in) {
      uint32_t bits = uint32_t(generator());
      if (round % 4 == 0) // half way between two
        bits = (bits & 0xffff0000) | 0x8000;
      x = std::bit_cast<float>(bits);
    }
    getFunctions().roundBf16(in.data(), out.data());
    for (int i = 0; i < width; ++i)
      ASSERT_EQ(out[i], toBf16(in[i]));
  }
}

} // namespace
