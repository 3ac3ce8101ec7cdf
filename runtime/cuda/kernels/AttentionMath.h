//===- AttentionMath.h - Tiles of attention on tensor cores ---------------===//
//
// Tiles lie in shared memory by rows of `Dim` bf16 numbers, in chunks of 16
// bytes. Chunk c of row r lies where chunk c ^ (r % 8) would (of rows that are
// no multiple of 128 bytes, c ^ (r / 2 % 4)): so the same chunk of 8 rows,
// which ldmatrix reads at once, lies in all 32 banks.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_ATTENTIONMATH_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_ATTENTIONMATH_H

#include "runtime/cuda/kernels/Kernels.h"
#include "runtime/cuda/kernels/Numbers.h"

namespace cleave::cuda {

template <int Dim>
CLEAVE_DEVICE uint32_t getSwizzle(int row) {
  static_assert(Dim % 32 == 0);
  return Dim % 64 == 0 ? uint32_t(row & 7) : uint32_t(row >> 1 & 3);
}

/// What a thread can find out again is not kept in a register meanwhile.
CLEAVE_DEVICE int getThreadAgain() { return int(hide(uint32_t(getThread()))); }
CLEAVE_DEVICE int getLaneAgain() { return getThreadAgain() % warpSize; }
CLEAVE_DEVICE int getWarpAgain() { return getThreadAgain() / warpSize; }
struct HeadIndex {
  int head, batch;
};
/// Of a grid of heads, blocks of rows, batch.
CLEAVE_DEVICE HeadIndex getHeadAgain() {
  return {int(hide(uint32_t(getBlockX()))), int(hide(uint32_t(getBlockZ())))};
}

/// Starts to load rows [first, first + Rows) of one head; zeros stand for rows
/// from `seq` and columns from `dim` on. Row 0 lies at `from`.
template <int Dim, int Rows, int Threads>
CLEAVE_DEVICE void loadTile(uint32_t tile, const uint16_t *from, int64_t stride,
                            int first, int seq, int dim) {
  constexpr int chunks = Dim / 8;
  static_assert(Rows * chunks % Threads == 0);
  const int thread = getThreadAgain();
  CLEAVE_UNROLL
  for (int i = 0; i < Rows * chunks / Threads; ++i) {
    // Where whole rows are loaded at once, only the row changes.
    int at = Threads % chunks == 0 ? thread : i * Threads + thread;
    int below = Threads % chunks == 0 ? i * (Threads / chunks) : 0;
    int row = at / chunks + below, chunk = at % chunks;
    bool real = first + row < seq && 8 * chunk < dim;
    const uint16_t *source =
        from + (real ? (first + row) * stride + 8 * chunk : 0);
    copyAsync16(tile + uint32_t(2 * Dim * row) +
                    16 * (uint32_t(chunk) ^ getSwizzle<Dim>(row)),
                source, real);
  }
}

/// The same of two tensors, whose rows lie alike, `offset` behind their starts;
/// the second tile lies behind the first.
template <int Dim, int Rows, int Threads>
CLEAVE_DEVICE void loadTiles(uint32_t tiles, const void *a, const void *b,
                             int64_t offset, int stride, int first, int seq,
                             int dim) {
  loadTile<Dim, Rows, Threads>(tiles, static_cast<const uint16_t *>(a) + offset,
                               stride, first, seq, dim);
  loadTile<Dim, Rows, Threads>(tiles + 2 * Dim * Rows,
                               static_cast<const uint16_t *>(b) + offset,
                               stride, first, seq, dim);
}

/// Where this lane reads 16x16 pieces of a tile for loadMatrices(), those from
/// column 16 `first` on.
template <int Dim>
struct Pieces {
  static constexpr int pairs = Dim % 64 == 0 ? 4 : 2;
  /// Of the lane's row in the first pieces side by side; where it lies in the
  /// pieces to the right and below differs by a constant.
  uint32_t at[pairs];

