//===- Peak.cpp - Compiled with fused multiply-add where there is one -----===//
#include "runtime/train/Peak.h"
#include "runtime/cpu/Features.h"
#include <algorithm>
#include <chrono>

using namespace cleave;

namespace {

constexpr int iterations = 50'000;
/// As many chains as hide the latency of a multiply-add (4 or 5 cycles, two
/// started a cycle) and stay in registers with the two factors.
constexpr int chains = 12;

// One variable a chain, since an array would be spilled; each starts elsewhere,
// so that none can be left out.
#define CLEAVE_FMA_LOOP(width)                                                 \
  typedef float V __attribute__((vector_size(width * 4)));                     \
  V a = V{} + 0.999f, b = V{} + 0.001f;                                        \
  V x0 = V{} + seed, x1 = x0 + 1, x2 = x0 + 2, x3 = x0 + 3, x4 = x0 + 4,       \
    x5 = x0 + 5, x6 = x0 + 6, x7 = x0 + 7, x8 = x0 + 8, x9 = x0 + 9,           \
    x10 = x0 + 10, x11 = x0 + 11;                                              \
  for (int i = 0; i < iterations; ++i) {                                       \
    x0 = x0 * a + b, x1 = x1 * a + b, x2 = x2 * a + b, x3 = x3 * a + b;        \
    x4 = x4 * a + b, x5 = x5 * a + b, x6 = x6 * a + b, x7 = x7 * a + b;        \
    x8 = x8 * a + b, x9 = x9 * a + b, x10 = x10 * a + b, x11 = x11 * a + b;    \
  }                                                                            \
  V sum = x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 + x8 + x9 + x10 + x11;         \
  return sum[0]

#if defined(__x86_64__)
__attribute__((target("avx512f"), noinline)) float runAvx512(float seed) {
  CLEAVE_FMA_LOOP(16);
}
__attribute__((target("avx2,fma"), noinline)) float runAvx2(float seed) {
  CLEAVE_FMA_LOOP(8);
}
#endif
__attribute__((noinline)) float runPortable(float seed) { CLEAVE_FMA_LOOP(4); }

#undef CLEAVE_FMA_LOOP

} // namespace

double cleave::runtime::measureCorePeakGflops() {
  float (*run)(float) = runPortable;
  int width = 4;
#if defined(__x86_64__)
  cpu::Isa isa = cpu::getBestIsa();
  if (isa >= cpu::Isa::Avx512)
    run = runAvx512, width = 16;
  else if (isa >= cpu::Isa::Avx2)
    run = runAvx2, width = 8;
#endif
  using Clock = std::chrono::steady_clock;
  double best = 0;
  volatile float sink = 0;
  Clock::time_point start = Clock::now();
  do {
    Clock::time_point begin = Clock::now();
    sink = run(sink * 0x1p-20f);
    double seconds =
        std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * width * chains * iterations / seconds / 1e9);
  } while (Clock::now() - start < std::chrono::milliseconds(20));
  return best;
}
