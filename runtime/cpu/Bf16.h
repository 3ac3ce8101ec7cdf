//===- Bf16.h - bfloat16 as the upper half of an f32 ----------------------===//
#ifndef CLEAVE_RUNTIME_CPU_BF16_H
#define CLEAVE_RUNTIME_CPU_BF16_H

#include <bit>
#include <cstdint>

namespace cleave::cpu {

inline float fromBf16(uint16_t x) {
  return std::bit_cast<float>(uint32_t(x) << 16);
}

/// To nearest, ties to even; a NaN stays a NaN.
inline uint16_t toBf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x)
    return uint16_t((bits | 0x400000) >> 16);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_BF16_H
