//===- EmbeddingGrad.cu - Gradient of a table look-up on the GPU ----------===//
//
// dtable[ids[r] - first] += dout[r], each row of the table summed in order of
// r, so that the result is the CPU's. No atomic addition of floats: rows r are
// sorted by id, stably, by a radix sort of 8 bits a pass (Merrill and
// Grimshaw, "High Performance and Scalable Radix Sorting", 2011), and then each
// row of the table adds its own run.
//
//   per pass: cleave_part_embedding_count_N      digits of each block
//             cleave_part_embedding_scatter_N    keys and r to their places
//   then:     cleave_part_embedding_starts       where each row's run begins
//             cleave_embedding_grad_DOUT_DTABLE  the sums
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/kernels/EmbeddingSort.h"
#include "runtime/cuda/kernels/Kernels.h"
#include "runtime/cuda/kernels/Numbers.h"

using namespace cleave::cuda;

namespace {

CLEAVE_DEVICE uint32_t *getPart(const EmbeddingGradParams &p, int64_t part) {
  return reinterpret_cast<uint32_t *>(static_cast<char *>(p.scratch) + part);
}

/// The key at position `i` of the input of pass `Pass`.
template <int Pass>
CLEAVE_DEVICE uint32_t getKey(const EmbeddingGradParams &p,
                              const uint32_t *before, int64_t i) {
  if constexpr (Pass > 0)
    return before[i];
  int64_t id = int64_t(p.ids[i]) - p.first;
  return uint32_t(id >= 0 && id < p.tableRows ? id : p.tableRows);
}

template <int Pass>
CLEAVE_DEVICE uint32_t getDigit(uint32_t key) {
  return (key >> (Pass * sortDigitBits)) & (sortDigits - 1);
}

CLEAVE_DEVICE int64_t getEnd(int64_t begin, int64_t size, int64_t limit) {
  return begin + size < limit ? begin + size : limit;
}

/// counts[block][digit] of the block's part of the input. Launched in blocks of
/// 256 threads, one a digit when the counts are written.
template <int Pass>
CLEAVE_DEVICE void countDigits(const EmbeddingGradParams &p) {
  EmbeddingSort sort = getEmbeddingSort(p.rows, p.tableRows);
  const uint32_t *before = getPart(p, sort.keys[(Pass + 1) % 2]);
  auto *counts = reinterpret_cast<uint32_t *>(getShared());
  counts[getThread()] = 0;
  syncThreads();
  int64_t begin = getBlockX() * sort.perBlock;
  int64_t end = getEnd(begin, sort.perBlock, p.rows);
  for (int64_t i = begin + getThread(); i < end; i += sortThreads)
    addShared(counts + getDigit<Pass>(getKey<Pass>(p, before, i)), 1);
  syncThreads();
  getPart(p, sort.counts)[getBlockX() * sortDigits + getThread()] =
      counts[getThread()];
}

/// The sum of `value` over the threads before this one; `warpSums` is shared,
/// one number a warp.
CLEAVE_DEVICE uint32_t sumBefore(uint32_t value, uint32_t *warpSums) {
  int lane = getThread() % warpSize, warp = getThread() / warpSize;
  uint32_t sum = value;
  CLEAVE_UNROLL
  for (int distance = 1; distance < warpSize; distance *= 2) {
    uint32_t below = shuffleUp(sum, distance);
    sum += lane >= distance ? below : 0;
  }
  if (lane == warpSize - 1)
    warpSums[warp] = sum;
  syncThreads();
  for (int w = 0; w < warp; ++w)
    sum += warpSums[w];
  return sum - value;
}

/// Moves the block's part of the input to its places by digit. Launched in
/// blocks of 256 threads. Each warp takes an eighth of the part:
///  1. It counts its digits.
///  2. Thread d finds the place of the block's first digit d, from the counts
///     of all blocks, and from it that of each warp's first.
///  3. A warp moves 32 keys at a time in order: the lanes of one digit take
///     places side by side.
template <int Pass>
CLEAVE_DEVICE void scatterKeys(const EmbeddingGradParams &p) {
  EmbeddingSort sort = getEmbeddingSort(p.rows, p.tableRows);
  const uint32_t *keysBefore = getPart(p, sort.keys[(Pass + 1) % 2]);
  const uint32_t *rowsBefore = getPart(p, sort.positions[(Pass + 1) % 2]);
  uint32_t *keysAfter = getPart(p, sort.keys[Pass % 2]);
  uint32_t *rowsAfter = getPart(p, sort.positions[Pass % 2]);
  auto *places = reinterpret_cast<uint32_t *>(getShared()); // [warps][digits]
  uint32_t *warpSums = places + sortWarps * sortDigits;
  int thread = getThread(), lane = thread % warpSize, warp = thread / warpSize;
  uint32_t *own = places + warp * sortDigits;

  for (int w = 0; w < sortWarps; ++w)
    places[w * sortDigits + thread] = 0;
  syncThreads();
  int64_t share = sort.perBlock / sortWarps;
  int64_t begin = getBlockX() * sort.perBlock + warp * share;
  int64_t end = getEnd(begin, share, p.rows);
  for (int64_t i = begin + lane; i < end; i += warpSize)
    addShared(own + getDigit<Pass>(getKey<Pass>(p, keysBefore, i)), 1);
  syncThreads();

  const uint32_t *counts = getPart(p, sort.counts);
  uint32_t all = 0, earlier = 0;
  for (int64_t block = 0; block < sort.blocks; ++block) {
    uint32_t count = counts[block * sortDigits + thread];
    all += count;
    earlier += block < getBlockX() ? count : 0;
  }
  uint32_t place = sumBefore(all, warpSums) + earlier;
  for (int w = 0; w < sortWarps; ++w) {
    uint32_t count = places[w * sortDigits + thread];
    places[w * sortDigits + thread] = place;
    place += count;
  }
  syncThreads();

  for (int64_t i = begin; i < end; i += warpSize) {
    bool real = i + lane < end;
    uint32_t key = real ? getKey<Pass>(p, keysBefore, i + lane) : 0;
    uint32_t digit = real ? getDigit<Pass>(key) : sortDigits; // no real one
    uint32_t same = matchAny(digit);
    uint32_t rank = uint32_t(__builtin_popcount(same & ((1u << lane) - 1)));
    uint32_t to = real ? own[digit] + rank : 0;
    syncWarp();
    if (real) {
      if (same >> lane == 1) // the last of its digit
        own[digit] = to + 1;
      keysAfter[to] = key;
      rowsAfter[to] = Pass > 0 ? rowsBefore[i + lane] : uint32_t(i + lane);
    }
    syncWarp();
  }
}

/// starts[t], the number of keys below t. Launched in blocks of 256 threads,
/// one thread for each t up to tableRows.
CLEAVE_DEVICE void findStarts(const EmbeddingGradParams &p) {
  EmbeddingSort sort = getEmbeddingSort(p.rows, p.tableRows);
  const uint32_t *keys = getPart(p, sort.keys[(sort.passes + 1) % 2]);
  int64_t t = int64_t(getBlockX()) * sortThreads + getThread();
  if (t > p.tableRows)
    return;
  int64_t low = 0, high = p.rows;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (keys[middle] < t)
      low = middle + 1;
    else
      high = middle;
  }
  getPart(p, sort.starts)[t] = uint32_t(low);
}

