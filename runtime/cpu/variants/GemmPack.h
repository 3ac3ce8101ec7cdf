//===- GemmPack.h - Copying A and B into panels ---------------------------===//
//
// A panel holds `width` rows of A, or columns of B, as [steps][width] lanes, so
// that a tile reads both operands front to back. Packing also converts, and
// pairs up bf16 where the multiply takes pairs.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_GEMMPACK_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_GEMMPACK_H

#include "runtime/cpu/variants/GemmTile.h"

namespace {

/// An operand as its panels see it: `line` is a row of A or a column of B.
/// Where `stepsContiguous`, a line's elements are neighbours in memory and
/// lines are `ld` apart; otherwise lines are neighbours and steps are apart.
template <class T, bool stepsContiguous_>
struct Source {
  static constexpr bool stepsContiguous = stepsContiguous_;
  const T *data;
  int64_t ld;
  int64_t k;

  CLEAVE_INLINE Vec load(const float *p, int64_t n) {
    return n == W ? vload(p) : vload(p, n);
  }
  CLEAVE_INLINE Vec load(const uint16_t *p, int64_t n) {
    return n == W ? vloadBf16(p) : vloadBf16(p, n);
  }
  /// Lanes [step, step + n) of one line.
  Vec alongSteps(int64_t line, int64_t step, int64_t n) const {
    return load(data + line * ld + step, n);
  }
  /// Lines [line, line + n) of one step.
  Vec alongLines(int64_t line, int64_t step, int64_t n) const {
    return load(data + step * ld + line, n);
  }
  /// Asks for what alongSteps will read.
  void prefetch(int64_t line, int64_t step) const {
    __builtin_prefetch(data + line * ld + step);
  }
};

/// bf16 two to a lane, the earlier k in the low half; an odd k ends in zero.
template <bool stepsContiguous_>
struct PairSource {
  static constexpr bool stepsContiguous = stepsContiguous_;
  const uint16_t *data;
  int64_t ld;
  int64_t k;

  Vec alongSteps(int64_t line, int64_t step, int64_t n) const {
    const uint16_t *p = data + line * ld + 2 * step;
    Vec v = {};
    if (n == W && 2 * (step + n) <= k)
      memcpy(&v, p, sizeof v);
    else
      memcpy(&v, p, 2 * (k - 2 * step < 2 * n ? k - 2 * step : 2 * n));
    return v;
  }
  Vec alongLines(int64_t line, int64_t step, int64_t n) const {
    const uint16_t *p = data + 2 * step * ld + line;
    bool full = n == W;
    VecI low = full ? vload16(p) : vload16(p, n);
    if (2 * step + 1 == k)
      return (Vec)low;
    VecI high = full ? vload16(p + ld) : vload16(p + ld, n);
    return (Vec)(low | (high << 16));
  }
  void prefetch(int64_t line, int64_t step) const {
    __builtin_prefetch(data + line * ld + 2 * step);
  }
};

/// Packs `lines` (at most `width`) lines from `line`, and `steps` steps from
/// `step`. Vectors are stored in the order of their addresses: where `width`
/// is not a multiple of W, a store overruns into lanes that a later store
/// writes, or, at the end, into W - 1 lanes behind the panel.
template <class Src>
void packPanel(const Src &src, int64_t line, int64_t lines, int64_t step,
               int64_t steps, int64_t width, float *panel) {
  for (int64_t first = 0; first < width; first += W) {
    int64_t count = lines - first < 0 ? 0 : lines - first;
    count = count < W ? count : W;
    float *to = panel + first;
    if constexpr (Src::stepsContiguous) {
      for (int64_t s = 0; s < steps; s += W) {
        int64_t n = steps - s < W ? steps - s : W;
        Vec block[W];
        for (int i = 0; i < W; ++i)
          block[i] = i < count ? src.alongSteps(line + first + i, step + s, n)
                               : vset(0);
        vtranspose(block);
        for (int64_t i = 0; i < n; ++i)
          vstore(to + (s + i) * width, block[i]);
      }
    } else {
      for (int64_t s = 0; s < steps; ++s)
        vstore(to + s * width,
               count ? src.alongLines(line + first, step + s, count) : vset(0));
    }
  }
}

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_GEMMPACK_H
