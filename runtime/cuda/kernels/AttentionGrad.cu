//===- AttentionGrad.cu - Gradient of attention of bf16 on tensor cores ---===//
//
// With P = e^(score - lse) and delta, the sum over a row of dout * out (Dao et
// al., "FlashAttention", 2022, appendix B.2):
//
//   dv = P^T dout,  dscore = P * (dout v^T - delta),
//   dq = scale dscore k,  dk = scale dscore^T q,
//
// and dscore times the slope of the softcap. Nothing is added by atomics, so
// that the result is the same each time: one kernel owns blocks of keys and
// goes over the queries that see them, in order; another owns blocks of
// queries. The first two products are computed by both.
//
//   cleave_part_attention_delta_TYPE     delta
//   cleave_part_attention_keys_bf16_dN   dk, dv
//   cleave_attention_grad_bf16_dN        dq
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/kernels/AttentionMath.h"
#include "runtime/cuda/kernels/AttentionTiles.h"

using namespace cleave::cuda;

namespace {

/// delta[batch][head][query], in the scratch. Launched in blocks of 256
/// threads, a warp for each row of out in order.
template <class T>
CLEAVE_DEVICE void computeDelta(const AttentionGradParams &p) {
  const AttentionSizes &s = p.sizes;
  int lane = getThread() % warpSize;
  int64_t row =
      int64_t(getBlockX()) * (deltaThreads / warpSize) + getThread() / warpSize;
  if (row >= s.batch * s.seq * s.heads)
    return;
  const T *out = static_cast<const T *>(p.out) + row * s.headDim;
  const T *dout = static_cast<const T *>(p.dout) + row * s.headDim;
  float sum = 0;
  if (s.headDim % 4 == 0) {
    for (int64_t i = 4 * lane; i < s.headDim; i += 4 * warpSize) {
      Floats4 x = load4(out + i), y = load4(dout + i);
      CLEAVE_UNROLL
      for (int c = 0; c < 4; ++c)
        sum = fma(x[c], y[c], sum);
    }
  } else {
    for (int64_t i = lane; i < s.headDim; i += warpSize)
      sum = fma(load(out + i), load(dout + i), sum);
  }
  CLEAVE_UNROLL
  for (int distance = 16; distance > 0; distance /= 2)
    sum += shuffleXor(sum, distance);
  int64_t head = row % s.heads, query = row / s.heads % s.seq;
  int64_t batch = row / s.heads / s.seq;
  if (lane == 0)
    static_cast<float *>(p.scratch)[(batch * s.heads + head) * s.seq + query] =
        sum;
}

template <bool Value>
struct Truth {
  static constexpr bool value = Value;
};

/// What a row or column of queries has: lse as an exponent of 2, and delta.
struct Query {
  float lse, delta;
};

/// Makes one pair's products q.k and dout.v into P and dscore.
template <bool Capped>
CLEAVE_DEVICE void differentiate(float &score, float &dprob, Query query,
                                 const AttentionSizes &s) {
  float slope = 1;
  if constexpr (Capped) {
    float t = tanhFast(score * s.scale / s.softcap);
    score = exp2Fast(fma(t, s.softcap * log2e, -query.lse));
    slope = fma(-t, t, 1.0f);
  } else {
    score = exp2Fast(fma(score, s.scale * log2e, -query.lse));
  }
  dprob = score * (dprob - query.delta) * slope;
}

/// The same for all pairs of two tiles. getQuery(row, column) is the query of
/// a pair; rows are counted by 8 and columns by 2, from the lane's first of
/// each. Pairs that sees(row, column) denies get zeros, unless `all` are seen.
template <int RowTiles, int Columns, class GetQuery, class Sees>
CLEAVE_DEVICE void differentiateTile(float (&scores)[RowTiles][Columns / 8][4],
                                     float (&dprobs)[RowTiles][Columns / 8][4],
                                     const AttentionSizes &s, bool all,
                                     GetQuery getQuery, Sees sees) {
  auto go = [&](auto capped) {
    CLEAVE_UNROLL
    for (int n = 0; n < Columns / 4; ++n)
      CLEAVE_UNROLL
    for (int r = 0; r < 2 * RowTiles; ++r)
      differentiate<decltype(capped)::value>(
          scores[r / 2][n / 2][r % 2 * 2 + n % 2],
          dprobs[r / 2][n / 2][r % 2 * 2 + n % 2], getQuery(r, n), s);
  };
  if (s.softcap > 0)
    go(Truth<true>());
  else
    go(Truth<false>());
  if (all)
    return;
  CLEAVE_UNROLL
  for (int n = 0; n < Columns / 4; ++n)
    CLEAVE_UNROLL
  for (int r = 0; r < 2 * RowTiles; ++r)
    if (!sees(r, n)) {
      scores[r / 2][n / 2][r % 2 * 2 + n % 2] = 0;
      dprobs[r / 2][n / 2][r % 2 * 2 + n % 2] = 0;
    }
}

/// Starts to load log-sum-exp and delta of `Count` queries from `first` on, of
/// a head whose first query's are at `offset`; zeros stand for those from `seq`
/// on.
template <int Count, int Threads>
CLEAVE_DEVICE void loadNumbers(uint32_t numbers, const AttentionGradParams &p,
                               int64_t offset, int first, int seq) {
  CLEAVE_UNROLL
  for (int begin = 0; begin < 2 * Count; begin += Threads) {
    int i = begin + getThread(), row = first + i % Count;
    if (i >= 2 * Count)
      continue;
    bool real = row < seq;
    const float *from =
        i < Count ? p.lse : static_cast<const float *>(p.scratch);
    copyAsync4(numbers + uint32_t(4 * i), from + (real ? offset + row : 0),
               real);
  }
}

/// dk and dv. Grid: key heads, blocks of keys, batch; the first keys, which the
/// most queries see, come first. Scores are computed transposed, a row a key,
/// so that they are the left factor of both sums as they are.
template <int Class>
CLEAVE_DEVICE void differentiateKeys(const AttentionGradParams &p) {
  constexpr TensorTile t = keyTiles[Class];
  constexpr int threads = t.getThreads(), columns = t.columns;
  constexpr int width = t.dim / t.split; // of a warp's part of the head dim
  constexpr int ownBytes = 2 * t.dim * t.getRows();
  constexpr int tileBytes = 2 * t.dim * columns;
  const AttentionSizes &s = p.sizes;
  const int keyHead = getBlockX(), batch = getBlockZ();
  const int group = int(s.heads / s.kvHeads);
  const int dim = int(s.headDim);
  const int warp = getThread() / warpSize, part = warp % t.split;
  const int first = getBlockY() * t.getRows();
  const int warpRow = warp / t.split * 16 * t.rowTiles;
  const Sight sight(s);
  const int stride = int(s.heads * s.headDim);
  const int keyStride = int(s.kvHeads * s.headDim);
  const int64_t keyOffset = getHeadOffset(s, s.kvHeads, batch, keyHead);
  const int64_t offset = getHeadOffset(s, s.heads, batch, keyHead * group);
  const int64_t rowOffset = (batch * s.heads + keyHead * group) * s.seq;

  const uint32_t keys = getSharedAddress(), values = keys + ownBytes;
  const uint32_t tiles = values + ownBytes;       // 2 x (q, dout)
  const uint32_t numbers = tiles + 4 * tileBytes; // 2 x (lse, delta)
  const char *numbersHere = getShared() + 2 * ownBytes + 4 * tileBytes;
  const int begin = first / columns;
  const int blocks =
      (sight.getQueryEnd(first, t.getRows()) + columns - 1) / columns - begin;
  auto load = [&](int member, int query, int stage) {
    loadTiles<t.dim, columns, threads>(
        tiles + uint32_t(2 * tileBytes * stage), p.q, p.dout,
        hide(offset) + member * s.headDim, stride, query, sight.seq, dim);
    loadNumbers<columns, threads>(numbers + uint32_t(8 * columns * stage), p,
                                  hide(rowOffset) + member * s.seq, query,
                                  sight.seq);
  };
  loadTiles<t.dim, t.getRows(), threads>(keys, p.k, p.v, keyOffset, keyStride,
                                         first, sight.seq, dim);
  load(0, begin * columns, 0);

  float dk[t.rowTiles][width / 8][4] = {}, dv[t.rowTiles][width / 8][4] = {};
  int member = 0, block = 0; // of the group's queries, of those that see a key
  CLEAVE_ROLL
  for (int stage = 0; member < group; stage ^= 1) {
    waitCopies();
    syncThreads();
    const int firstKey = int(hide(uint32_t(getBlockY()))) * t.getRows();
    const int query = (begin + block) * columns;
    if (++block == blocks) {
      block = 0;
      ++member;
    }
    if (member < group)
      load(member, (begin + block) * columns, stage ^ 1);
    uint32_t queries = tiles + uint32_t(2 * tileBytes * stage);
    float scores[t.rowTiles][columns / 8][4],
        dprobs[t.rowTiles][columns / 8][4];
    multiplyTiles<t.dim, t.rowTiles, columns>(scores, keys, warpRow / 16,
                                              queries);
    multiplyTiles<t.dim, t.rowTiles, columns>(dprobs, values, warpRow / 16,
                                              queries + tileBytes);
    const int lane = getLaneAgain();
    auto *stored = reinterpret_cast<const float *>(numbersHere) +
                   2 * columns * stage + lane % 4 * 2;
    const bool all =
        query + columns <= sight.seq &&
        sight.seesAll(query, columns, firstKey + warpRow, 16 * t.rowTiles);
    differentiateTile<t.rowTiles, columns>(
        scores, dprobs, s, all,
        [&](int, int n) {
          int at = n / 2 * 8 + n % 2;
          return Query{stored[at] * log2e, stored[columns + at]};
        },
        [&](int r, int n) {
          int column = query + n / 2 * 8 + lane % 4 * 2 + n % 2;
          int key = firstKey + warpRow + 8 * r + lane / 4;
          return column < sight.seq && sight.sees(column, key);
        });
    Packed<t.rowTiles, columns> left;
    packTile<t.rowTiles, columns>(left, scores);
    addProduct<t.dim, t.rowTiles, columns, width>(dv, left, queries + tileBytes,
                                                  part * (width / 16));
    packTile<t.rowTiles, columns>(left, dprobs);
    addProduct<t.dim, t.rowTiles, columns, width>(dk, left, queries,
                                                  part * (width / 16));
  }

  float ones[t.rowTiles][2], scale[t.rowTiles][2];
  for (int r = 0; r < 2 * t.rowTiles; ++r) {
    ones[r / 2][r % 2] = 1;
    scale[r / 2][r % 2] = s.scale;
  }
  storeRows<t.rowTiles, width>(static_cast<uint16_t *>(p.dk) + keyOffset,
                               keyStride, dk, scale, first + warpRow, sight.seq,
                               part * width, dim);
  storeRows<t.rowTiles, width>(static_cast<uint16_t *>(p.dv) + keyOffset,
                               keyStride, dv, ones, first + warpRow, sight.seq,
                               part * width, dim);
}

/// dq. Grid: heads, blocks of queries, batch; the last queries come first.
template <int Class>
CLEAVE_DEVICE void differentiateQueries(const AttentionGradParams &p) {
  constexpr TensorTile t = queryTiles[Class];
  constexpr int threads = t.getThreads(), columns = t.columns;
  constexpr int ownBytes = 2 * t.dim * t.getRows();
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
  const int64_t offset = getHeadOffset(s, s.heads, batch, head);
  const int64_t keyOffset = getHeadOffset(s, s.kvHeads, batch, keyHead);

  const uint32_t queries = getSharedAddress(), douts = queries + ownBytes;
  const uint32_t tiles = douts + ownBytes;        // 2 x (k, v)
  const uint32_t numbers = tiles + 4 * tileBytes; // lse, delta of the rows
  const char *numbersHere = getShared() + 2 * ownBytes + 4 * tileBytes;
  auto load = [&](int block, int stage) {
    loadTiles<t.dim, columns, threads>(tiles + uint32_t(2 * tileBytes * stage),
                                       p.k, p.v, hide(keyOffset), keyStride,
                                       block * columns, sight.seq, dim);
  };
  int block = sight.getFirstKey(first) / columns;
  const int end = (sight.getKeyEnd(first, t.getRows()) + columns - 1) / columns;
  loadTiles<t.dim, t.getRows(), threads>(queries, p.q, p.dout, offset, stride,
                                         first, sight.seq, dim);
  load(block, 0);
  loadNumbers<t.getRows(), threads>(
      numbers, p, (batch * s.heads + head) * s.seq, first, sight.seq);

  float dq[t.rowTiles][t.dim / 8][4] = {};
  CLEAVE_ROLL
  for (int stage = 0; block < end; ++block, stage ^= 1) {
    waitCopies();
    syncThreads();
    if (block + 1 < end)
      load(block + 1, stage ^ 1);
    const int ownRow = getWarpAgain() * 16 * t.rowTiles;
    uint32_t keys = tiles + uint32_t(2 * tileBytes * stage);
    float scores[t.rowTiles][columns / 8][4],
        dprobs[t.rowTiles][columns / 8][4];
    multiplyTiles<t.dim, t.rowTiles, columns>(scores, queries, ownRow / 16,
                                              keys);
    multiplyTiles<t.dim, t.rowTiles, columns>(dprobs, douts, ownRow / 16,
                                              keys + tileBytes);
    const int lane = getLaneAgain();
    auto *stored =
        reinterpret_cast<const float *>(numbersHere) + ownRow + lane / 4;
    Query rows[2 * t.rowTiles];
    CLEAVE_UNROLL
    for (int r = 0; r < 2 * t.rowTiles; ++r)
      rows[r] = {stored[8 * r] * log2e, stored[t.getRows() + 8 * r]};
    const bool all = sight.seesAll(first + ownRow, 16 * t.rowTiles,
                                   block * columns, columns);
    differentiateTile<t.rowTiles, columns>(
        scores, dprobs, s, all, [&](int r, int) { return rows[r]; },
        [&](int r, int n) {
          int query = first + ownRow + 8 * r + lane / 4;
          int key = block * columns + n / 2 * 8 + lane % 4 * 2 + n % 2;
          return sight.sees(query, key);
        });
    Packed<t.rowTiles, columns> left;
    packTile<t.rowTiles, columns>(left, dprobs);
    addProduct<t.dim, t.rowTiles, columns, t.dim>(dq, left, keys, 0);
  }

  float scale[t.rowTiles][2];
  for (int r = 0; r < 2 * t.rowTiles; ++r)
    scale[r / 2][r % 2] = s.scale;
  storeRows<t.rowTiles, t.dim>(static_cast<uint16_t *>(p.dq) + offset, stride,
                               dq, scale, first + warpRow, sight.seq, 0, dim);
}

} // namespace

