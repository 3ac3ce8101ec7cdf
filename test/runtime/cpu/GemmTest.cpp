#include "runtime/cpu/Gemm.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/cpu/ThreadPool.h"
#include "test/runtime/cpu/Reference.h"

using namespace cleave::cpu;

namespace {

constexpr ElementType F32 = ElementType::F32, BF16 = ElementType::BF16;

struct Case {
  int64_t m, n, k;
  bool transA, transB;
  ElementType typeA, typeB, typeC;
  bool accumulate, bias;
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  auto name = [](ElementType t) { return t == F32 ? "f32" : "bf16"; };
  return os << c.m << 'x' << c.n << 'x' << c.k << " transA " << c.transA
            << " transB " << c.transB << ' ' << name(c.typeA) << ' '
            << name(c.typeB) << ' ' << name(c.typeC) << " accumulate "
            << c.accumulate << " bias " << c.bias;
}

/// The operands of a case, and its result by a triple loop in f64.
class Problem {
public:
  explicit Problem(const Case &c)
      : c(c), a(Buffer::random(c.typeA, c.m * c.k, 1)),
        b(Buffer::random(c.typeB, c.k * c.n, 2)),
        bias(Buffer::random(F32, c.n, 3)),
        start(Buffer::random(c.typeC, c.m * c.n, 4)) {}

  Buffer run(int threads) const {
    ThreadPool pool(threads);
    Workspace workspace(gemmWorkspaceBytes(c.m, c.n, c.k, c.transA, c.transB,
                                           int64_t(c.typeA), int64_t(c.typeB),
                                           int64_t(c.typeC), threads));
    Buffer out = start;
    gemm({c.m, c.n, c.k, c.transA, c.transB, c.typeA, c.typeB, c.typeC,
          a.data(), b.data(),
          c.bias ? static_cast<const float *>(bias.data()) : nullptr,
          out.data(), c.accumulate},
         workspace.data(), pool);
    return out;
  }

  /// Element (i, j) of the result, and a bound on the error of any order of
  /// summation in f32: gamma_k times the sum of magnitudes (Higham, "Accuracy
  /// and Stability of Numerical Algorithms", section 3.1), plus C's rounding.
  /// Of a large result, every `stride`-th element and all of the last row and
  /// column; the stride is prime, so it visits every row and column.
  void check(const Buffer &out) const {
    std::vector<double> valuesA = a.decode(), valuesB = b.decode();
    int64_t stride = c.m * c.n * c.k > 4 << 20 ? 13 : 1;
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        if ((i * c.n + j) % stride != 0 && i + 1 < c.m && j + 1 < c.n)
          continue;
        double want = 0, magnitude = 0;
        for (int64_t s = 0; s < c.k; ++s) {
          double x = valuesA[c.transA ? s * c.m + i : i * c.k + s] *
                     valuesB[c.transB ? j * c.k + s : s * c.n + j];
          want += x;
          magnitude += std::abs(x);
        }
        if (c.bias)
          want += c.typeC == BF16 ? fromBf16(toBf16(float(bias[j]))) : bias[j];
        if (c.accumulate)
          want += start[i * c.n + j];
        double bound = double(c.k + 3) * 0x1p-24 * (magnitude + 2) +
                       (c.typeC == BF16 ? std::abs(want) * 0x1.01p-8 : 0);
        ASSERT_NEAR(out[i * c.n + j], want, bound)
            << c << " at " << i << ' ' << j;
      }
  }

private:
  Case c;
  Buffer a, b, bias, start;
};

class GemmTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isa, GemmTest, testing::ValuesIn(getIsas()),
                         [](const auto &info) { return getName(info.param); });

TEST_P(GemmTest, EveryCombinationOfLayoutTypeAndMode) {
  UseIsa use(GetParam());
  for (auto [m, n, k] : {std::array<int64_t, 3>{37, 53, 29}, {64, 96, 64}})
    for (int bits = 0; bits < 128; ++bits) {
      auto type = [&](int bit) { return bits >> bit & 1 ? BF16 : F32; };
      Case c{m,       n,       k,       bool(bits & 1),      bool(bits & 2),
             type(2), type(3), type(4), bool(bits >> 5 & 1), bool(bits >> 6)};
      Problem problem(c);
      problem.check(problem.run(1));
      if (HasFatalFailure())
        return;
    }
}

