//===- GemmPack.h - Copying A and B into panels ---------------------------===//
//
// A panel holds `width` rows of A, or columns of B, as [steps][width] lanes, so
// that a tile reads both operands front to back. Packing also converts, and
// pairs up bf16 where the multiply takes pairs.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_GEMMPACK_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_GEMMPACK_H

#include "runtime/abi/Workspace.h"
#include "runtime/cpu/variants/GemmTile.h"

namespace {

using namespace cleave::cpu;

/// The cache lines of `lines` runs of `bytes`, the runs `ld` bytes apart.
inline Ahead getAhead(const void *start, int64_t lines, int64_t bytes,
                      int64_t ld) {
  Ahead ahead;
  ahead.at = static_cast<const char *>(start);
  ahead.lines = lines;
  ahead.perLine = ahead.left = ceilDiv(bytes, 64);
  ahead.jump = ld - ahead.perLine * 64;
  return ahead;
}

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
  /// Asks for what alongSteps or alongLines will read. Need not exist.
  void prefetch(int64_t line, int64_t step) const {
    __builtin_prefetch(data +
                       (stepsContiguous ? line * ld + step : step * ld + line));
  }
  /// All of it.
  Ahead getAhead(int64_t line, int64_t lines, int64_t step,
                 int64_t steps) const {
    constexpr int64_t width = sizeof(T);
    return stepsContiguous ? ::getAhead(data + line * ld + step, lines,
                                        steps * width, ld * width)
                           : ::getAhead(data + step * ld + line, steps,
                                        lines * width, ld * width);
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
    __builtin_prefetch(
        data + (stepsContiguous ? line * ld + 2 * step : 2 * step * ld + line));
  }
  Ahead getAhead(int64_t line, int64_t lines, int64_t step,
                 int64_t steps) const {
    return stepsContiguous ? ::getAhead(data + line * ld + 2 * step, lines,
                                        4 * steps, 2 * ld)
                           : ::getAhead(data + 2 * step * ld + line, 2 * steps,
                                        2 * lines, 2 * ld);
  }
};

/// Packs `lines` (at most `width`) lines from `line`, and `steps` steps from
/// `step`. Vectors are stored in the order of their addresses: where `width`
/// is not a multiple of W, a store overruns into lanes that a later store
/// writes, or, at the end, into W - 1 lanes behind the panel. `ahead` > 0: the
/// lines that far on are asked for.
template <class Src>
void packPanel(const Src &src, int64_t line, int64_t lines, int64_t step,
               int64_t steps, int64_t width, float *panel, int64_t ahead = 0) {
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
        if (ahead)
          for (int i = 0; i < W; ++i)
            src.prefetch(line + first + ahead + i, step + s);
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

/// Packs lines from `line` as panels: which lines, and where, as `panels` says.
/// Where lines are neighbours in memory, they are
/// read in long runs: a few steps of all panels at a time.
template <class Src, class Panels>
void packPanels(const Src &src, int64_t line, int64_t step, int64_t steps,
                const Panels &panels, float *block) {
  int64_t chunk = Src::stepsContiguous ? steps : 8;
  for (int64_t s = 0; s < steps; s += chunk) {
    int64_t n = steps - s < chunk ? steps - s : chunk;
    for (int64_t p = 0; p < panels.count; ++p) {
      int64_t width = panels.getWidth(p);
      packPanel(src, line + panels.getFirst(p), panels.getLines(p), step + s, n,
                width, block + panels.getOffset(p, steps) + s * width,
                p + 1 < panels.count ? width : 0);
    }
  }
}

/// Rows of A: panels of nearly equal height, so that none is much below MR.
struct PanelsOfA {
  int64_t rows;
  int64_t count = ceilDiv(rows, MR);

  int64_t getFirst(int64_t p) const { return rows * p / count; }
  int64_t getLines(int64_t p) const { return getFirst(p + 1) - getFirst(p); }
  int64_t getWidth(int64_t p) const { return getLines(p); }
  int64_t getOffset(int64_t p, int64_t steps) const {
    return getFirst(p) * steps + p * gemm_block::slack;
  }
};

/// Columns of B: panels of NR, the last filled up with zeros.
struct PanelsOfB {
  int64_t cols;
  int64_t count = ceilDiv(cols, NR);

  int64_t getFirst(int64_t p) const { return p * NR; }
  int64_t getLines(int64_t p) const { return smaller(cols - p * NR, NR); }
  int64_t getWidth(int64_t) const { return NR; }
  int64_t getOffset(int64_t p, int64_t steps) const { return p * NR * steps; }
};

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_GEMMPACK_H
