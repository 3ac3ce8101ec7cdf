//===- EmbeddingSort.h - How an embedding's gradient sorts its rows -------===//
//
// Host and device cut the work and the scratch by the same functions.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_EMBEDDINGSORT_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_EMBEDDINGSORT_H

#include <stdint.h>

namespace cleave::cuda {

/// The sort is by one digit of sortDigits values a pass, the lowest first.
constexpr int sortDigitBits = 8, sortDigits = 1 << sortDigitBits;
constexpr int sortThreads = 256, sortWarps = sortThreads / 32;
constexpr int maxSortPasses = 4;
/// More blocks would only read more of each other's counts.
constexpr int64_t maxSortBlocks = 128;

/// Columns and rows of the table that one block sums.
constexpr int sumThreads = 128, sumColumns = 4 * sumThreads, sumRows = 8;

/// The keys 0 to tableRows - 1 are rows of the table, tableRows is none of
/// them. Parts of the scratch in bytes from its start, all of uint32_t.
struct EmbeddingSort {
  int passes;
  int64_t blocks;       ///< of each pass
  int64_t perBlock;     ///< rows that one block moves, a multiple of 1024
  int64_t keys[2];      ///< [rows], of even and odd passes
  int64_t positions[2]; ///< [rows]: which r a key came from
  int64_t counts;       ///< [blocks][digits]
  int64_t starts;       ///< [tableRows + 1]: where a row's run begins
  int64_t bytes;
};

constexpr EmbeddingSort getEmbeddingSort(int64_t rows, int64_t tableRows) {
  EmbeddingSort sort{};
  sort.passes = 1;
  while (sort.passes < maxSortPasses &&
         tableRows >> (sort.passes * sortDigitBits) > 0)
    ++sort.passes;
  int64_t perBlock = (rows + maxSortBlocks - 1) / maxSortBlocks;
  sort.perBlock = perBlock <= 1024 ? 1024 : (perBlock + 1023) / 1024 * 1024;
  sort.blocks = (rows + sort.perBlock - 1) / sort.perBlock;
  int64_t at = 0;
  auto take = [&](int64_t words) {
    int64_t part = at;
    at += (4 * words + 255) / 256 * 256;
    return part;
  };
  for (int i = 0; i < 2; ++i) {
    sort.keys[i] = take(rows);
    sort.positions[i] = take(rows);
  }
  sort.counts = take(sort.blocks * sortDigits);
  sort.starts = take(tableRows + 1);
  sort.bytes = at;
  return sort;
}

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_EMBEDDINGSORT_H
