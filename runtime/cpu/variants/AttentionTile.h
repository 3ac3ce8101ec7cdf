//===- AttentionTile.h - What both directions of attention are made of ----===//
//
// Tiles live in scratch as f32, rows padded with zeros to a whole number of
// vectors, so products need no masks along head dims and keys.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONTILE_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONTILE_H

#include "runtime/cpu/variants/GemmPack.h"
#include "runtime/cpu/variants/Variant.h"

namespace {

using namespace cleave::cpu;

constexpr int64_t queryBlock = attention_block::queries;
constexpr int64_t keyBlock = attention_block::keys;

//===----------------------------------------------------------------------===//
// Products of tiles
//===----------------------------------------------------------------------===//

#if defined(__AVX512F__)
constexpr int productRows = 6, productVecs = 4;
#elif defined(__AVX2__)
constexpr int productRows = 6, productVecs = 2;
#else
constexpr int productRows = 4, productVecs = 2;
#endif

/// `C[rows, cols] (+)= A[rows, depth] B[depth, cols]`. A's element (i, s) is at
/// `a[i * rowStride + s * stepStride]`; B and C have contiguous rows.
struct Product {
  int64_t depth;
  const float *a;
  int64_t rowStride, stepStride;
  const float *b;
  int64_t ldb;
  float *c;
  int64_t ldc;
  bool accumulate;
};

template <int mr, int nv>
void multiplyTile(const Product &p) {
  Vec sum[mr][nv];
  CLEAVE_UNROLL
  for (int i = 0; i < mr; ++i)
    CLEAVE_UNROLL
  for (int j = 0; j < nv; ++j)
    sum[i][j] = p.accumulate ? vload(p.c + i * p.ldc + j * W) : vset(0);
  const float *b = p.b;
  const float *a[mr];
  CLEAVE_UNROLL
  for (int i = 0; i < mr; ++i)
    a[i] = p.a + i * p.rowStride;
  for (int64_t s = 0, at = 0; s < p.depth; ++s, at += p.stepStride) {
    Vec row[nv];
    CLEAVE_UNROLL
    for (int j = 0; j < nv; ++j)
      row[j] = vload(b + j * W);
    CLEAVE_UNROLL
    for (int i = 0; i < mr; ++i) {
      Vec x = vset(a[i][at]);
      CLEAVE_UNROLL
      for (int j = 0; j < nv; ++j)
        sum[i][j] = vfma(x, row[j], sum[i][j]);
    }
    b += p.ldb;
  }
  CLEAVE_UNROLL
  for (int i = 0; i < mr; ++i)
    CLEAVE_UNROLL
  for (int j = 0; j < nv; ++j)
    vstore(p.c + i * p.ldc + j * W, sum[i][j]);
}

template <std::size_t... index>
void multiplyTile(int rows, int vecs, const Product &p,
                  std::index_sequence<index...>) {
  using Fn = void (*)(const Product &);
  static constexpr Fn tiles[] = {multiplyTile<int(index) / productVecs + 1,
                                              int(index) % productVecs + 1>...};
  tiles[(rows - 1) * productVecs + vecs - 1](p);
}

/// Rows [first, first + rows) of a product, columns [0, cols), a multiple of W.
inline void multiplyRows(int64_t first, int64_t rows, int64_t cols,
                         const Product &p) {
  for (int64_t j = 0; j < cols; j += productVecs * W) {
    Product tile = p;
    tile.a += first * p.rowStride;
    tile.b += j;
    tile.c += first * p.ldc + j;
    multiplyTile(
        int(rows), int(smaller(cols - j, productVecs * W) / W), tile,
        std::make_index_sequence<std::size_t(productRows * productVecs)>());
  }
}

// The three products below leave out what causality makes zero. `diagonal`:
// query i of the tile sees no key after i + diagonal of the tile.

/// C[query, key] = A B: keys that no query of a panel sees are not computed.
inline void multiplyIntoScores(int64_t queries, int64_t keys, int64_t diagonal,
                               const Product &p) {
  for (int64_t i = 0; i < queries; i += productRows) {
    int64_t rows = smaller(queries - i, productRows);
    multiplyRows(i, rows, roundUp(smaller(keys, i + rows + diagonal), W), p);
  }
}

/// C[query, col] (+)= A[query, key] B[key, col], where p.depth counts the keys.
inline void multiplyByScores(int64_t queries, int64_t cols, int64_t diagonal,
                             const Product &p) {
  for (int64_t i = 0; i < queries; i += productRows) {
    int64_t rows = smaller(queries - i, productRows);
    Product panel = p;
    panel.depth = smaller(p.depth, i + rows + diagonal);
    multiplyRows(i, rows, cols, panel);
  }
}

/// C[key, col] (+)= A[query, key]^T B[query, col], where p.depth counts the
/// queries.
inline void multiplyByScoresT(int64_t keys, int64_t cols, int64_t diagonal,
                              const Product &p) {
  for (int64_t i = 0; i < keys; i += productRows) {
    int64_t firstQuery = smaller(p.depth, larger(0, i - diagonal));
    Product panel = p;
    panel.depth -= firstQuery;
    panel.a += firstQuery * p.stepStride;
    panel.b += firstQuery * p.ldb;
    multiplyRows(i, smaller(keys - i, productRows), cols, panel);
  }
}

//===----------------------------------------------------------------------===//
// Moving heads in and out of scratch
//===----------------------------------------------------------------------===//

CLEAVE_INLINE Vec loadLanes(const float *p, int64_t n) { return vload(p, n); }
CLEAVE_INLINE Vec loadLanes(const uint16_t *p, int64_t n) {
  return n == W ? vloadBf16(p) : vloadBf16(p, n);
}
CLEAVE_INLINE void storeLanes(float *p, Vec v, int64_t n) { vstore(p, v, n); }
CLEAVE_INLINE void storeLanes(uint16_t *p, Vec v, int64_t n) {
  n == W ? vstoreBf16(p, v) : vstoreBf16(p, v, n);
}

/// One head of a [batch, seq, heads, headDim] tensor: row i is at
/// `data + i * ld`.
template <class T>
struct Head {
  T *data;
  int64_t ld;

