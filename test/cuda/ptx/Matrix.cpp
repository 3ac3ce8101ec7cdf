//===- Matrix.cpp - Products of matrices ----------------------------------===//
//
// mma.sync.m16n8kK: d[16][8] = a[16][K] b[K][8] + c[16][8]. With g = lane / 4
// and t = lane % 4 a lane holds, of c and d, the columns 2t and 2t + 1 of row g
// and then of row g + 8. Registers of 16-bit elements hold two along K:
//
//   a   register r: row g + 8 (r % 2), from column 2t + 8 (r / 2)
//   b   register r: column g, from row 2t + 8 r
//
// Those of tf32 hold one:
//
//   a   register r: row g + 8 (r % 2), column t + 4 (r / 2)
//   b   register r: column g, row t + 4 r
//
// Products are exact, and summed in f32 from the first k to the last.
//
//===----------------------------------------------------------------------===//
#include "Machine.h"
#include "Numbers.h"

using namespace cleave;
using namespace cleave::ptx;

#if defined(__x86_64__) && defined(__linux__)
#define CLEAVE_PTX_CLONES                                                      \
  __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLEAVE_PTX_CLONES
#endif

CLEAVE_PTX_CLONES
static void multiplyMatrices(const float (&a)[16][16], const float (&b)[16][8],
                             float (&d)[16][8], unsigned depth) {
  for (unsigned row = 0; row < 16; ++row) {
    float sums[8];
    for (unsigned n = 0; n < 8; ++n)
      sums[n] = d[row][n];
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned n = 0; n < 8; ++n)
        sums[n] += a[row][k] * b[k][n];
    for (unsigned n = 0; n < 8; ++n)
      d[row][n] = sums[n];
  }
}

static float readHalf(uint16_t bits, Type type) {
  return type == Type::BF16 ? fromBf16(bits) : fromHalf(bits);
}

bool Machine::multiply(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!requireWholeWarp(warp, i, mask))
    return false;
  std::byte *registers = warp.getFrame().registers;
  unsigned depth = i.mode;
  bool isNarrow = i.type != Type::TF32;
  unsigned fragments = depth / (isNarrow ? 8 : 4);
  float a[16][16], b[16][8], d[16][8];
  auto read = [&](unsigned operand, uint32_t l) {
    return readLane<uint32_t>(registers, i.operands[operand], l);
  };
  // Registers: d, a, b, c.
  unsigned firstA = 4, firstB = firstA + 2 * fragments,
           firstC = firstB + fragments;
  for (uint32_t l = 0; l < warpSize; ++l) {
    uint32_t g = l / 4, t = l % 4;
    for (unsigned r = 0; r < 2 * fragments; ++r) {
      uint32_t bits = read(firstA + r, l);
      float *row = a[g + 8 * (r % 2)];
      if (isNarrow) {
        row[2 * t + 8 * (r / 2)] = readHalf(uint16_t(bits), i.type);
        row[2 * t + 8 * (r / 2) + 1] = readHalf(uint16_t(bits >> 16), i.type);
      } else {
        row[t + 4 * (r / 2)] = toFloat(bits & 0xffffe000);
      }
    }
    for (unsigned r = 0; r < fragments; ++r) {
      uint32_t bits = read(firstB + r, l);
      if (isNarrow) {
        b[2 * t + 8 * r][g] = readHalf(uint16_t(bits), i.type);
        b[2 * t + 8 * r + 1][g] = readHalf(uint16_t(bits >> 16), i.type);
      } else {
        b[t + 4 * r][g] = toFloat(bits & 0xffffe000);
      }
    }
    for (unsigned r = 0; r < 4; ++r)
      d[g + 8 * (r / 2)][2 * t + r % 2] = toFloat(read(firstC + r, l));
  }
  multiplyMatrices(a, b, d, depth);
  for (uint32_t l = 0; l < warpSize; ++l)
    for (unsigned r = 0; r < 4; ++r)
      writeLane<float>(registers, i.operands[r], l,
                       d[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2]);
  return true;
}