  /// Row `row` of the tile, and the first chunk or the second.
  CLEAVE_DEVICE Pieces(uint32_t tile, int row, int chunk, int first = 0) {
    uint32_t flip = uint32_t(chunk) ^ getSwizzle<Dim>(row);
    CLEAVE_UNROLL
    for (int i = 0; i < pairs; ++i)
      at[i] = hide(tile + uint32_t(2 * Dim * row) +
                   16 * (uint32_t(2 * (first + i)) ^ flip));
  }

  /// Of the piece at rows 16 r and columns 16 (first + c).
  CLEAVE_DEVICE uint32_t get(int r, int c) const {
    return at[c % pairs] + uint32_t(2 * Dim * 16 * r + 32 * (c - c % pairs));
  }
};

/// For the left factor, and transposed for a right factor that lies by rows:
/// matrices 0 and 1 are rows 0 to 15 of the first chunk.
template <int Dim>
CLEAVE_DEVICE Pieces<Dim> getLeftPieces(uint32_t tile, int first = 0) {
  int lane = getThread() % warpSize;
  return Pieces<Dim>(tile, lane & 15, lane >> 4, first);
}
/// For a right factor that lies by columns: matrices 0 and 1 are both chunks of
/// rows 0 to 7, which are columns of the factor.
template <int Dim>
CLEAVE_DEVICE Pieces<Dim> getRightPieces(uint32_t tile) {
  int lane = getThread() % warpSize;
  return Pieces<Dim>(tile, (lane & 7) + (lane >> 4) * 8, lane >> 3 & 1);
}

/// c = a b^T of two tiles: `RowTiles` times 16 rows of `a` from row 16 first,
/// and all `Columns` rows of `b`.
template <int Dim, int RowTiles, int Columns>
CLEAVE_DEVICE void multiplyTiles(float (&c)[RowTiles][Columns / 8][4],
                                 uint32_t a, int first, uint32_t b) {
  Pieces<Dim> left = getLeftPieces<Dim>(a + uint32_t(2 * Dim * 16 * first));
  Pieces<Dim> right = getRightPieces<Dim>(b);
  CLEAVE_UNROLL
  for (int r = 0; r < RowTiles; ++r)
    CLEAVE_UNROLL
  for (int n = 0; n < Columns / 8; ++n)
    CLEAVE_UNROLL
  for (int e = 0; e < 4; ++e)
    c[r][n][e] = 0;
  CLEAVE_UNROLL
  for (int k = 0; k < Dim / 16; ++k) {
    uint32_t rows[RowTiles][4];
    CLEAVE_UNROLL
    for (int r = 0; r < RowTiles; ++r)
      loadMatrices(rows[r], left.get(r, k));
    CLEAVE_UNROLL
    for (int n = 0; n < Columns / 16; ++n) {
      uint32_t columns[4];
      loadMatrices(columns, right.get(n, k));
      CLEAVE_UNROLL
      for (int r = 0; r < RowTiles; ++r) {
        multiply(c[r][2 * n], rows[r], columns[0], columns[1]);
        multiply(c[r][2 * n + 1], rows[r], columns[2], columns[3]);
      }
    }
  }
}

/// A result of multiplyTiles() as the left factor of the next product.
template <int RowTiles, int Columns>
struct Packed {
  uint32_t at[RowTiles][Columns / 16][4];
};

template <int RowTiles, int Columns>
CLEAVE_DEVICE void packTile(Packed<RowTiles, Columns> &packed,
                            const float (&c)[RowTiles][Columns / 8][4]) {
  CLEAVE_UNROLL
  for (int r = 0; r < RowTiles; ++r)
    CLEAVE_UNROLL
  for (int n = 0; n < Columns / 8; ++n) {
    packed.at[r][n / 2][n % 2 * 2] = packBf16(c[r][n][0], c[r][n][1]);
    packed.at[r][n / 2][n % 2 * 2 + 1] = packBf16(c[r][n][2], c[r][n][3]);
  }
}

/// sum += a b: `b` is a tile of `Columns` rows, of which `Width` columns from
/// 16 first.
template <int Dim, int RowTiles, int Columns, int Width>
CLEAVE_DEVICE void addProduct(float (&sum)[RowTiles][Width / 8][4],
                              const Packed<RowTiles, Columns> &a, uint32_t b,
                              int first) {
  Pieces<Dim> pieces = getLeftPieces<Dim>(b, first);
  CLEAVE_UNROLL
  for (int k = 0; k < Columns / 16; ++k)
    CLEAVE_UNROLL
  for (int n = 0; n < Width / 16; ++n) {
    uint32_t columns[4];
    loadMatricesTransposed(columns, pieces.get(k, n));
    CLEAVE_UNROLL
    for (int r = 0; r < RowTiles; ++r) {
      multiply(sum[r][2 * n], a.at[r][k], columns[0], columns[1]);
      multiply(sum[r][2 * n + 1], a.at[r][k], columns[2], columns[3]);
    }
  }
}

/// Which keys a query sees: j <= i and i - window < j.
struct Sight {
  int seq, window;

