//===- Vector.h - One register of f32 lanes, per instruction set ----------===//
//
// Included once by each variant's source, which is compiled for its own
// instruction set. Everything is in an anonymous namespace: a function shared
// between variants by the linker would run wide instructions on a CPU without.
// Arithmetic uses the compiler's vector operators; here is what has none.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_VECTOR_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_VECTOR_H

#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#define CLEAVE_INLINE static inline __attribute__((always_inline))

//===----------------------------------------------------------------------===//
// What differs: W lanes, register tile mr x nrVecs, loads, fma, transpose
//===----------------------------------------------------------------------===//

#if defined(__AVX512F__)

constexpr int W = 16;
typedef float Vec __attribute__((vector_size(64)));
typedef int32_t VecI __attribute__((vector_size(64)));

CLEAVE_INLINE __mmask16 getMask(int64_t n) { return __mmask16((1u << n) - 1u); }
CLEAVE_INLINE Vec vload(const float *p) { return (Vec)_mm512_loadu_ps(p); }
/// The first n lanes; the others are zero, and their memory is not touched.
CLEAVE_INLINE Vec vload(const float *p, int64_t n) {
  return (Vec)_mm512_maskz_loadu_ps(getMask(n), p);
}
CLEAVE_INLINE void vstore(float *p, Vec v) { _mm512_storeu_ps(p, (__m512)v); }
CLEAVE_INLINE void vstore(float *p, Vec v, int64_t n) {
  _mm512_mask_storeu_ps(p, getMask(n), (__m512)v);
}
CLEAVE_INLINE Vec vset(float x) { return (Vec)_mm512_set1_ps(x); }
CLEAVE_INLINE Vec vfma(Vec a, Vec b, Vec c) {
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
CLEAVE_INLINE Vec vmax(Vec a, Vec b) {
  return (Vec)_mm512_max_ps((__m512)a, (__m512)b);
}
/// W bf16 as the low halves of W lanes.
CLEAVE_INLINE VecI vload16(const uint16_t *p) {
  return (VecI)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}
CLEAVE_INLINE VecI vload16(const uint16_t *p, int64_t n) {
  return (VecI)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(getMask(n), p));
}
CLEAVE_INLINE void vstore16(uint16_t *p, VecI v) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)v));
}
CLEAVE_INLINE void vstore16(uint16_t *p, VecI v, int64_t n) {
  _mm256_mask_storeu_epi16(p, getMask(n), _mm512_cvtepi32_epi16((__m512i)v));
}

/// Halves added until one lane is left.
CLEAVE_INLINE float vsum(Vec v) { return _mm512_reduce_add_ps((__m512)v); }
CLEAVE_INLINE float vmaximum(Vec v) { return _mm512_reduce_max_ps((__m512)v); }