CLEAVE_KERNEL(deltaThreads, 4)
cleave_part_attention_delta_f32(AttentionGradParams p) {
  computeDelta<float>(p);
}
CLEAVE_KERNEL(deltaThreads, 4)
cleave_part_attention_delta_bf16(AttentionGradParams p) {
  computeDelta<uint16_t>(p);
}

#define CLEAVE_ATTENTION_GRAD(CLASS, DIM)                                      \
  static_assert(keyTiles[CLASS].dim == DIM && queryTiles[CLASS].dim == DIM);   \
  CLEAVE_KERNEL(keyTiles[CLASS].getThreads(), keyTiles[CLASS].blocks)          \
  cleave_part_attention_keys_bf16_d##DIM(AttentionGradParams p) {              \
    differentiateKeys<CLASS>(p);                                               \
  }                                                                            \
  CLEAVE_KERNEL(queryTiles[CLASS].getThreads(), queryTiles[CLASS].blocks)      \
  cleave_attention_grad_bf16_d##DIM(AttentionGradParams p) {                   \
    differentiateQueries<CLASS>(p);                                            \
  }
CLEAVE_ATTENTION_GRAD(0, 64)
CLEAVE_ATTENTION_GRAD(1, 96)
CLEAVE_ATTENTION_GRAD(2, 128)
CLEAVE_ATTENTION_GRAD(3, 192)
CLEAVE_ATTENTION_GRAD(4, 256)
