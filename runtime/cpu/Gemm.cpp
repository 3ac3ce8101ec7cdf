#include "runtime/cpu/Gemm.h"

#include "runtime/cpu/Features.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/variants/Variant.h"

using namespace cleave::cpu;

const Variant &cleave::cpu::getActiveVariant() {
#if defined(__x86_64__)
  switch (getActiveIsa()) {
  case Isa::Portable:
    return portableVariant;
  case Isa::Avx2:
    return avx2Variant;
  case Isa::Avx512:
  case Isa::Avx512Bf16:
    return avx512Variant;
  }
#endif
  return portableVariant;
}

static GemmKernel getKernel(const GemmArgs &args) {
#if defined(__x86_64__)
  if (args.typeA == ElementType::BF16 && args.typeB == ElementType::BF16 &&
      getActiveIsa() == Isa::Avx512Bf16)
    return avx512Bf16Gemm;
#endif
  return getActiveVariant().gemm;
}

namespace {
/// C cut into rows x cols rectangles, one a thread.
struct Grid {
  int64_t rows, cols;
};
} // namespace

/// The grid whose largest rectangle costs least: its multiplications, and the
/// packing of its rows of A and columns of B, each element of which costs about
/// as much as `packing` multiplications.
static Grid chooseGrid(int64_t m, int64_t n, int64_t threads) {
  constexpr int64_t packing = 16, unit = gemm_block::maxCols;
  Grid best{1, 1};
  int64_t bestCost = INT64_MAX;
  for (int64_t rows = 1; rows <= threads; ++rows) {
    int64_t cols = threads / rows;
    int64_t tall = ceilDiv(m, rows);
    int64_t wide = ceilDiv(ceilDiv(n, unit), cols) * unit;
    int64_t cost = tall * wide + packing * (tall + wide);
    if (cost < bestCost) {
      bestCost = cost;
      best = {rows, cols};
    }
  }
  return best;
}

void cleave::cpu::gemm(const GemmArgs &args, void *workspace,
                       ThreadPool &pool) {
  if (args.m <= 0 || args.n <= 0)
    return;
  GemmKernel kernel = getKernel(args);
  int64_t bytes = getGemmWorkspace(args.m, args.n, args.k, args.typeC).bytes;
  // Below about 20 us of work, waking a thread costs more than it saves.
  constexpr int64_t worthAThread = 1 << 20;
  int64_t work = args.m * args.n * larger(args.k, 1);
  int64_t threads = larger(1, smaller(pool.getThreads(), work / worthAThread));
  Grid grid = chooseGrid(args.m, args.n, threads);
  int64_t unit = gemm_block::maxCols;
  int64_t units = ceilDiv(args.n, unit);
  pool.parallelFor(
      0, grid.rows * grid.cols, 1, [&](int64_t begin, int64_t end, int thread) {
        char *own = static_cast<char *>(workspace) + thread * bytes;
        for (int64_t i = begin; i < end; ++i) {
          int64_t r = i / grid.cols, c = i % grid.cols;
          GemmRect rect;
          rect.m0 = args.m * r / grid.rows;
          rect.m1 = args.m * (r + 1) / grid.rows;
          rect.n0 = unit * (units * c / grid.cols);
          rect.n1 = smaller(args.n, unit * (units * (c + 1) / grid.cols));
          if (rect.m0 < rect.m1 && rect.n0 < rect.n1)
            kernel(args, rect, own);
        }
      });
}
