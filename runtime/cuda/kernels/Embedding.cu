//===- Embedding.cu - Table look-up and strided copies on the GPU ---------===//
#include "runtime/cuda/kernels/Kernels.h"
#include "runtime/cuda/kernels/Numbers.h"

using namespace cleave::cuda;

namespace {

CLEAVE_DEVICE bool isAligned(const void *p, int64_t bytes) {
  return uint64_t(p) % uint64_t(bytes) == 0;
}

/// out[r] = table[ids[r] - first], or zeros. Launched in blocks of 128 threads,
/// block (x, y) for row x and columns 512 y to 512 (y + 1).
template <class Table, class Out>
CLEAVE_DEVICE void lookUp(const EmbeddingParams &p) {
  int64_t r = getBlockX(), width = p.width;
  int64_t id = int64_t(p.ids[r]) - p.first;
  bool here = id >= 0 && id < p.tableRows;
  const Table *from = static_cast<const Table *>(p.table) + id * width;
  Out *to = static_cast<Out *>(p.out) + r * width;
  int64_t first = int64_t(getBlockY()) * 512;
  if (width % 4 == 0 && isAligned(p.table, 16) && isAligned(p.out, 16)) {
    int64_t j = first + 4 * getThread();
    if (j < width)
      store4(to + j, here ? load4(from + j) : Floats4{});
    return;
  }
  for (int i = 0; i < 4; ++i)
    if (int64_t j = first + 128 * i + getThread(); j < width)
      store(to + j, here ? load(from + j) : 0.0f);
}

/// Copies rows by units of one Word. The 256 threads of a block are
/// 256 / lanes rows of `lanes` units each, a power of two; block (x, y) begins
/// at the x-th such group of rows and the y-th group of units, and goes on by
/// the size of the grid.
template <class Word>
CLEAVE_DEVICE void copyUnits(const CopyRowsParams &p) {
  int64_t units = p.bytes / int64_t(sizeof(Word));
  int bits = 0;
  while (bits < 8 && int64_t(1) << bits < units)
    ++bits;
  int lanes = 1 << bits, rows = 256 >> bits;
  int lane = getThread() & (lanes - 1), row = getThread() >> bits;
  for (int64_t i = int64_t(getBlockX()) * rows + row; i < p.outer;
       i += int64_t(getBlocksX()) * rows) {
    auto *from = reinterpret_cast<const Word *>(
        static_cast<const char *>(p.in) + i * p.inStride);
    auto *to =
        reinterpret_cast<Word *>(static_cast<char *>(p.out) + i * p.outStride);
    int64_t step = int64_t(getBlocksY()) * lanes;
    int64_t u = int64_t(getBlockY()) * lanes + lane;
    for (; u + 3 * step < units; u += 4 * step) {
      Word words[4];
      CLEAVE_UNROLL
      for (int k = 0; k < 4; ++k)
        words[k] = from[u + k * step];
      CLEAVE_UNROLL
      for (int k = 0; k < 4; ++k)
        to[u + k * step] = words[k];
    }
    for (; u < units; u += step)
      to[u] = from[u];
  }
}

} // namespace

CLEAVE_KERNEL(128, 8) cleave_embedding_f32_f32(EmbeddingParams p) {
  lookUp<float, float>(p);
}
CLEAVE_KERNEL(128, 8) cleave_embedding_f32_bf16(EmbeddingParams p) {
  lookUp<float, uint16_t>(p);
}
CLEAVE_KERNEL(128, 8) cleave_embedding_bf16_f32(EmbeddingParams p) {
  lookUp<uint16_t, float>(p);
}
CLEAVE_KERNEL(128, 8) cleave_embedding_bf16_bf16(EmbeddingParams p) {
  lookUp<uint16_t, uint16_t>(p);
}

/// Copies by the widest words that every row allows.
CLEAVE_KERNEL(256, 4) cleave_copy_rows(CopyRowsParams p) {
  uint64_t all = uint64_t(p.in) | uint64_t(p.out) | uint64_t(p.bytes);
  if (p.outer > 1)
    all |= uint64_t(p.inStride) | uint64_t(p.outStride);
  if (all % 16 == 0)
    copyUnits<Words4>(p);
  else if (all % 8 == 0)
    copyUnits<Words2>(p);
  else if (all % 4 == 0)
    copyUnits<uint32_t>(p);
  else if (all % 2 == 0)
    copyUnits<uint16_t>(p);
  else
    copyUnits<uint8_t>(p);
}
