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

/// Cache lines to ask for while computing: `lines` runs of `perLine` cache
/// lines, `jump` bytes from the end of a run to the start of the next. A tile
/// asks for one every `every` steps, and leaves off where the next tile goes
/// on.
struct Ahead {
  static constexpr int64_t every = 8;

  const char *at = nullptr;
  int64_t lines = 0, perLine = 0, jump = 0;
  int64_t left = 0; ///< of this run

  CLEAVE_INLINE void advance(Ahead &a) {
    __builtin_prefetch(a.at, 0, 2);
    a.at += 64;
    if (--a.left > 0)
      return;
    a.at += a.jump;
    a.left = a.perLine;
    --a.lines;
  }
};

/// What happens to the finished tile.
struct TileOut {
  float *c;
  int64_t ldc;
  const float *bias; ///< of the tile's columns, or null
  bool roundsBias;   ///< to bf16 first
  bool accumulate;
  int64_t cols; ///< of the tile that exist, in (NR - W, NR] for nv = NV
};

// Loops over the tile are unrolled from the start, so that the accumulators are
// registers and never an array in memory.
#define CLEAVE_UNROLL _Pragma("GCC unroll 16")

template <class Multiply, int mr, int nv>
void computeTile(int64_t steps, const float *a, const float *b,
                 const TileOut &out, Ahead &ahead) {
  Vec sum[mr][nv];
  CLEAVE_UNROLL
  for (int i = 0; i < mr; ++i) {
    CLEAVE_UNROLL
    for (int j = 0; j < nv; ++j) {
      sum[i][j] = vset(0);
      __builtin_prefetch(out.c + i * out.ldc + j * W, 1);
    }
  }
  auto advance = [&](int64_t count) __attribute__((always_inline)) {
    CLEAVE_UNROLL
    for (int64_t s = 0; s < count; ++s) {
      Vec row[nv];
      CLEAVE_UNROLL
      for (int j = 0; j < nv; ++j)
        row[j] = vload(b + j * W);
      CLEAVE_UNROLL
      for (int i = 0; i < mr; ++i) {
        Vec x = vset(a[i]);
        CLEAVE_UNROLL
        for (int j = 0; j < nv; ++j)
          sum[i][j] = Multiply::apply(x, row[j], sum[i][j]);
      }
      a += mr;
      b += NR;
    }
  };
  Ahead next = ahead;
  for (; steps >= Ahead::every && next.lines > 0; steps -= Ahead::every) {
    Ahead::advance(next);
    advance(Ahead::every);
  }
  ahead = next;
  for (; steps >= 4; steps -= 4)
    advance(4);
  for (; steps > 0; --steps)
    advance(1);
  CLEAVE_UNROLL
  for (int j = 0; j < nv; ++j) {
    int64_t lanes = j + 1 < nv ? W : out.cols - j * W;
    if (out.bias) {
      Vec bias = vload(out.bias + j * W, lanes);
      if (out.roundsBias)
        bias = (Vec)(vroundBf16(bias) << 16);
      CLEAVE_UNROLL
      for (int i = 0; i < mr; ++i)
        sum[i][j] += bias;
    }
    float *c = out.c + j * W;
    if (lanes == W) {
      CLEAVE_UNROLL
      for (int i = 0; i < mr; ++i, c += out.ldc)
        vstore(c, out.accumulate ? sum[i][j] + vload(c) : sum[i][j]);
    } else {
      CLEAVE_UNROLL
      for (int i = 0; i < mr; ++i, c += out.ldc)
        vstore(c, out.accumulate ? sum[i][j] + vload(c, lanes) : sum[i][j],
               lanes);
    }
  }
}

using TileFn = void (*)(int64_t, const float *, const float *, const TileOut &,
                        Ahead &);

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
