//===- GemmTile.h - The register tile of the GEMM -------------------------===//
//
// C[mr, nr] = or += A B over packed panels: A [steps][mr], B [steps][nr]
// lanes. A lane is what one multiply-add consumes along k: an f32, or two
// bf16. Each element of C is one chain of multiply-adds in the order of the
// steps, whatever the tile's shape.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_GEMMTILE_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_GEMMTILE_H

#include "runtime/cpu/variants/Vector.h"

#include <array>
#include <utility>

namespace {

// As many accumulators as leave registers for B, and one for A's broadcast.
#if defined(__AVX512F__)
constexpr int MR = 14, NV = 2;
#elif defined(__AVX2__)
constexpr int MR = 6, NV = 2;
#else
constexpr int MR = 4, NV = 2;
#endif
constexpr int NR = NV * W;

struct MultiplyF32 {
  static constexpr int perLane = 1;
  CLEAVE_INLINE Vec apply(Vec a, Vec b, Vec c) { return vfma(a, b, c); }
};

#if defined(__AVX512BF16__)
struct MultiplyBf16Pairs {
  static constexpr int perLane = 2;
  CLEAVE_INLINE Vec apply(Vec a, Vec b, Vec c) {
    return (Vec)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
  }
};
#endif

/// What happens to the finished tile.
struct TileOut {
  float *c;
  int64_t ldc;
  const float *bias; ///< of the tile's columns, or null
  bool accumulate;
  int64_t cols; ///< of the tile that exist, in (NR - W, NR] for nv = NV
};

template <class Multiply, int mr, int nv>
void computeTile(int64_t steps, const float *a, const float *b,
                 const TileOut &out) {
  Vec sum[mr][nv];
  for (int i = 0; i < mr; ++i)
    for (int j = 0; j < nv; ++j)
      sum[i][j] = vset(0);
  for (int i = 0; i < mr; ++i)
    for (int j = 0; j < nv; ++j)
      __builtin_prefetch(out.c + i * out.ldc + j * W, 1);
#pragma GCC unroll 4
  for (int64_t s = 0; s < steps; ++s) {
    Vec row[nv];
    for (int j = 0; j < nv; ++j)
      row[j] = vload(b + j * W);
    for (int i = 0; i < mr; ++i) {
      Vec x = vset(a[i]);
      for (int j = 0; j < nv; ++j)
        sum[i][j] = Multiply::apply(x, row[j], sum[i][j]);
    }
    a += mr;
    b += NR;
  }
  for (int j = 0; j < nv; ++j) {
    int64_t lanes = j + 1 < nv ? W : out.cols - j * W;
    Vec bias = vset(0);
    if (out.bias)
      bias = vload(out.bias + j * W, lanes);
    for (int i = 0; i < mr; ++i) {
      float *c = out.c + i * out.ldc + j * W;
      Vec v = out.bias ? sum[i][j] + bias : sum[i][j];
      if (lanes == W)
        vstore(c, out.accumulate ? v + vload(c) : v);
      else
        vstore(c, out.accumulate ? v + vload(c, lanes) : v, lanes);
    }
  }
}

using TileFn = void (*)(int64_t, const float *, const float *, const TileOut &);

template <class Multiply, std::size_t... index>
constexpr std::array<TileFn, MR * NV> getTiles(std::index_sequence<index...>) {
  return {computeTile<Multiply, int(index) / NV + 1, int(index) % NV + 1>...};
}

/// The kernel for a tile of `rows` (1 to MR) by `vecs` (1 to NV) vectors.
template <class Multiply>
TileFn getTile(int rows, int vecs) {
  static constexpr std::array<TileFn, MR * NV> tiles =
      getTiles<Multiply>(std::make_index_sequence<MR * NV>());
  return tiles[(rows - 1) * NV + vecs - 1];
}

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_GEMMTILE_H