  Head(T *tensor, int64_t batch, int64_t head, int64_t seq, int64_t heads,
       int64_t dim)
      : data(tensor + (batch * seq * heads + head) * dim), ld(heads * dim) {}
};

/// Rows [first, first + rows) of a head, times `factor`, to `to[rows][padded]`.
template <class T>
void loadRows(const Head<const T> &head, int64_t first, int64_t rows,
              int64_t dim, float factor, float *to, int64_t padded) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < padded; j += W) {
      int64_t n = dim - j < 0 ? 0 : smaller(dim - j, W);
      Vec v = loadLanes(head.data + (first + i) * head.ld + j, n);
      vstore(to + i * padded + j, v * vset(factor));
    }
}

template <class T>
void storeRows(const Head<T> &head, int64_t first, int64_t rows, int64_t dim,
               const float *from, int64_t padded) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < dim; j += W)
      storeLanes(head.data + (first + i) * head.ld + j,
                 vload(from + i * padded + j, smaller(dim - j, W)),
                 smaller(dim - j, W));
}

/// Keys (or values) [first, first + keys) of a head, transposed, to
/// `to[dim][keyBlock]`, zero where there is no key.
template <class T>
void loadTransposed(const Head<const T> &head, int64_t first, int64_t keys,
                    int64_t dim, float *to) {
  Source<T, true> source{head.data, head.ld, dim};
  packPanel(source, first, keys, 0, dim, keyBlock, to);
}

//===----------------------------------------------------------------------===//
// Which keys a query sees
//===----------------------------------------------------------------------===//

/// The first key that query `i` sees.
CLEAVE_INLINE int64_t getFirstKey(const AttentionShape &s, int64_t i) {
  return s.window > 0 ? larger(0, i - s.window + 1) : 0;
}

/// The keys of a tile that one query sees: [begin, end), counted in the tile.
struct Seen {
  int64_t begin, end;
};
CLEAVE_INLINE Seen getSeen(const AttentionShape &s, int64_t query,
                           int64_t firstKey, int64_t keys) {
  int64_t begin = getFirstKey(s, query) - firstKey;
  return {larger(0, begin), smaller(keys, query - firstKey + 1)};
}

/// All ones in the lanes of the vector at `j` that are seen.
CLEAVE_INLINE VecI getSeenLanes(Seen seen, int64_t j) {
  VecI lane;
  for (int i = 0; i < W; ++i)
    lane[i] = i;
  return (lane >= int32_t(seen.begin - j)) & (lane < int32_t(seen.end - j));
}

CLEAVE_INLINE Vec applySoftcap(Vec score, float cap) {
  return vset(cap) * vtanh(score / vset(cap));
}

/// Block number `turn` of `blocks`, where early blocks and late ones, which see
/// few and many others, take turns: any range of turns is about average.
CLEAVE_INLINE int64_t getAlternating(int64_t turn, int64_t blocks) {
  return turn % 2 ? blocks - 1 - turn / 2 : turn / 2;
}

/// Cuts a thread's workspace into tiles.
class Scratch {
public:
  explicit Scratch(char *start) : next(reinterpret_cast<float *>(start)) {}
  float *take(int64_t floats) {
    float *tile = next;
    next += floats;
    return tile;
  }

private:
  float *next;
};

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONTILE_H