/// Adds `Count` rows of dout to four columns of one row of the table; all are
/// on their way before the first is added.
template <class Dout, class Dtable, bool Wide, int Count>
CLEAVE_DEVICE void addRows(float (&sum)[4], const uint32_t *rows,
                           const Dout *dout, int64_t width, int64_t columns) {
  float values[Count][4];
  CLEAVE_UNROLL
  for (int i = 0; i < Count; ++i) {
    const Dout *from = dout + int64_t(rows[i]) * width;
    if constexpr (Wide) {
      Floats4 four = load4(from);
      CLEAVE_UNROLL
      for (int c = 0; c < 4; ++c)
        values[i][c] = four[c];
    } else {
      CLEAVE_UNROLL
      for (int c = 0; c < 4; ++c)
        values[i][c] =
            c * sumThreads < columns ? load(from + c * sumThreads) : 0.0f;
    }
  }
  CLEAVE_UNROLL
  for (int i = 0; i < 4 * Count; ++i)
    sum[i % 4] = roundTo<Dtable>(sum[i % 4] + values[i / 4][i % 4]);
}

/// A thread has four columns: side by side where `Wide`, else 128 apart, of
/// which those below `width` exist.
template <class Dout, class Dtable, bool Wide>
CLEAVE_DEVICE void sumRuns(const EmbeddingGradParams &p) {
  EmbeddingSort sort = getEmbeddingSort(p.rows, p.tableRows);
  const uint32_t *rows = getPart(p, sort.positions[(sort.passes + 1) % 2]);
  const uint32_t *starts = getPart(p, sort.starts);
  int64_t column =
      int64_t(getBlockY()) * sumColumns + getThread() * (Wide ? 4 : 1);
  int64_t columns = p.width - column; // from the first of this thread's
  if (columns <= 0)
    return;
  const Dout *dout = static_cast<const Dout *>(p.dout) + column;
  int64_t first = int64_t(getBlockX()) * sumRows;
  int64_t end = getEnd(first, sumRows, p.tableRows);
  for (int64_t t = first; t < end; ++t) {
    uint32_t i = starts[t], last = starts[t + 1];
    if (p.accumulate && i == last)
      continue;
    Dtable *to = static_cast<Dtable *>(p.dtable) + t * p.width + column;
    float sum[4] = {};
    if (p.accumulate) {
      if constexpr (Wide) {
        Floats4 four = load4(to);
        for (int c = 0; c < 4; ++c)
          sum[c] = four[c];
      } else {
        for (int c = 0; c < 4; ++c)
          sum[c] = c * sumThreads < columns ? load(to + c * sumThreads) : 0.0f;
      }
    }
    for (; last - i >= 16; i += 16)
      addRows<Dout, Dtable, Wide, 16>(sum, rows + i, dout, p.width, columns);
    for (; last - i >= 4; i += 4)
      addRows<Dout, Dtable, Wide, 4>(sum, rows + i, dout, p.width, columns);
    for (; i < last; ++i)
      addRows<Dout, Dtable, Wide, 1>(sum, rows + i, dout, p.width, columns);
    if constexpr (Wide) {
      store4(to, Floats4{sum[0], sum[1], sum[2], sum[3]});
    } else {
      for (int c = 0; c < 4; ++c)
        if (c * sumThreads < columns)
          store(to + c * sumThreads, sum[c]);
    }
  }
}