TEST_P(GemmTest, EverySmallShape) {
  UseIsa use(GetParam());
  for (int64_t m : {1, 2, 3, 5, 13, 14, 15, 16, 17, 29})
    for (int64_t n : {1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 65})
      for (int64_t k : {0, 1, 2, 3, 15, 16, 17, 33})
        for (int bits = 0; bits < 8; ++bits) {
          ElementType type = bits & 4 ? BF16 : F32;
          Case c{m,    n,    k,   bool(bits & 1),       bool(bits & 2),
                 type, type, F32, (m + n + k) % 2 == 1, n % 3 == 0};
          Problem problem(c);
          problem.check(problem.run(1));
          if (HasFatalFailure())
            return;
        }
}

TEST_P(GemmTest, SeveralBlocksInEachDirection) {
  UseIsa use(GetParam());
  // Odd sizes on both sides of the blocks of k (steps), n (cols), m (rows).
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1031, 1153},
                         {1033, 35, 385},
                         {31, 521, 769},
                         {97, 67, 1531}})
    for (int bits = 0; bits < 16; ++bits) {
      ElementType type = bits & 4 ? BF16 : F32;
      ElementType typeC = bits & 8 ? BF16 : F32;
      Case c{m,    n,    k,     bool(bits & 1),  bool(bits & 2),
             type, type, typeC, (bits & 1) != 0, (bits & 2) != 0};
      Problem problem(c);
      problem.check(problem.run(2));
      if (HasFatalFailure())
        return;
    }
}

TEST_P(GemmTest, SameBitsWhateverTheThreads) {
  UseIsa use(GetParam());
  for (auto [m, n, k] :
       {std::array<int64_t, 3>{300, 131, 431}, {40, 700, 500}, {530, 30, 800}})
    for (ElementType type : {F32, BF16})
      for (ElementType typeC : {F32, BF16}) {
        Problem problem({m, n, k, false, true, type, type, typeC, true, true});
        Buffer one = problem.run(1);
        for (int threads : {2, 3, 4, 7})
          EXPECT_TRUE(problem.run(threads) == one)
              << m << ' ' << n << ' ' << k << " threads " << threads;
      }
}

TEST_P(GemmTest, RowsDoNotDependOnTheirNumber) {
  // What makes a sharded batch or a column-parallel weight give the same bits.
  UseIsa use(GetParam());
  int64_t m = 90, n = 70, k = 450;
  Buffer a = Buffer::random(F32, m * k, 1), b = Buffer::random(F32, k * n, 2);
  auto run = [&](int64_t rows, int64_t firstCol, int64_t cols) {
    ThreadPool pool(1);
    Workspace workspace(
        gemmWorkspaceBytes(rows, cols, k, false, true, 0, 0, 0, 1));
    Buffer c(F32, rows * cols);
    gemm({rows, cols, k, false, true, F32, F32, F32, a.data(),
          static_cast<const float *>(b.data()) + firstCol * k, nullptr,
          c.data(), false},
         workspace.data(), pool);
    return c;
  };
  Buffer whole = run(m, 0, n);
  Buffer part = run(m / 3, n / 2, n - n / 2);
  for (int64_t i = 0; i < m / 3; ++i)
    for (int64_t j = 0; j < n - n / 2; ++j)
      ASSERT_EQ(part[i * (n - n / 2) + j], whole[i * n + n / 2 + j]);
}

TEST_P(GemmTest, PassesNonFiniteValuesOn) {
  UseIsa use(GetParam());
  int64_t m = 20, n = 40, k = 10;
  Buffer a = Buffer::random(F32, m * k, 1), b = Buffer::random(F32, k * n, 2);
  a.set(3 * k + 4, NAN);
  b.set(2 * n + 5, INFINITY);
  ThreadPool pool(1);
  Workspace workspace(gemmWorkspaceBytes(m, n, k, 0, 0, 0, 0, 0, 1));
  Buffer c(F32, m * n);
  gemm({m, n, k, false, false, F32, F32, F32, a.data(), b.data(), nullptr,
        c.data(), false},
       workspace.data(), pool);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_EQ(std::isnan(c[i * n + j]), i == 3);
      EXPECT_EQ(std::isinf(c[i * n + j]), j == 5 && i != 3);
    }
}

} // namespace