/// Lane j of row i becomes lane i of row j.
CLEAVE_INLINE void vtranspose(Vec *rows) {
  __m512 a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps((__m512)rows[i], (__m512)rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps((__m512)rows[i], (__m512)rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int h = 0; h < 2; ++h) {
      __m512d lo = _mm512_castps_pd(a[i + h]);
      __m512d hi = _mm512_castps_pd(a[i + h + 2]);
      b[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
      b[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
    }
  // b[4g + q] holds, in its 128-bit quarter c, column 4c + q of rows 4g..4g+3.
  for (int q = 0; q < 4; ++q) {
    __m512 lo01 = _mm512_shuffle_f32x4(b[q], b[q + 4], 0x44);
    __m512 hi01 = _mm512_shuffle_f32x4(b[q], b[q + 4], 0xee);
    __m512 lo23 = _mm512_shuffle_f32x4(b[q + 8], b[q + 12], 0x44);
    __m512 hi23 = _mm512_shuffle_f32x4(b[q + 8], b[q + 12], 0xee);
    rows[q] = (Vec)_mm512_shuffle_f32x4(lo01, lo23, 0x88);
    rows[q + 4] = (Vec)_mm512_shuffle_f32x4(lo01, lo23, 0xdd);
    rows[q + 8] = (Vec)_mm512_shuffle_f32x4(hi01, hi23, 0x88);
    rows[q + 12] = (Vec)_mm512_shuffle_f32x4(hi01, hi23, 0xdd);
  }
}

#elif defined(__AVX2__)

constexpr int W = 8;
typedef float Vec __attribute__((vector_size(32)));
typedef int32_t VecI __attribute__((vector_size(32)));

CLEAVE_INLINE __m256i getMask(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
CLEAVE_INLINE Vec vload(const float *p) { return (Vec)_mm256_loadu_ps(p); }
CLEAVE_INLINE Vec vload(const float *p, int64_t n) {
  return (Vec)_mm256_maskload_ps(p, getMask(n));
}
CLEAVE_INLINE void vstore(float *p, Vec v) { _mm256_storeu_ps(p, (__m256)v); }
CLEAVE_INLINE void vstore(float *p, Vec v, int64_t n) {
  _mm256_maskstore_ps(p, getMask(n), (__m256)v);
}
CLEAVE_INLINE Vec vset(float x) { return (Vec)_mm256_set1_ps(x); }
CLEAVE_INLINE Vec vfma(Vec a, Vec b, Vec c) {
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
CLEAVE_INLINE Vec vmax(Vec a, Vec b) {
  return (Vec)_mm256_max_ps((__m256)a, (__m256)b);
}
CLEAVE_INLINE VecI vload16(const uint16_t *p) {
  return (VecI)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}
CLEAVE_INLINE VecI vload16(const uint16_t *p, int64_t n) {
  uint16_t lanes[W] = {};
  for (int64_t i = 0; i < n; ++i)
    lanes[i] = p[i];
  return vload16(lanes);
}
CLEAVE_INLINE void vstore16(uint16_t *p, VecI v) {
  __m128i lo = _mm256_castsi256_si128((__m256i)v);
  __m128i hi = _mm256_extracti128_si256((__m256i)v, 1);
  _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(lo, hi));
}
CLEAVE_INLINE void vstore16(uint16_t *p, VecI v, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    p[i] = uint16_t(v[i]);
}

CLEAVE_INLINE float vsum(Vec v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128((__m256)v),
                        _mm256_extractf128_ps((__m256)v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
CLEAVE_INLINE float vmaximum(Vec v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128((__m256)v),
                        _mm256_extractf128_ps((__m256)v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

CLEAVE_INLINE void vtranspose(Vec *rows) {
  __m256 a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps((__m256)rows[i], (__m256)rows[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps((__m256)rows[i], (__m256)rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int h = 0; h < 2; ++h) {
      b[i + 2 * h] = _mm256_shuffle_ps(a[i + h], a[i + h + 2], 0x44);
      b[i + 2 * h + 1] = _mm256_shuffle_ps(a[i + h], a[i + h + 2], 0xee);
    }
  for (int q = 0; q < 4; ++q) {
    rows[q] = (Vec)_mm256_permute2f128_ps(b[q], b[q + 4], 0x20);
    rows[q + 4] = (Vec)_mm256_permute2f128_ps(b[q], b[q + 4], 0x31);
  }
}

#else // any CPU that the compiler knows: 128-bit vectors, no fused multiply

constexpr int W = 4;
typedef float Vec __attribute__((vector_size(16)));
typedef int32_t VecI __attribute__((vector_size(16)));

CLEAVE_INLINE Vec vload(const float *p) {
  Vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
CLEAVE_INLINE Vec vload(const float *p, int64_t n) {
  Vec v = {};
  for (int64_t i = 0; i < n; ++i)
    v[i] = p[i];
  return v;
}
CLEAVE_INLINE void vstore(float *p, Vec v) { memcpy(p, &v, sizeof v); }
CLEAVE_INLINE void vstore(float *p, Vec v, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    p[i] = v[i];
}
CLEAVE_INLINE Vec vset(float x) { return Vec{x, x, x, x}; }
CLEAVE_INLINE Vec vfma(Vec a, Vec b, Vec c) { return a * b + c; }
CLEAVE_INLINE Vec vmax(Vec a, Vec b) {
  VecI take = a > b;
  return (Vec)(((VecI)a & take) | ((VecI)b & ~take));
}
CLEAVE_INLINE VecI vload16(const uint16_t *p, int64_t n = W) {
  VecI v = {};
  for (int64_t i = 0; i < n; ++i)
    v[i] = p[i];
  return v;
}
CLEAVE_INLINE void vstore16(uint16_t *p, VecI v, int64_t n = W) {
  for (int64_t i = 0; i < n; ++i)
    p[i] = uint16_t(v[i]);
}
CLEAVE_INLINE float vsum(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
CLEAVE_INLINE float vmaximum(Vec v) {
  float low = v[0] > v[1] ? v[0] : v[1], high = v[2] > v[3] ? v[2] : v[3];
  return low > high ? low : high;
}
CLEAVE_INLINE void vtranspose(Vec *rows) {
  Vec t[W] = {};
  for (int i = 0; i < W; ++i)
    for (int j = 0; j < W; ++j)
      t[j][i] = rows[i][j];
  for (int i = 0; i < W; ++i)
    rows[i] = t[i];
}

#endif

//===----------------------------------------------------------------------===//
// What follows from it
//===----------------------------------------------------------------------===//

CLEAVE_INLINE VecI vseti(int32_t x) { return (VecI){} + x; }

/// Lanes of `a` where `take` is all ones, of `b` where it is zero.
CLEAVE_INLINE Vec vselect(VecI take, Vec a, Vec b) {
  return (Vec)(((VecI)a & take) | ((VecI)b & ~take));
}

CLEAVE_INLINE Vec vloadBf16(const uint16_t *p) {
  return (Vec)(vload16(p) << 16);
}
CLEAVE_INLINE Vec vloadBf16(const uint16_t *p, int64_t n) {
  return (Vec)(vload16(p, n) << 16);
}

/// bf16 of each lane in its low half: to nearest, ties to even; NaNs stay NaN.
CLEAVE_INLINE VecI vroundBf16(Vec v) {
  VecI bits = (VecI)v;
  VecI rounded = bits + 0x7fff + ((bits >> 16) & 1);
  VecI nan = v != v;
  VecI quiet = bits | 0x400000;
  return (((rounded & ~nan) | (quiet & nan)) >> 16) & 0xffff;
}
CLEAVE_INLINE void vstoreBf16(uint16_t *p, Vec v) {
  vstore16(p, vroundBf16(v));
}
CLEAVE_INLINE void vstoreBf16(uint16_t *p, Vec v, int64_t n) {
  vstore16(p, vroundBf16(v), n);
}

/// e^x within 1 ulp for x in [-87.3, 88]; 0 below. With n = round(x / ln 2),
/// r = x - n ln 2 in two parts (Cody and Waite), a degree-7 minimax polynomial
/// (the coefficients of Cephes' expf) and 2^n put into the exponent.
CLEAVE_INLINE Vec vexp(Vec x) {
  const float shifter = 12582912.0f; // 1.5 * 2^23: adding it rounds to integer
  VecI live = x >= vset(-87.33654f);
  VecI tooHigh = x > vset(88.0f);
  x = vselect(tooHigh, vset(88.0f), x);
  Vec shifted = vfma(x, vset(1.44269504088896341f), vset(shifter));
  Vec n = shifted - vset(shifter);
  Vec r = vfma(n, vset(-0.693359375f), x);
  r = vfma(n, vset(2.12194440e-4f), r);
  Vec p = vset(1.9875691500e-4f);
  p = vfma(p, r, vset(1.3981999507e-3f));
  p = vfma(p, r, vset(8.3334519073e-3f));
  p = vfma(p, r, vset(4.1665795894e-2f));
  p = vfma(p, r, vset(1.6666665459e-1f));
  p = vfma(p, r, vset(5.0000001201e-1f));
  Vec y = vfma(p, r * r, r) + vset(1.0f);
  VecI exponent = (VecI)shifted << 23; // its low bits hold n
  return (Vec)(((VecI)y + exponent) & live);
}

/// tanh x within 2 ulp: an odd polynomial near 0 (Cephes' tanhf), else
/// 1 - 2 / (e^2|x| + 1) with the sign of x.
CLEAVE_INLINE Vec vtanh(Vec x) {
  VecI sign = (VecI)x & vseti(int32_t(0x80000000u));
  Vec a = (Vec)((VecI)x ^ sign);
  Vec z = a * a;
  Vec p = vset(-5.70498872745e-3f);
  p = vfma(p, z, vset(2.06390887954e-2f));
  p = vfma(p, z, vset(-5.37397155531e-2f));
  p = vfma(p, z, vset(1.33314422036e-1f));
  p = vfma(p, z, vset(-3.33332819422e-1f));
  Vec near = vfma(p * z, a, a);
  Vec far = vset(1.0f) - vset(2.0f) / (vexp(a + a) + vset(1.0f));
  Vec y = vselect(a < vset(0.625f), near, far);
  return (Vec)((VecI)y ^ sign);
}

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_VECTOR_H