/// The sums, and zeros for rows of the table that nothing is added to. Launched
/// in blocks of 128 threads, block (x, y) for 8 rows of the table and 512
/// columns. Rows are read in whole vectors where the width allows.
template <class Dout, class Dtable>
CLEAVE_DEVICE void sumTable(const EmbeddingGradParams &p) {
  if (p.width % 4 == 0 && (uint64_t(p.dout) | uint64_t(p.dtable)) % 16 == 0)
    sumRuns<Dout, Dtable, true>(p);
  else
    sumRuns<Dout, Dtable, false>(p);
}

} // namespace

#define CLEAVE_SORT_PASS(PASS)                                                 \
  CLEAVE_KERNEL(256, 2)                                                        \
  cleave_part_embedding_count_##PASS(EmbeddingGradParams p) {                  \
    countDigits<PASS>(p);                                                      \
  }                                                                            \
  CLEAVE_KERNEL(256, 2)                                                        \
  cleave_part_embedding_scatter_##PASS(EmbeddingGradParams p) {                \
    scatterKeys<PASS>(p);                                                      \
  }
CLEAVE_SORT_PASS(0)
CLEAVE_SORT_PASS(1)
CLEAVE_SORT_PASS(2)
CLEAVE_SORT_PASS(3)

CLEAVE_KERNEL(256, 2) cleave_part_embedding_starts(EmbeddingGradParams p) {
  findStarts(p);
}

CLEAVE_KERNEL(128, 4) cleave_embedding_grad_f32_f32(EmbeddingGradParams p) {
  sumTable<float, float>(p);
}
CLEAVE_KERNEL(128, 4) cleave_embedding_grad_f32_bf16(EmbeddingGradParams p) {
  sumTable<float, uint16_t>(p);
}
CLEAVE_KERNEL(128, 4) cleave_embedding_grad_bf16_f32(EmbeddingGradParams p) {
  sumTable<uint16_t, float>(p);
}
CLEAVE_KERNEL(128, 4) cleave_embedding_grad_bf16_bf16(EmbeddingGradParams p) {
  sumTable<uint16_t, uint16_t>(p);
}
