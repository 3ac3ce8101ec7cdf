//===- GemmRect.h - One thread's rectangle of a GEMM ----------------------===//
//
// Loops, outermost first (Goto and van de Geijn, "Anatomy of high-performance
// matrix multiplication", 2008, with the roles of the two caches exchanged):
//   rows of C by gemm_block::rows
//     columns by gemm_block::wide          what of C stays in L3 while k passes
//       k by gemm_block::steps             A block packed
//         columns by gemm_block::cols      B block packed: stays in L2
//           rows by MR                     a panel of A stays in L1
//             columns by NR                the register tile
// While a block of B is in use, the next one is asked for from memory.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_GEMMRECT_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_GEMMRECT_H

#include "runtime/cpu/variants/GemmPack.h"
#include "runtime/cpu/variants/Variant.h"

namespace {

using namespace cleave::cpu;

static_assert(MR <= W && W <= gemm_block::slack && NR <= gemm_block::maxCols &&
              gemm_block::cols % NR == 0);

struct Range {
  int64_t begin, end;
  int64_t getSize() const { return end - begin; }
};

/// A range cut into the fewest parts of at most `most`, nearly equal ones;
/// all but the last a multiple of `unit`.
struct Cut {
  Range range;
  int64_t most, unit = 1;
  int64_t units = ceilDiv(range.getSize(), unit);
  int64_t parts = larger(1, ceilDiv(units, most / unit));

  Range getPart(int64_t i) const {
    return {range.begin + units * i / parts * unit,
            smaller(range.end, range.begin + units * (i + 1) / parts * unit)};
  }
};

/// Moves the finished f32 rows x cols into a bf16 C.
inline void storeBf16(const float *from, int64_t ldFrom, uint16_t *to,
                      int64_t ldTo, int64_t rows, int64_t cols,
                      bool accumulate) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; j += W) {
      int64_t n = cols - j < W ? cols - j : W;
      Vec v = vload(from + i * ldFrom + j, n);
      uint16_t *p = to + i * ldTo + j;
      if (accumulate)
        v += vloadBf16(p, n);
      vstoreBf16(p, v, n);
    }
}

/// Tiles of a packed block of A against one of B. `out` is the tile at the
/// blocks' first row and column; `ahead` is asked for meanwhile.
template <class Multiply>
void computeBlock(const PanelsOfA &panelsA, const float *packedA,
                  const PanelsOfB &panelsB, const float *packedB, int64_t steps,
                  const TileOut &out, Ahead ahead) {
  for (int64_t p = 0; p < panelsA.count; ++p)
    for (int64_t q = 0; q < panelsB.count; ++q) {
      TileOut tile = out;
      tile.c += panelsA.getFirst(p) * out.ldc + panelsB.getFirst(q);
      tile.bias = out.bias ? out.bias + panelsB.getFirst(q) : nullptr;
      tile.cols = panelsB.getLines(q);
      auto *compute = getTile<Multiply>(int(panelsA.getLines(p)),
                                        int(ceilDiv(tile.cols, W)));
      compute(steps, packedA + panelsA.getOffset(p, steps),
              packedB + panelsB.getOffset(q, steps), tile, ahead);
    }
}

template <class Multiply, class SrcA, class SrcB>
class RectGemm {
public:
  RectGemm(const GemmArgs &args, GemmRect rect, char *workspace, SrcA a, SrcB b)
      : args(args), a(a), b(b), narrow(args.typeC != ElementType::F32),
        allRows{{rect.m0, rect.m1}, gemm_block::rows},
        allCols{{rect.n0, rect.n1},
                narrow ? gemm_block::wideNarrow : gemm_block::wide},
        allSteps{{0, ceilDiv(args.k, Multiply::perLane)}, gemm_block::steps} {
    GemmWorkspace layout = getGemmWorkspace(args.m, args.n, args.k, args.typeC);
    packedA = reinterpret_cast<float *>(workspace + layout.packedA);
    packedB = reinterpret_cast<float *>(workspace + layout.packedB);
    scratch = reinterpret_cast<float *>(workspace + layout.scratchC);
  }

