#include "bench/cpu_kernels_peak.h"

#include <chrono>
#include <immintrin.h>

using cleave::cpu::Isa;

// Enough chains to hide a latency of 4 to 6 cycles at two a cycle.
static constexpr int chains = 12;
static constexpr long rounds = 20000;

// The empty asm keeps each chain in its register and the loop as written.
#define KEEP(x) asm volatile("" : "+v"(x))

__attribute__((target("avx512f"))) static double runAvx512() {
  __m512 sum[chains], x = _mm512_set1_ps(1e-9f);
  for (__m512 &s : sum)
    s = _mm512_setzero_ps();
  for (long r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) {
      sum[i] = _mm512_fmadd_ps(x, x, sum[i]);
      KEEP(sum[i]);
    }
  return 2.0 * 16 * chains * rounds;
}

__attribute__((target("avx512f,avx512bf16"))) static double runBf16() {
  __m512 sum[chains];
  __m512bh x = (__m512bh)_mm512_set1_epi32(0x3c003c00);
  for (__m512 &s : sum)
    s = _mm512_setzero_ps();
  for (long r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) {
      sum[i] = _mm512_dpbf16_ps(sum[i], x, x);
      KEEP(sum[i]);
    }
  return 2.0 * 32 * chains * rounds;
}

__attribute__((target("avx2,fma"))) static double runAvx2() {
  __m256 sum[chains], x = _mm256_set1_ps(1e-9f);
  for (__m256 &s : sum)
    s = _mm256_setzero_ps();
  for (long r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) {
      sum[i] = _mm256_fmadd_ps(x, x, sum[i]);
      KEEP(sum[i]);
    }
  return 2.0 * 8 * chains * rounds;
}

static double runSse() {
  __m128 sum[chains], x = _mm_set1_ps(1e-9f);
  for (__m128 &s : sum)
    s = _mm_setzero_ps();
  for (long r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) {
      sum[i] = _mm_add_ps(_mm_mul_ps(x, x), sum[i]);
      KEEP(sum[i]);
    }
  return 2.0 * 4 * chains * rounds;
}

double measurePeak(Isa isa, bool bf16, double seconds) {
  using Clock = std::chrono::steady_clock;
  if (bf16 && isa != Isa::Avx512Bf16)
    return 0;
  auto run = bf16                 ? runBf16
             : isa >= Isa::Avx512 ? runAvx512
             : isa == Isa::Avx2   ? runAvx2
                                  : runSse;
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