  CLEAVE_DEVICE explicit Sight(const AttentionSizes &s)
      : seq(int(s.seq)),
        window(s.window > 0 && s.window < s.seq ? int(s.window) : int(s.seq)) {}

  CLEAVE_DEVICE bool sees(int query, int key) const {
    return key <= query && query - window < key;
  }
  /// Whether each of `queries` queries sees each of `keys` keys.
  CLEAVE_DEVICE bool seesAll(int query, int queries, int key, int keys) const {
    return key + keys - 1 <= query && query + queries - 1 - window < key;
  }
  /// Of the keys that queries [query, query + queries) see, the first, and the
  /// one after the last.
  CLEAVE_DEVICE int getFirstKey(int query) const {
    return query - window + 1 > 0 ? query - window + 1 : 0;
  }
  CLEAVE_DEVICE int getKeyEnd(int query, int queries) const {
    return query + queries < seq ? query + queries : seq;
  }
  /// The query after the last that sees one of the keys; the first is `key`.
  CLEAVE_DEVICE int getQueryEnd(int key, int keys) const {
    int64_t end = int64_t(key) + keys - 1 + window;
    return end < seq ? int(end) : seq;
  }
};

/// Sums of the four lanes that share a row of a product.
CLEAVE_DEVICE float sumOfRow(float x) {
  x += shuffleXor(x, 1);
  return x + shuffleXor(x, 2);
}
CLEAVE_DEVICE float largestOfRow(float x) {
  x = larger(x, shuffleXor(x, 1));
  return larger(x, shuffleXor(x, 2));
}

/// Offset of a head's first row in an array [batch, seq, heads, headDim].
CLEAVE_DEVICE int64_t getHeadOffset(const AttentionSizes &s, int64_t heads,
                                    int64_t batch, int64_t head) {
  return (batch * s.seq * heads + head) * s.headDim;
}

/// Writes 16 RowTiles rows from `first` on, scaled row by row: those below
/// `seq`, and of `Width` columns from `column` on those below `dim`.
template <int RowTiles, int Width>
CLEAVE_DEVICE void storeRows(uint16_t *to, int64_t stride,
                             const float (&sum)[RowTiles][Width / 8][4],
                             const float (&scale)[RowTiles][2], int first,
                             int seq, int column, int dim) {
  int lane = getThread() % warpSize;
  CLEAVE_UNROLL
  for (int r = 0; r < 2 * RowTiles; ++r) {
    int row = first + 8 * r + lane / 4;
    if (row >= seq)
      continue;
    uint16_t *at = to + row * stride + column + lane % 4 * 2;
    float by = scale[r / 2][r % 2];
    CLEAVE_UNROLL
    for (int n = 0; n < Width / 8; ++n)
      if (column + 8 * n < dim)
        *reinterpret_cast<uint32_t *>(at + 8 * n) = packBf16(
            sum[r / 2][n][r % 2 * 2] * by, sum[r / 2][n][r % 2 * 2 + 1] * by);
  }
}

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_ATTENTIONMATH_H
