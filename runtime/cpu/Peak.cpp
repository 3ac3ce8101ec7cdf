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

static double runPortable() {
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
#undef KEEP
#else
static double runPortable() {
  typedef float V __attribute__((vector_size(16)));
  V sum[chains] = {}, x = V{} + 1e-9f;
  for (long r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) {
      sum[i] = x * x + sum[i];
      asm volatile("" : "+m"(sum[i]));
    }
  return 2.0 * 4 * chains * rounds;
}
#endif

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
