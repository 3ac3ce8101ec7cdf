//===- AttentionGradUnit.h - Gradients of one key head --------------------===//
//
// With P = e^(score - lse), delta = sum over a row of dout * out (Dao et al.,
// "FlashAttention", 2022, section B.4):
//   dv = P^T dout,  dscore = P * (dout v^T - delta),
//   dq = scale * dscore k,  dk = scale * dscore^T q,
// where a soft cap c multiplies dscore by 1 - (score / c)^2.
// Key tiles are outermost, so dk and dv of a tile stay in scratch while all
// query heads of the group pass by in order; dq grows tile by tile in f32.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONGRADUNIT_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONGRADUNIT_H

#include "runtime/cpu/variants/AttentionTile.h"

namespace {

/// delta[i] = sum_j dout[i][j] * out[i][j] over one head.
template <class T>
void computeDelta(const Head<const T> &out, const Head<const T> &dout,
                  int64_t seq, int64_t dim, float *delta) {
  for (int64_t i = 0; i < seq; ++i) {
    Vec sum = vset(0);
    for (int64_t j = 0; j < dim; j += W) {
      int64_t n = smaller(dim - j, W);
      sum = vfma(loadLanes(out.data + i * out.ld + j, n),
                 loadLanes(dout.data + i * dout.ld + j, n), sum);
    }
    delta[i] = vsum(sum);
  }
}

/// In: one row of raw scores and of dout v^T. Out: the probabilities in place
/// of the scores, dscore in place of dout v^T.
inline void differentiateRow(float *scores, float *dprobs, int64_t cols,
                             Seen seen, float softcap, float lse, float delta) {
  bool all = seen.begin == 0 && seen.end == cols;
  for (int64_t j = 0; j < cols; j += W) {
    Vec score = vload(scores + j);
    Vec slope = vset(1);
    if (softcap > 0) {
      Vec t = vtanh(score / vset(softcap));
      score = vset(softcap) * t;
      slope = vset(1) - t * t;
    }
    Vec prob = vexp(score - vset(lse));
    Vec dscore = prob * (vload(dprobs + j) - vset(delta)) * slope;
    if (!all) {
      // What is not seen was not computed either, and may hold anything.
      VecI lanes = getSeenLanes(seen, j);
      prob = (Vec)((VecI)prob & lanes);
      dscore = (Vec)((VecI)dscore & lanes);
    }
    vstore(scores + j, prob);
    vstore(dprobs + j, dscore);
  }
}

/// Adds rows of a tile to rows that lie `ld` apart, or overwrites them.
inline void addRows(const float *from, int64_t padded, float *to, int64_t ld,
                    int64_t rows, int64_t dim, bool overwrite) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < dim; j += W) {
      int64_t n = smaller(dim - j, W);
      Vec v = vload(from + i * padded + j);
      float *p = to + i * ld + j;
      vstore(p, overwrite ? v : v + vload(p, n), n);
    }
}

/// Where a query head's dq grows: in dq itself if that is f32.
inline float *getGrowing(Head<float> dq, float *, int64_t, int64_t &ld) {
  ld = dq.ld;
  return dq.data;
}
inline float *getGrowing(Head<uint16_t>, float *scratch, int64_t dim,
                         int64_t &ld) {
  ld = dim;
  return scratch;
}

