//===- Attention.cu - Causal attention of bf16 on tensor cores ------------===//
//
// Dao, "FlashAttention-2" (2023): each block owns queries of one head and goes
// over the keys that they see, tile by tile. A row keeps its largest score, the
// sum of e^(score - largest) and the weighted sum of v; where a tile raises the
// largest score, both sums are scaled down.
//
// The head dim is a multiple of 8, and q, k, v and out are aligned to 16 bytes.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/kernels/AttentionMath.h"
#include "runtime/cuda/kernels/AttentionTiles.h"

using namespace cleave::cuda;

namespace {

/// A warp's rows. A lane has two of each row tile's: lane / 4, and 8 below.
template <int RowTiles, int Dim>
struct Rows {
  float sum[RowTiles][Dim / 8][4]; ///< of weight * v
  float most[RowTiles][2];         ///< largest score over `unit`
  float total[RowTiles][2];        ///< of weights, of this lane's columns
  float unit; ///< 2^(unit * score) is a weight: of the scores as they are kept
};

template <int RowTiles, int Columns, class Fn>
CLEAVE_DEVICE void mapTile(float (&scores)[RowTiles][Columns / 8][4], Fn fn) {
  CLEAVE_UNROLL
  for (int r = 0; r < RowTiles; ++r)
    CLEAVE_UNROLL
  for (int i = 0; i < Columns / 2; ++i)
    scores[r][i / 4][i % 4] = fn(scores[r][i / 4][i % 4]);
}

/// Makes the scores of one tile weights, and scales the rows' sums down.
template <int RowTiles, int Dim, int Columns>
CLEAVE_DEVICE void advance(Rows<RowTiles, Dim> &rows,
                           float (&scores)[RowTiles][Columns / 8][4]) {
  CLEAVE_UNROLL
  for (int r = 0; r < 2 * RowTiles; ++r) {
    auto &tile = scores[r / 2];
    int at = r % 2 * 2;
    float most = rows.most[r / 2][r % 2];
    float raised = most;
    CLEAVE_UNROLL
    for (int n = 0; n < Columns / 8; ++n)
      raised = larger(raised, larger(tile[n][at], tile[n][at + 1]));
    raised = largestOfRow(raised);
    // A row that has seen no key yet has no largest score to take away.
    float base = raised == -__builtin_inff() ? 0 : raised * rows.unit;
    float keep = exp2Fast(fma(most, rows.unit, -base));
    float total = rows.total[r / 2][r % 2] * keep;
    CLEAVE_UNROLL
    for (int n = 0; n < Columns / 8; ++n)
      CLEAVE_UNROLL
    for (int e = at; e < at + 2; ++e) {
      float weight = exp2Fast(fma(tile[n][e], rows.unit, -base));
      tile[n][e] = weight;
      total += weight;
    }
    rows.most[r / 2][r % 2] = raised;
    rows.total[r / 2][r % 2] = total;
    CLEAVE_UNROLL
    for (int n = 0; n < Dim / 8; ++n)
      CLEAVE_UNROLL
    for (int e = at; e < at + 2; ++e)
      rows.sum[r / 2][n][e] *= keep;
  }
}

/// Grid: heads, blocks of queries, batch; the last queries, which see the most
/// keys, come first.
template <int Class>
CLEAVE_DEVICE void attend(const AttentionParams &p) {
  constexpr TensorTile t = forwardTiles[Class];
  constexpr int threads = t.getThreads(), columns = t.columns;
  constexpr int tileBytes = 2 * t.dim * columns;
  const AttentionSizes &s = p.sizes;
  const int head = getBlockX(), batch = getBlockZ();
  const int keyHead = head / int(s.heads / s.kvHeads);
  const int dim = int(s.headDim);
  const int first = (getBlocksY() - 1 - getBlockY()) * t.getRows();
  const int warpRow = getThread() / warpSize * 16 * t.rowTiles;
  const Sight sight(s);
  const int stride = int(s.heads * s.headDim);
  const int keyStride = int(s.kvHeads * s.headDim);
  auto *q = static_cast<const uint16_t *>(p.q) +
            getHeadOffset(s, s.heads, batch, head);
  const int64_t keyOffset = getHeadOffset(s, s.kvHeads, batch, keyHead);

  const uint32_t queries = getSharedAddress();
  const uint32_t tiles = queries + 2 * t.dim * t.getRows(); // 2 x (k, v)
  auto load = [&](int block, int stage) {
    loadTiles<t.dim, columns, threads>(tiles + uint32_t(2 * tileBytes * stage),
                                       p.k, p.v, hide(keyOffset), keyStride,
                                       block * columns, sight.seq, dim);
  };
  int block = sight.getFirstKey(first) / columns;
  const int end = (sight.getKeyEnd(first, t.getRows()) + columns - 1) / columns;
  loadTile<t.dim, t.getRows(), threads>(queries, q, stride, first, sight.seq,
                                        dim);
  load(block, 0);

  Rows<t.rowTiles, t.dim> rows;
  // Scores are kept as they come where one factor makes them exponents of 2.
  const bool direct = s.softcap <= 0 && s.scale > 0;
  rows.unit = direct ? s.scale * log2e : log2e;
  CLEAVE_UNROLL
  for (int r = 0; r < t.rowTiles; ++r) {
    CLEAVE_UNROLL
    for (int i = 0; i < 2; ++i) {
      rows.most[r][i] = -__builtin_inff();
      rows.total[r][i] = 0;
    }
    CLEAVE_UNROLL
    for (int n = 0; n < t.dim / 8; ++n)
      CLEAVE_UNROLL
    for (int e = 0; e < 4; ++e)
      rows.sum[r][n][e] = 0;
  }

  CLEAVE_ROLL
  for (int stage = 0; block < end; ++block, stage ^= 1) {
    waitCopies();
    syncThreads();
    if (block + 1 < end)
      load(block + 1, stage ^ 1);
    uint32_t keys = tiles + uint32_t(2 * tileBytes * stage);
    float scores[t.rowTiles][columns / 8][4];
    multiplyTiles<t.dim, t.rowTiles, columns>(scores, queries, warpRow / 16,
                                              keys);
    if (s.softcap > 0)
      mapTile<t.rowTiles, columns>(scores, [&](float dot) {
        return s.softcap * tanhFast(dot * s.scale / s.softcap);
      });
    else if (!direct)
      mapTile<t.rowTiles, columns>(scores,
                                   [&](float dot) { return dot * s.scale; });
    if (!sight.seesAll(first + warpRow, 16 * t.rowTiles, block * columns,
                       columns)) {
      const int lane = getLaneAgain();
      CLEAVE_UNROLL
      for (int r = 0; r < t.rowTiles; ++r)
        CLEAVE_UNROLL
      for (int n = 0; n < columns / 8; ++n)
        CLEAVE_UNROLL
      for (int e = 0; e < 4; ++e) {
        int query = first + warpRow + 16 * r + e / 2 * 8 + lane / 4;
        int key = block * columns + 8 * n + lane % 4 * 2 + e % 2;
        if (!sight.sees(query, key))
          scores[r][n][e] = -__builtin_inff();
      }
    }
    advance<t.rowTiles, t.dim, columns>(rows, scores);
    Packed<t.rowTiles, columns> weights;
    packTile<t.rowTiles, columns>(weights, scores);
    addProduct<t.dim, t.rowTiles, columns, t.dim>(rows.sum, weights,
                                                  keys + tileBytes, 0);
  }

  const int lane = getLaneAgain();
  const HeadIndex own = getHeadAgain();
  float inverse[t.rowTiles][2];
  CLEAVE_UNROLL
  for (int r = 0; r < t.rowTiles; ++r)
    CLEAVE_UNROLL
  for (int i = 0; i < 2; ++i) {
    float total = sumOfRow(rows.total[r][i]);
    inverse[r][i] = 1.0f / total;
    int query = first + warpRow + 16 * r + 8 * i + lane / 4;
    if (lane % 4 == 0 && query < sight.seq)
      p.lse[(own.batch * s.heads + own.head) * s.seq + query] =
          rows.most[r][i] * rows.unit * ln2 + log2Fast(total) * ln2;
  }
  auto *out = static_cast<uint16_t *>(p.out) +
              getHeadOffset(s, s.heads, own.batch, own.head);
  storeRows<t.rowTiles, t.dim>(out, stride, rows.sum, inverse, first + warpRow,
                               sight.seq, 0, dim);
}

} // namespace

#define CLEAVE_ATTENTION(CLASS, DIM)                                           \
  static_assert(forwardTiles[CLASS].dim == DIM);                               \
  CLEAVE_KERNEL(forwardTiles[CLASS].getThreads(), forwardTiles[CLASS].blocks)  \
  cleave_attention_bf16_d##DIM(AttentionParams p) { attend<CLASS>(p); }
CLEAVE_ATTENTION(0, 64)
CLEAVE_ATTENTION(1, 96)
CLEAVE_ATTENTION(2, 128)
CLEAVE_ATTENTION(3, 192)
CLEAVE_ATTENTION(4, 256)
