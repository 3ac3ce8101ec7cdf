//===- Random.cpp - Compiled without fused multiply-add -------------------===//
//
// Additions, multiplications and square roots only, in a fixed order, so that
// every machine rounds alike; the build turns contraction off for this file.
//
//===----------------------------------------------------------------------===//
#include "runtime/train/Random.h"
#include "runtime/io/Sampler.h"
#include <algorithm>
#include <bit>
#include <cmath>

using namespace cleave::runtime;

std::array<uint32_t, 4> cleave::runtime::philox(std::array<uint32_t, 4> counter,
                                                std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0];
    uint64_t b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

uint64_t cleave::runtime::getRandomKey(uint64_t seed, std::string_view tensor) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (unsigned char c : tensor)
    hash = (hash ^ c) * 0x100000001b3;
  return mix(mix(seed) + hash);
}

/// Natural logarithm for 0 < x <= 1, normal, to about 1e-7: Cephes' logf.
static float computeLog(float x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)).
  uint32_t bits = std::bit_cast<uint32_t>(x);
  int32_t exponent = int32_t((bits - 0x3f3504f3u)) >> 23;
  float m = std::bit_cast<float>(bits - (uint32_t(exponent) << 23)) - 1.0f;
  float e = float(exponent);
  float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * z;
  return m + y + e * 0.693359375f;
}

/// The normal number whose quantile is (u + 1/2) / 2^32: sqrt(2) erfinv, by
/// Giles, "Approximating the erfinv function", GPU Computing Gems, 2011.
static float toNormal(uint32_t u) {
  // p in (0, 1/2] is the distance to the nearer end, without cancellation.
  bool upper = u >> 31;
  float p = (float(upper ? ~u : u) + 0.5f) * 0x1p-32f;
  float x = 1.0f - 2.0f * p;
  float w = -computeLog(4.0f * p * (1.0f - p));
  float a = w - 2.5f;
  float center = 2.81022636e-08f;
  for (float c :
       {3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
        -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f})
    center = center * a + c;
  float b = std::sqrt(std::max(w, 0.0f)) - 3.0f;
  float tail = -0.000200214257f;
  for (float c :
       {0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
        -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f})
    tail = tail * b + c;
  float z = (w < 5.0f ? center : tail) * x * 1.41421356f;
  return upper ? z : -z;
}

/// Block `block` of four numbers.
static std::array<uint32_t, 4> getBlock(uint64_t key, uint64_t block) {
  return philox({uint32_t(block), uint32_t(block >> 32), 0, 0},
                {uint32_t(key), uint32_t(key >> 32)});
}

void cleave::runtime::fillNormal(uint64_t key, uint64_t first, uint64_t stride,
                                 uint64_t count, float scale, float *out) {
  uint64_t i = 0;
  auto single = [&] {
    uint64_t element = first + i * stride;
    out[i++] = toNormal(getBlock(key, element / 4)[element % 4]) * scale;
  };
  if (stride == 1) {
    while (i < count && (first + i) % 4 != 0)
      single();
    constexpr uint64_t blocks = 16; // enough for the loops to be vectorised
    for (; i + 4 * blocks <= count; i += 4 * blocks) {
      uint32_t bits[4][blocks];
      for (uint64_t b = 0; b < blocks; ++b) {
        auto block = getBlock(key, (first + i) / 4 + b);
        for (int lane = 0; lane < 4; ++lane)
          bits[lane][b] = block[lane];
      }
      for (int lane = 0; lane < 4; ++lane)
        for (uint64_t b = 0; b < blocks; ++b)
          out[i + 4 * b + lane] = toNormal(bits[lane][b]) * scale;
    }
  }
  while (i < count)
    single();
}