template <class T>
void differentiateKeyHead(const AttentionGradArgs &args, int64_t batch,
                          int64_t keyHead, char *workspace) {
  const AttentionShape &s = args.shape;
  int64_t dim = s.headDim, padded = roundUp(dim, attention_block::lane);
  int64_t group = s.heads / s.kvHeads;
  Scratch scratch(workspace);
  float *q = scratch.take(queryBlock * padded);
  float *dout = scratch.take(queryBlock * padded);
  float *dq = scratch.take(queryBlock * padded);
  float *keysT = scratch.take(keyBlock * padded);
  float *valuesT = scratch.take(keyBlock * padded);
  float *keys = scratch.take(keyBlock * padded);
  float *dk = scratch.take(keyBlock * padded);
  float *dv = scratch.take(keyBlock * padded);
  float *probs = scratch.take(queryBlock * keyBlock);
  float *dscores = scratch.take(queryBlock * keyBlock);
  float *delta = scratch.take(roundUp(group * s.seq, attention_block::lane));
  float *growing = scratch.take(0); // [group, seq, dim], unless T is f32

  auto getQueryHead = [&](auto *tensor, int64_t g) {
    return Head(tensor, batch, keyHead * group + g, s.seq, s.heads, dim);
  };
  auto getKeyHead = [&](auto *tensor) {
    return Head(tensor, batch, keyHead, s.seq, s.kvHeads, dim);
  };
  Head<const T> headK = getKeyHead(static_cast<const T *>(args.k));
  Head<const T> headV = getKeyHead(static_cast<const T *>(args.v));
  for (int64_t g = 0; g < group; ++g)
    computeDelta(getQueryHead(static_cast<const T *>(args.out), g),
                 getQueryHead(static_cast<const T *>(args.dout), g), s.seq, dim,
                 delta + g * s.seq);

  for (int64_t key = 0; key < s.seq; key += keyBlock) {
    int64_t count = smaller(keyBlock, s.seq - key);
    int64_t cols = roundUp(count, W);
    loadTransposed(headK, key, count, dim, keysT);
    loadTransposed(headV, key, count, dim, valuesT);
    loadRows(headK, key, count, dim, s.scale, keys, padded);
    for (int64_t i = 0; i < count * padded; i += W) {
      vstore(dk + i, vset(0));
      vstore(dv + i, vset(0));
    }
    int64_t lastQuery = s.seq - 1;
    if (s.window > 0)
      lastQuery = smaller(lastQuery, key + count - 1 + s.window - 1);
    for (int64_t g = 0; g < group; ++g) {
      Head<const T> headQ = getQueryHead(static_cast<const T *>(args.q), g);
      Head<const T> headDout =
          getQueryHead(static_cast<const T *>(args.dout), g);
      int64_t ld;
      float *grown = getGrowing(getQueryHead(static_cast<T *>(args.dq), g),
                                growing + g * s.seq * dim, dim, ld);
      const float *lse =
          args.lse + (batch * s.heads + keyHead * group + g) * s.seq;
      for (int64_t first = key / queryBlock * queryBlock; first <= lastQuery;
           first += queryBlock) {
        int64_t rows = smaller(queryBlock, s.seq - first);
        loadRows(headQ, first, rows, dim, s.scale, q, padded);
        loadRows(headDout, first, rows, dim, 1.0f, dout, padded);
        multiplyIntoScores(
            rows, count, first - key,
            {dim, q, padded, 1, keysT, keyBlock, probs, keyBlock, false});
        multiplyIntoScores(rows, count, first - key,
                           {dim, dout, padded, 1, valuesT, keyBlock, dscores,
                            keyBlock, false});
        for (int64_t i = 0; i < rows; ++i)
          differentiateRow(probs + i * keyBlock, dscores + i * keyBlock, cols,
                           getSeen(s, first + i, key, count), s.softcap,
                           lse[first + i], delta[g * s.seq + first + i]);
        multiplyByScoresT(
            count, padded, first - key,
            {rows, probs, 1, keyBlock, dout, padded, dv, padded, true});
        multiplyByScoresT(
            count, padded, first - key,
            {rows, dscores, 1, keyBlock, q, padded, dk, padded, true});
        multiplyByScores(
            rows, padded, first - key,
            {count, dscores, keyBlock, 1, keys, padded, dq, padded, false});
        bool overwrite = getFirstKey(s, first) / keyBlock == key / keyBlock;
        addRows(dq, padded, grown + first * ld, ld, rows, dim, overwrite);
      }
    }
    storeRows(getKeyHead(static_cast<T *>(args.dk)), key, count, dim, dk,
              padded);
    storeRows(getKeyHead(static_cast<T *>(args.dv)), key, count, dim, dv,
              padded);
  }
  if constexpr (sizeof(T) < sizeof(float))
    for (int64_t g = 0; g < group; ++g) {
      Head<T> to = getQueryHead(static_cast<T *>(args.dq), g);
      for (int64_t i = 0; i < s.seq; ++i)
        for (int64_t j = 0; j < dim; j += W) {
          int64_t n = smaller(dim - j, W);
          storeLanes(to.data + i * to.ld + j,
                     vload(growing + (g * s.seq + i) * dim + j, n), n);
        }
    }
}

/// Units are (batch, key head).
inline void attentionGradUnits(const AttentionGradArgs &args, int64_t begin,
                               int64_t end, char *workspace) {
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t batch = unit / args.shape.kvHeads;
    int64_t head = unit % args.shape.kvHeads;
    if (args.shape.type == ElementType::F32)
      differentiateKeyHead<float>(args, batch, head, workspace);
    else
      differentiateKeyHead<uint16_t>(args, batch, head, workspace);
  }
}

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONGRADUNIT_H