  void run() {
    for (int64_t i = 0; i < allRows.parts; ++i)
      for (int64_t j = 0; j < allCols.parts; ++j)
        runWide(allRows.getPart(i), allCols.getPart(j));
  }

private:
  void runWide(Range rows, Range wide) {
    PanelsOfA panelsA{rows.getSize()};
    Cut blocks{wide, gemm_block::cols, NR};
    bool accumulate = args.accumulate && !narrow;
    for (int64_t s = 0; s < allSteps.parts; ++s) {
      Range steps = allSteps.getPart(s);
      packPanels(a, rows.begin, steps.begin, steps.getSize(), panelsA, packedA);
      for (int64_t j = 0; j < blocks.parts; ++j) {
        Range cols = blocks.getPart(j);
        PanelsOfB panelsB{cols.getSize()};
        packPanels(b, cols.begin, steps.begin, steps.getSize(), panelsB,
                   packedB);
        Ahead ahead;
        if (j + 1 < blocks.parts)
          ahead = getAhead(blocks.getPart(j + 1), steps);
        else if (s + 1 < allSteps.parts)
          ahead = getAhead(blocks.getPart(0), allSteps.getPart(s + 1));
        TileOut out;
        out.c = narrow ? scratch + cols.begin - wide.begin
                       : getC<float>(rows.begin, cols.begin);
        out.ldc = narrow ? wide.getSize() : args.n;
        out.bias = args.bias && s == 0 ? args.bias + cols.begin : nullptr;
        out.roundsBias = narrow;
        out.accumulate = s > 0 || accumulate;
        out.cols = 0;
        computeBlock<Multiply>(panelsA, packedA, panelsB, packedB,
                               steps.getSize(), out, ahead);
      }
    }
    if (narrow)
      storeBf16(scratch, wide.getSize(), getC<uint16_t>(rows.begin, wide.begin),
                args.n, rows.getSize(), wide.getSize(), args.accumulate);
  }

  template <class T>
  T *getC(int64_t row, int64_t col) const {
    return static_cast<T *>(args.c) + row * args.n + col;
  }
  Ahead getAhead(Range cols, Range steps) const {
    return b.getAhead(cols.begin, cols.getSize(), steps.begin, steps.getSize());
  }

  const GemmArgs &args;
  SrcA a;
  SrcB b;
  bool narrow;
  Cut allRows, allCols, allSteps;
  float *packedA, *packedB, *scratch;
};

template <class Multiply, class SrcA, class SrcB>
void computeRect(const GemmArgs &args, GemmRect rect, char *workspace,
                 const SrcA &a, const SrcB &b) {
  RectGemm<Multiply, SrcA, SrcB>(args, rect, workspace, a, b).run();
}

/// Calls `fn` with operand X of the GEMM as a Source of its type and layout.
template <class Fn>
void withSource(const void *data, ElementType type, bool stepsContiguous,
                int64_t ld, int64_t k, Fn fn) {
  auto *f32 = static_cast<const float *>(data);
  auto *bf16 = static_cast<const uint16_t *>(data);
  if (type == ElementType::F32)
    return stepsContiguous ? fn(Source<float, true>{f32, ld, k})
                           : fn(Source<float, false>{f32, ld, k});
  return stepsContiguous ? fn(Source<uint16_t, true>{bf16, ld, k})
                         : fn(Source<uint16_t, false>{bf16, ld, k});
}

/// A GemmKernel for any types: f32 multiply-adds.
inline void gemmRect(const GemmArgs &args, GemmRect rect, char *workspace) {
  int64_t lda = args.transA ? args.m : args.k;
  int64_t ldb = args.transB ? args.k : args.n;
  withSource(args.a, args.typeA, !args.transA, lda, args.k, [&](auto a) {
    withSource(args.b, args.typeB, args.transB, ldb, args.k, [&](auto b) {
      computeRect<MultiplyF32>(args, rect, workspace, a, b);
    });
  });
}

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_GEMMRECT_H
