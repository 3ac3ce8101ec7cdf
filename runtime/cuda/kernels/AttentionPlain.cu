//===- AttentionPlain.cu - Attention without tensor cores -----------------===//
//
// For f32, where exactness comes before speed, and for bf16 whose head dim is
// no multiple of 8. The algorithms are those of Attention.cu and
// AttentionGrad.cu, with e^x and tanh x good to the last bits.
//
// A block is 256 threads as 16 x 16. Thread (y, x) has scores y + 16 i, x + 16
// j of a tile, and of the sums rows y + 16 i and columns x + 16 j. The 16
// threads of a row are half a warp, so a row of scores never leaves its warp.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/kernels/AttentionMath.h"
#include "runtime/cuda/kernels/AttentionTiles.h"

using namespace cleave::cuda;

namespace {

CLEAVE_DEVICE int getY() { return getThread() / 16; }
CLEAVE_DEVICE int getX() { return getThread() % 16; }

/// Loads rows [first, first + rows of a tile), zeros past `seq` and past `dim`.
template <int Class, class T>
CLEAVE_DEVICE void loadRows(float *tile, const T *from, int64_t stride,
                            int first, int seq, int dim) {
  constexpr PlainTile t = plainTiles[Class];
  for (int i = getThread(); i < t.getRows() * t.dim; i += plainThreads) {
    int row = i / t.dim, column = i % t.dim;
    bool real = first + row < seq && column < dim;
    tile[row * t.getStride() + column] =
        real ? load(from + (first + row) * stride + column) : 0.0f;
  }
}

/// c = a b^T
template <int Class>
CLEAVE_DEVICE void
multiplyRows(float (&c)[plainTiles[Class].per][plainTiles[Class].per],
             const float *a, const float *b, int dim) {
  constexpr PlainTile t = plainTiles[Class];
  CLEAVE_UNROLL
  for (int i = 0; i < t.per * t.per; ++i)
    c[i / t.per][i % t.per] = 0;
  a += getY() * t.getStride();
  b += getX() * t.getStride();
  for (int k = 0; k < dim; ++k) {
    float left[t.per], right[t.per];
    CLEAVE_UNROLL
    for (int i = 0; i < t.per; ++i) {
      left[i] = a[16 * i * t.getStride() + k];
      right[i] = b[16 * i * t.getStride() + k];
    }
    CLEAVE_UNROLL
    for (int i = 0; i < t.per; ++i)
      CLEAVE_UNROLL
    for (int j = 0; j < t.per; ++j)
      c[i][j] = fma(left[i], right[j], c[i][j]);
  }
}

/// sum += weights b
template <int Class>
CLEAVE_DEVICE void
addRows(float (&sum)[plainTiles[Class].per][plainTiles[Class].dim / 16],
        const float *weights, const float *b) {
  constexpr PlainTile t = plainTiles[Class];
  weights += getY() * t.getScoreStride();
  b += getX();
  for (int k = 0; k < t.getRows(); ++k) {
    float left[t.per];
    CLEAVE_UNROLL
    for (int i = 0; i < t.per; ++i)
      left[i] = weights[16 * i * t.getScoreStride() + k];
    CLEAVE_UNROLL
    for (int j = 0; j < t.dim / 16; ++j) {
      float right = b[k * t.getStride() + 16 * j];
      CLEAVE_UNROLL
      for (int i = 0; i < t.per; ++i)
        sum[i][j] = fma(left[i], right, sum[i][j]);
    }
  }
}

template <int Class, class T>
CLEAVE_DEVICE void
storeSums(T *to, int64_t stride,
          const float (&sum)[plainTiles[Class].per][plainTiles[Class].dim / 16],
          float scale, int first, int seq, int dim) {
  constexpr PlainTile t = plainTiles[Class];
  CLEAVE_UNROLL
  for (int i = 0; i < t.per; ++i) {
    int row = first + getY() + 16 * i;
    CLEAVE_UNROLL
    for (int j = 0; j < t.dim / 16; ++j)
      if (row < seq && getX() + 16 * j < dim)
        store(to + row * stride + getX() + 16 * j, sum[i][j] * scale);
  }
}

CLEAVE_DEVICE float sumOfHalf(float x) {
  CLEAVE_UNROLL
  for (int distance = 8; distance > 0; distance /= 2)
    x += shuffleXor(x, distance);
  return x;
}
CLEAVE_DEVICE float largestOfHalf(float x) {
  CLEAVE_UNROLL
  for (int distance = 8; distance > 0; distance /= 2)
    x = larger(x, shuffleXor(x, distance));
  return x;
}

/// Grid: heads, blocks of queries, batch; the last queries come first.
template <int Class, class T>
CLEAVE_DEVICE void attend(const AttentionParams &p) {
  constexpr PlainTile t = plainTiles[Class];
  constexpr int rows = t.getRows(), tileSize = rows * t.getStride();
  const AttentionSizes &s = p.sizes;
  const int head = getBlockX(), batch = getBlockZ(), dim = int(s.headDim);
  const int first = (getBlocksY() - 1 - getBlockY()) * rows;
  const Sight sight(s);
  const int64_t stride = s.heads * s.headDim, keyStride = s.kvHeads * s.headDim;
  const int64_t offset = getHeadOffset(s, s.heads, batch, head);
  const int64_t keyOffset =
      getHeadOffset(s, s.kvHeads, batch, head / (s.heads / s.kvHeads));
  float *q = reinterpret_cast<float *>(getShared());
  float *k = q + tileSize, *v = k + tileSize, *weights = v + tileSize;

  loadRows<Class>(q, static_cast<const T *>(p.q) + offset, stride, first,
                  sight.seq, dim);
  float sum[t.per][t.dim / 16] = {}, most[t.per], total[t.per] = {};
  CLEAVE_UNROLL
  for (int i = 0; i < t.per; ++i)
    most[i] = -__builtin_inff();
  const int begin = sight.getFirstKey(first) / rows * rows;
  const int end = sight.getKeyEnd(first, rows);
  CLEAVE_ROLL
  for (int keys = begin; keys < end; keys += rows) {
    syncThreads();
    loadRows<Class>(k, static_cast<const T *>(p.k) + keyOffset, keyStride, keys,
                    sight.seq, dim);
    loadRows<Class>(v, static_cast<const T *>(p.v) + keyOffset, keyStride, keys,
                    sight.seq, dim);
    syncThreads();
    float scores[t.per][t.per];
    multiplyRows<Class>(scores, q, k, dim);
    CLEAVE_UNROLL
    for (int i = 0; i < t.per; ++i) {
      float raised = most[i];
      CLEAVE_UNROLL
      for (int j = 0; j < t.per; ++j) {
        float score = scores[i][j] * s.scale;
        if (s.softcap > 0)
          score = s.softcap * tanhExact(score / s.softcap);
        if (!sight.sees(first + getY() + 16 * i, keys + getX() + 16 * j))
          score = -__builtin_inff();
        scores[i][j] = score;
        raised = larger(raised, score);
      }
      raised = largestOfHalf(raised);
      // A row that has seen no key yet has no largest score to take away.
      float base = raised == -__builtin_inff() ? 0 : raised;
      float keep = expExact(most[i] - base), added = 0;
      CLEAVE_UNROLL
      for (int j = 0; j < t.per; ++j) {
        float weight = expExact(scores[i][j] - base);
        weights[(getY() + 16 * i) * t.getScoreStride() + getX() + 16 * j] =
            weight;
        added += weight;
      }
      most[i] = raised;
      total[i] = fma(total[i], keep, added);
      CLEAVE_UNROLL
      for (int j = 0; j < t.dim / 16; ++j)
        sum[i][j] *= keep;
    }
    syncWarp();
    addRows<Class>(sum, weights, v);
  }

  CLEAVE_UNROLL
  for (int i = 0; i < t.per; ++i) {
    float all = sumOfHalf(total[i]);
    int query = first + getY() + 16 * i;
    if (getX() == 0 && query < sight.seq)
      p.lse[(batch * s.heads + head) * s.seq + query] = most[i] + logExact(all);
    CLEAVE_UNROLL
    for (int j = 0; j < t.dim / 16; ++j)
      sum[i][j] /= all;
  }
  storeSums<Class>(static_cast<T *>(p.out) + offset, stride, sum, 1.0f, first,
                   sight.seq, dim);
}

/// P and dscore of a pair of a query and a key, from their two products.
struct Pair {
  float prob, dscore;
};
CLEAVE_DEVICE Pair getPair(float dot, float dprob, float lse, float delta,
                           const AttentionSizes &s) {
  float score = dot * s.scale, slope = 1;
  if (s.softcap > 0) {
    float t = tanhExact(score / s.softcap);
    score = s.softcap * t;
    slope = fma(-t, t, 1.0f);
  }
  float prob = expExact(score - lse);
  return {prob, prob * (dprob - delta) * slope};
}

/// dk and dv. Grid: key heads, blocks of keys, batch. A row is a key.
template <int Class, class T>
CLEAVE_DEVICE void differentiateKeys(const AttentionGradParams &p) {
  constexpr PlainTile t = plainTiles[Class];
  constexpr int rows = t.getRows(), tileSize = rows * t.getStride();
  const AttentionSizes &s = p.sizes;
  const int keyHead = getBlockX(), batch = getBlockZ(), dim = int(s.headDim);
  const int group = int(s.heads / s.kvHeads);
  const int first = getBlockY() * rows;
  const Sight sight(s);
  const int64_t stride = s.heads * s.headDim, keyStride = s.kvHeads * s.headDim;
  const int64_t keyOffset = getHeadOffset(s, s.kvHeads, batch, keyHead);
  float *k = reinterpret_cast<float *>(getShared());
  float *v = k + tileSize, *q = v + tileSize, *dout = q + tileSize;
  float *probs = dout + tileSize, *dscores = probs + rows * t.getScoreStride();

  loadRows<Class>(k, static_cast<const T *>(p.k) + keyOffset, keyStride, first,
                  sight.seq, dim);
  loadRows<Class>(v, static_cast<const T *>(p.v) + keyOffset, keyStride, first,
                  sight.seq, dim);
  float dk[t.per][t.dim / 16] = {}, dv[t.per][t.dim / 16] = {};
  const int begin = first / rows * rows, end = sight.getQueryEnd(first, rows);
  CLEAVE_ROLL
  for (int head = keyHead * group; head < (keyHead + 1) * group; ++head) {
    const int64_t offset = getHeadOffset(s, s.heads, batch, head);
    const int64_t rowOffset = (batch * s.heads + head) * s.seq;
    CLEAVE_ROLL
    for (int queries = begin; queries < end; queries += rows) {
      syncThreads();
      loadRows<Class>(q, static_cast<const T *>(p.q) + offset, stride, queries,
                      sight.seq, dim);
      loadRows<Class>(dout, static_cast<const T *>(p.dout) + offset, stride,
                      queries, sight.seq, dim);
      syncThreads();
      float scores[t.per][t.per], products[t.per][t.per];
      multiplyRows<Class>(scores, k, q, dim);
      multiplyRows<Class>(products, v, dout, dim);
      CLEAVE_UNROLL
      for (int j = 0; j < t.per; ++j) {
        int query = queries + getX() + 16 * j;
        bool real = query < sight.seq;
        float lse = real ? p.lse[rowOffset + query] : 0;
        float delta =
            real ? static_cast<const float *>(p.scratch)[rowOffset + query] : 0;
        CLEAVE_UNROLL
        for (int i = 0; i < t.per; ++i) {
          int row = getY() + 16 * i;
          Pair pair{};
          if (real && sight.sees(query, first + row))
            pair = getPair(scores[i][j], products[i][j], lse, delta, s);
          int at = row * t.getScoreStride() + getX() + 16 * j;
          probs[at] = pair.prob;
          dscores[at] = pair.dscore;
        }
      }
      syncWarp();
      addRows<Class>(dv, probs, dout);
      addRows<Class>(dk, dscores, q);
    }
  }
  storeSums<Class>(static_cast<T *>(p.dk) + keyOffset, keyStride, dk, s.scale,
                   first, sight.seq, dim);
  storeSums<Class>(static_cast<T *>(p.dv) + keyOffset, keyStride, dv, 1.0f,
                   first, sight.seq, dim);
}

/// dq. Grid: heads, blocks of queries, batch; the last queries come first.
template <int Class, class T>
CLEAVE_DEVICE void differentiateQueries(const AttentionGradParams &p) {
  constexpr PlainTile t = plainTiles[Class];
  constexpr int rows = t.getRows(), tileSize = rows * t.getStride();
  const AttentionSizes &s = p.sizes;
  const int head = getBlockX(), batch = getBlockZ(), dim = int(s.headDim);
  const int first = (getBlocksY() - 1 - getBlockY()) * rows;
  const Sight sight(s);
  const int64_t stride = s.heads * s.headDim, keyStride = s.kvHeads * s.headDim;
  const int64_t offset = getHeadOffset(s, s.heads, batch, head);
  const int64_t keyOffset =
      getHeadOffset(s, s.kvHeads, batch, head / (s.heads / s.kvHeads));
  const int64_t rowOffset = (batch * s.heads + head) * s.seq;
  float *q = reinterpret_cast<float *>(getShared());
  float *dout = q + tileSize, *k = dout + tileSize, *v = k + tileSize;
  float *dscores = v + tileSize;

  loadRows<Class>(q, static_cast<const T *>(p.q) + offset, stride, first,
                  sight.seq, dim);
  loadRows<Class>(dout, static_cast<const T *>(p.dout) + offset, stride, first,
                  sight.seq, dim);
  float lse[t.per] = {}, delta[t.per] = {};
  CLEAVE_UNROLL
  for (int i = 0; i < t.per; ++i)
    if (int query = first + getY() + 16 * i; query < sight.seq) {
      lse[i] = p.lse[rowOffset + query];
      delta[i] = static_cast<const float *>(p.scratch)[rowOffset + query];
    }
  float dq[t.per][t.dim / 16] = {};
  const int begin = sight.getFirstKey(first) / rows * rows;
  const int end = sight.getKeyEnd(first, rows);
  CLEAVE_ROLL
  for (int keys = begin; keys < end; keys += rows) {
    syncThreads();
    loadRows<Class>(k, static_cast<const T *>(p.k) + keyOffset, keyStride, keys,
                    sight.seq, dim);
    loadRows<Class>(v, static_cast<const T *>(p.v) + keyOffset, keyStride, keys,
                    sight.seq, dim);
    syncThreads();
    float scores[t.per][t.per], products[t.per][t.per];
    multiplyRows<Class>(scores, q, k, dim);
    multiplyRows<Class>(products, dout, v, dim);
    CLEAVE_UNROLL
    for (int i = 0; i < t.per; ++i)
      CLEAVE_UNROLL
    for (int j = 0; j < t.per; ++j) {
      int row = getY() + 16 * i, column = getX() + 16 * j;
      float dscore = 0;
      if (sight.sees(first + row, keys + column))
        dscore =
            getPair(scores[i][j], products[i][j], lse[i], delta[i], s).dscore;
      dscores[row * t.getScoreStride() + column] = dscore;
    }
    syncWarp();
    addRows<Class>(dq, dscores, k);
  }
  storeSums<Class>(static_cast<T *>(p.dq) + offset, stride, dq, s.scale, first,
                   sight.seq, dim);
}

} // namespace

#define CLEAVE_PLAIN(CLASS, NAME, T)                                           \
  CLEAVE_KERNEL(plainThreads, 1)                                               \
  cleave_attention_##NAME(AttentionParams p) { attend<CLASS, T>(p); }          \
  CLEAVE_KERNEL(plainThreads, 1)                                               \
  cleave_part_attention_keys_##NAME(AttentionGradParams p) {                   \
    differentiateKeys<CLASS, T>(p);                                            \
  }                                                                            \
  CLEAVE_KERNEL(plainThreads, 1)                                               \
  cleave_attention_grad_##NAME(AttentionGradParams p) {                        \
    differentiateQueries<CLASS, T>(p);                                         \
  }
CLEAVE_PLAIN(0, f32_d64, float)
CLEAVE_PLAIN(1, f32_d128, float)
CLEAVE_PLAIN(2, f32_d256, float)
CLEAVE_PLAIN(0, bf16_any_d64, uint16_t)
CLEAVE_PLAIN(1, bf16_any_d128, uint16_t)
CLEAVE_PLAIN(2, bf16_any_d256, uint16_t)
