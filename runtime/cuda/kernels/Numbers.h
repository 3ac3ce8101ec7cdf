//===- Numbers.h - f32 and bf16, and functions of f32, on the GPU ---------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_NUMBERS_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_NUMBERS_H

#include "runtime/cuda/kernels/Device.h"

namespace cleave::cuda {

CLEAVE_DEVICE float asFloat(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
CLEAVE_DEVICE uint32_t asBits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}

/// bf16 is the upper half of an f32. To nearest, ties to even; a NaN stays a
/// NaN: the very bits of cpu::toBf16.
CLEAVE_DEVICE float fromBf16(uint16_t x) { return asFloat(uint32_t(x) << 16); }
CLEAVE_DEVICE uint16_t toBf16(float x) {
  uint32_t bits = asBits(x);
  if (x != x)
    return uint16_t((bits | 0x400000) >> 16);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

CLEAVE_DEVICE float load(const float *p) { return *p; }
CLEAVE_DEVICE float load(const uint16_t *p) { return fromBf16(*p); }
CLEAVE_DEVICE void store(float *p, float x) { *p = x; }
CLEAVE_DEVICE void store(uint16_t *p, float x) { *p = toBf16(x); }

/// Four numbers side by side, aligned to their size.
CLEAVE_DEVICE Floats4 load4(const float *p) {
  return *reinterpret_cast<const Floats4 *>(p);
}
CLEAVE_DEVICE Floats4 load4(const uint16_t *p) {
  Words2 pairs = *reinterpret_cast<const Words2 *>(p);
  return Floats4{asFloat(pairs[0] << 16), asFloat(pairs[0] & 0xffff0000u),
                 asFloat(pairs[1] << 16), asFloat(pairs[1] & 0xffff0000u)};
}
CLEAVE_DEVICE void store4(float *p, Floats4 x) {
  *reinterpret_cast<Floats4 *>(p) = x;
}
CLEAVE_DEVICE void store4(uint16_t *p, Floats4 x) {
  *reinterpret_cast<Words2 *>(p) =
      Words2{toBf16(x[0]) | uint32_t(toBf16(x[1])) << 16,
             toBf16(x[2]) | uint32_t(toBf16(x[3])) << 16};
}

/// x as it is when it has been stored as a T.
template <class T>
CLEAVE_DEVICE float roundTo(float x) {
  if constexpr (sizeof(T) == sizeof(float))
    return x;
  else
    return fromBf16(toBf16(x));
}

CLEAVE_DEVICE float fma(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
CLEAVE_DEVICE float larger(float x, float y) { return x < y ? y : x; }

constexpr float log2e = 1.44269504088896341f, ln2 = 0.693147180559945309f;

/// e^x within 1 unit in the last place for x in [-87.3, 88]; 0 below. With
/// n = round(x / ln 2), r = x - n ln 2 in two parts (Cody and Waite), a
/// polynomial (the coefficients of Cephes' expf) and 2^n put into the exponent.
CLEAVE_DEVICE float expExact(float x) {
  const float shifter = 12582912.0f; // 1.5 * 2^23: adding it rounds to integer
  if (!(x >= -87.33654f))
    return x != x ? x : 0;
  if (x > 88.0f)
    x = 88.0f;
  float shifted = fma(x, log2e, shifter);
  float n = shifted - shifter;
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  float y = fma(p, r * r, r) + 1.0f;
  return asFloat(asBits(y) + (asBits(shifted) << 23));
}

/// tanh x within 2 units in the last place: an odd polynomial near 0 (Cephes'
/// tanhf), else 1 - 2 / (e^2|x| + 1) with the sign of x.
CLEAVE_DEVICE float tanhExact(float x) {
  uint32_t sign = asBits(x) & 0x80000000u;
  float a = asFloat(asBits(x) ^ sign);
  float y;
  if (a < 0.625f) {
    float z = a * a;
    float p = -5.70498872745e-3f;
    p = fma(p, z, 2.06390887954e-2f);
    p = fma(p, z, -5.37397155531e-2f);
    p = fma(p, z, 1.33314422036e-1f);
    p = fma(p, z, -3.33332819422e-1f);
    y = fma(p * z, a, a);
  } else {
    y = 1.0f - 2.0f / (expExact(a + a) + 1.0f);
  }
  return asFloat(asBits(y) ^ sign);
}

/// ln x within 2 units in the last place or of 1, for x in [1, 2^100]: one step
/// of Newton's method from an approximation.
CLEAVE_DEVICE float logExact(float x) {
  float y = log2Fast(x) * ln2;
  return y + fma(x, expExact(-y), -1.0f);
}

/// tanh x within about 2^-22, not relative to it.
CLEAVE_DEVICE float tanhFast(float x) {
  return 1.0f - 2.0f * invertFast(1.0f + exp2Fast(x * (2 * log2e)));
}

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_NUMBERS_H
