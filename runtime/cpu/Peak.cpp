//===- Peak.cpp - Multiply-adds in registers ------------------------------===//
#include "runtime/cpu/Peak.h"

#include <chrono>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace cleave::cpu;

// Enough chains to hide a latency of 4 to 6 cycles at two a cycle.
static constexpr int chains = 12;
static constexpr long rounds = 20000;

#if defined(__x86_64__)
#define IN_REGISTER "+v"
#else
#define IN_REGISTER "+m"
#endif

/// The body of a function that multiplies and adds, which alone knows its
/// instruction set: sum[i] becomes `next` for each chain i, again and again.
/// The empty asm keeps the chains in registers and the loop as written. Returns
/// the FLOPs, at `lanes` multiply-adds each.
#define RUN_CHAINS(lanes, next)                                                \
  for (long r = 0; r < rounds; ++r)                                            \
    _Pragma("GCC unroll 12") for (int i = 0; i < chains; ++i) {                \
      sum[i] = next;                                                           \
      asm volatile("" : IN_REGISTER(sum[i]));                                  \
    }                                                                          \
  return 2.0 * lanes * chains * rounds

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double runAvx512() {
  __m512 sum[chains] = {}, x = _mm512_set1_ps(1e-9f);
  RUN_CHAINS(16, _mm512_fmadd_ps(x, x, sum[i]));
}

__attribute__((target("avx512f,avx512bf16"))) static double runBf16() {
  __m512 sum[chains] = {};
  __m512bh x = (__m512bh)_mm512_set1_epi32(0x3c003c00);
  RUN_CHAINS(32, _mm512_dpbf16_ps(sum[i], x, x));
}

__attribute__((target("avx2,fma"))) static double runAvx2() {
  __m256 sum[chains] = {}, x = _mm256_set1_ps(1e-9f);
  RUN_CHAINS(8, _mm256_fmadd_ps(x, x, sum[i]));
}
#endif

static double runPortable() {
  typedef float V __attribute__((vector_size(16)));
  V sum[chains] = {}, x = V{} + 1e-9f;
  RUN_CHAINS(4, x * x + sum[i]);
}

double cleave::cpu::measurePeak(Isa isa, bool bf16Pairs, double seconds) {
  using Clock = std::chrono::steady_clock;
  if (bf16Pairs && isa != Isa::Avx512Bf16)
    return 0;
  double (*run)() = runPortable;
#if defined(__x86_64__)
  run = bf16Pairs            ? runBf16
        : isa >= Isa::Avx512 ? runAvx512
        : isa == Isa::Avx2   ? runAvx2
                             : runPortable;
#endif
  double best = 0;
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    auto start = Clock::now();
    double flops = run();
    std::chrono::duration<double> took = Clock::now() - start;
    best = flops / took.count() > best ? flops / took.count() : best;
  } while (Clock::now() < end);
  return best;
}
