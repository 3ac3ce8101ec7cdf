//===- Numbers.h - Formats of numbers and how values are rounded to them --===//
//
// All functions are static: this is compiled for several instruction sets,
// which must not share their code.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_NUMBERS_H
#define CLEAVE_TEST_CUDA_PTX_NUMBERS_H

#include "Module.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace cleave::ptx {

static inline float toFloat(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
static inline double toDouble(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
static inline uint32_t toBits(float value) {
  return std::bit_cast<uint32_t>(value);
}
static inline uint64_t toBits(double value) {
  return std::bit_cast<uint64_t>(value);
}

/// Of a number too small for an exponent, its sign's zero.
static inline float flush(float value) {
  uint32_t bits = toBits(value);
  return toFloat((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
}

/// NaN, as the hardware makes it.
constexpr uint32_t canonicalNan = 0x7fffffff;
constexpr uint16_t canonicalNan16 = 0x7fff; // of f16 and of bf16

//===----------------------------------------------------------------------===//
// bf16 and f16
//===----------------------------------------------------------------------===//

static inline float fromBf16(uint16_t bits) {
  return toFloat(uint32_t(bits) << 16);
}

static inline uint16_t toBf16(float value) {
  uint32_t bits = toBits(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return uint16_t((bits & 0x7fffffff) > 0x7f800000 ? canonicalNan16 : rounded);
}

static inline float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t rest = uint32_t(bits & 0x7fff);
  // The exponent's bias changes from 15 to 127; where all its bits are set it
  // stays that way. A subnormal is an integer times 2^-24.
  uint32_t normal = (rest << 13) + (uint32_t(127 - 15) << 23);
  uint32_t special = (rest << 13) | 0x7f800000;
  uint32_t subnormal = toBits(float(int32_t(rest)) * 0x1p-24f);
  uint32_t magnitude = rest >= 0x7c00   ? special
                       : rest >= 0x0400 ? normal
                                        : subnormal;
  return toFloat(sign | magnitude);
}

static inline uint16_t toHalf(float value) {
  uint32_t bits = toBits(value);
  uint32_t sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
  // A number below 2^-14 is rounded at 2^-24 by adding 2^-1, whose last bit
  // that is.
  uint32_t subnormal = toBits(toFloat(rest) + 0.5f) - toBits(0.5f);
  uint32_t normal =
      (rest - (uint32_t(127 - 15) << 23) + 0xfff + ((rest >> 13) & 1)) >> 13;
  uint32_t magnitude = rest > 0x7f800000    ? canonicalNan16
                       : rest >= 0x47800000 ? 0x7c00
                       : rest >= 0x38800000 ? normal
                                            : subnormal;
  return uint16_t(rest > 0x7f800000 ? canonicalNan16 : sign | magnitude);
}

/// To float such that a second rounding, to a narrower format, comes out as one
/// rounding of `value` would: an inexact result has its last bit set.
static inline float toOdd(double value) {
  float near = float(value);
  uint32_t bits = toBits(near);
  bool isInexact = double(near) != value && value == value;
  if (!isInexact || (bits & 1) || std::isinf(near))
    return near;
  bool isTooLarge = std::fabs(double(near)) > std::fabs(value);
  return toFloat(isTooLarge ? bits - 1 : bits + 1);
}

static inline uint16_t toBf16(double value) { return toBf16(toOdd(value)); }
static inline uint16_t toHalf(double value) { return toHalf(toOdd(value)); }

/// a + b, whose last bit is set where it is inexact; as toOdd().
static inline double addOdd(double a, double b) {
  double sum = a + b;
  double part = sum - a;
  double error = (a - (sum - part)) + (b - part);
  uint64_t bits = toBits(sum);
  if (!(error != 0) || (bits & 1) || !std::isfinite(sum))
    return sum;
  bool isTooLarge = (error < 0) == (sum > 0);
  return toDouble(isTooLarge ? bits - 1 : bits + 1);
}

//===----------------------------------------------------------------------===//
// Any format, slowly
//===----------------------------------------------------------------------===//

struct Format {
  int precision;   ///< bits of the significand, with the first
  int minExponent; ///< of the least normal number
  int maxExponent; ///< of the largest
};

constexpr Format f16Format = {11, -14, 15}, bf16Format = {8, -126, 127},
                 f32Format = {24, -126, 127}, f64Format = {53, -1022, 1023},
                 tf32Format = {11, -126, 127};

/// To an integral value.
static inline long double roundIntegral(long double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return nearbyintl(value);
  case Rounding::NearestTiesAway:
    return roundl(value);
  case Rounding::Zero:
    return truncl(value);
  case Rounding::Down:
    return floorl(value);
  case Rounding::Up:
    return ceill(value);
  }
  return value;
}

/// `value`, which a long double holds exactly, as the format has it.
static inline long double roundTo(long double value, const Format &format,
                                  Rounding rounding) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  frexpl(value, &exponent);
  int unit = std::max(exponent, format.minExponent + 1) - format.precision;
  long double result =
      ldexpl(roundIntegral(ldexpl(value, -unit), rounding), unit);
  long double largest =
      ldexpl(2 - ldexpl(1, 1 - format.precision), format.maxExponent);
  if (std::fabs(result) > largest) {
    bool staysFinite = rounding == Rounding::Zero ||
                       (rounding == Rounding::Down && value > 0) ||
                       (rounding == Rounding::Up && value < 0);
    result = std::copysign(staysFinite ? largest : HUGE_VALL, value);
  }
  return result == 0 ? std::copysign(0.0L, value) : result;
}

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_NUMBERS_H
