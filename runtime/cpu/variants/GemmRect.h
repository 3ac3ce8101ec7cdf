//===- GemmRect.h - One thread's rectangle of a GEMM ----------------------===//
//
// Loops, outermost first (Goto and van de Geijn, "Anatomy of high-performance
// matrix multiplication", 2008, with the roles of the two caches exchanged):
//   rows of C by gemm_block::rows          one packing of B serves them
//     columns of C by gemm_block::cols
//       k by gemm_block::steps             B block packed: lives in L2
//         rows by MR                       A panel packed: lives in L1
//           columns by NR                  the register tile
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_GEMMRECT_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_GEMMRECT_H

#include "runtime/cpu/variants/GemmPack.h"
#include "runtime/cpu/variants/Variant.h"

namespace {

using namespace cleave::cpu;

static_assert(MR <= gemm_block::maxRows && NR <= gemm_block::maxCols &&
              MR <= W && gemm_block::cols % NR == 0);

/// The first index of part `i` of `size` cut into `parts` nearly equal parts.
CLEAVE_INLINE int64_t getPart(int64_t size, int64_t parts, int64_t i) {
  return size * i / parts;
}

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

/// A block of B against `rows` rows of A from `row`, packed panel by panel.
/// `out` is the tile at (row, the block's first column).
template <class Multiply, class SrcA>
void computeBlock(const SrcA &a, int64_t row, int64_t rows, int64_t step,
                  int64_t steps, const float *packedB, int64_t cols,
                  float *packedA, const TileOut &out) {
  int64_t panels = ceilDiv(rows, MR);
  for (int64_t p = 0; p < panels; ++p) {
    int64_t first = getPart(rows, panels, p);
    int64_t mr = getPart(rows, panels, p + 1) - first;
    packPanel(a, row + first, mr, step, steps, mr, packedA);
    for (int64_t j = 0; j < cols; j += NR) {
      int64_t width = smaller(cols - j, NR);
      TileOut tile = out;
      tile.c += first * out.ldc + j;
      tile.bias = out.bias ? out.bias + j : nullptr;
      tile.cols = width;
      getTile<Multiply>(int(mr), int(ceilDiv(width, W)))(
          steps, packedA, packedB + j * steps, tile);
    }
  }
}

template <class Multiply, class SrcA, class SrcB>
void computeRect(const GemmArgs &args, GemmRect rect, char *workspace,
                 const SrcA &a, const SrcB &b) {
  GemmWorkspace layout = getGemmWorkspace(args.m, args.n, args.k, args.typeC);
  float *packedB = reinterpret_cast<float *>(workspace + layout.packedB);
  float *packedA = reinterpret_cast<float *>(workspace + layout.packedA);
  float *scratch = reinterpret_cast<float *>(workspace + layout.scratchC);
  bool narrow = args.typeC != ElementType::F32;
  int64_t allSteps = ceilDiv(args.k, Multiply::perLane);
  int64_t blocks = larger(1, ceilDiv(allSteps, gemm_block::steps));

  int64_t rowParts = ceilDiv(rect.m1 - rect.m0, gemm_block::rows);
  for (int64_t rowPart = 0; rowPart < rowParts; ++rowPart) {
    int64_t row = rect.m0 + getPart(rect.m1 - rect.m0, rowParts, rowPart);
    int64_t rows =
        rect.m0 + getPart(rect.m1 - rect.m0, rowParts, rowPart + 1) - row;
    int64_t tileCols = ceilDiv(rect.n1 - rect.n0, NR);
    int64_t colParts = ceilDiv(tileCols, gemm_block::cols / NR);
    for (int64_t colPart = 0; colPart < colParts; ++colPart) {
      int64_t col = rect.n0 + NR * getPart(tileCols, colParts, colPart);
      int64_t end = rect.n0 + NR * getPart(tileCols, colParts, colPart + 1);
      int64_t cols = smaller(end, rect.n1) - col;
      TileOut out;
      out.c =
          narrow ? scratch : static_cast<float *>(args.c) + row * args.n + col;
      out.ldc = narrow ? cols : args.n;
      out.cols = 0;
      for (int64_t block = 0; block < blocks; ++block) {
        int64_t step = getPart(allSteps, blocks, block);
        int64_t steps = getPart(allSteps, blocks, block + 1) - step;
        for (int64_t j = 0; j < cols; j += NR)
          packPanel(b, col + j, smaller(cols - j, NR), step, steps, NR,
                    packedB + j * steps);
        out.accumulate = block > 0 || (args.accumulate && !narrow);
        out.bias = args.bias && block == 0 ? args.bias + col : nullptr;
        computeBlock<Multiply>(a, row, rows, step, steps, packedB, cols,
                               packedA, out);
      }
      if (narrow)
        storeBf16(scratch, cols,
                  static_cast<uint16_t *>(args.c) + row * args.n + col, args.n,
                  rows, cols, args.accumulate);
    }
  }
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
