//===- AttentionGradUnit.h - Gradients of attention, tile by tile ---------===//
//
// With P = e^(score - lse), delta = sum over a row of dout * out (Dao et al.,
// "FlashAttention", 2022, section B.4):
//   dv = P^T dout,  dscore = P * (dout v^T - delta),
//   dq = scale * dscore k,  dk = scale * dscore^T q,
// where a soft cap c multiplies dscore by 1 - (score / c)^2.
// Key tiles are outermost, so dk and dv of a tile stay in scratch while all
// query heads of the group pass by in order; dq grows tile by tile in f32.
// Where there are too few key heads for the threads, one pass makes dk and dv
// by key tiles and another makes dq by query blocks: each computes the scores
// again, and every sum has the same order as in one pass.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONGRADUNIT_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONGRADUNIT_H

#include "runtime/cpu/variants/AttentionTile.h"

namespace {

/// delta[i] = sum_j dout[i][j] * out[i][j] for rows [begin, end) of one head.
template <class T>
void computeDelta(const Head<const T> &out, const Head<const T> &dout,
                  int64_t begin, int64_t end, int64_t dim, float *delta) {
  for (int64_t i = begin; i < end; ++i) {
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

/// The gradients of one key head and the query heads that read it.
template <class T>
class KeyHeadGrad {
public:
  KeyHeadGrad(const AttentionGradArgs &args, int64_t batch, int64_t keyHead,
              char *workspace)
      : args(args), s(args.shape), batch(batch), keyHead(keyHead),
        dim(s.headDim), padded(roundUp(dim, attention_block::lane)),
        group(s.heads / s.kvHeads) {
    Scratch scratch(workspace);
    q = scratch.take(queryBlock * padded);
    dout = scratch.take(queryBlock * padded);
    dq = scratch.take(queryBlock * padded);
    keysT = scratch.take(keyBlock * padded);
    valuesT = scratch.take(keyBlock * padded);
    keys = scratch.take(keyBlock * padded);
    dk = scratch.take(keyBlock * padded);
    dv = scratch.take(keyBlock * padded);
    probs = scratch.take(queryBlock * keyBlock);
    dscores = scratch.take(queryBlock * keyBlock);
    delta = scratch.take(roundUp(group * s.seq, attention_block::lane));
    growing = scratch.take(0); // [group, seq, dim], unless T is f32
  }

  /// dq, dk and dv in one pass.
  void computeAll() {
    for (int64_t g = 0; g < group; ++g)
      prepareDelta(g, 0, s.seq);
    for (int64_t key = 0; key < s.seq; key += keyBlock)
      computeKeyTile(key, /*withQueries=*/true);
    if constexpr (sizeof(T) < sizeof(float))
      for (int64_t g = 0; g < group; ++g)
        for (int64_t first = 0; first < s.seq; first += queryBlock)
          storeRows(getQueryHead(static_cast<T *>(args.dq), g), first,
                    smaller(queryBlock, s.seq - first), dim,
                    growing + (g * s.seq + first) * dim, dim);
  }

  /// dk and dv of one tile of keys.
  void computeKeys(int64_t key) {
    for (int64_t g = 0; g < group; ++g)
      prepareDelta(g, key, getLastQuery(key) + 1);
    computeKeyTile(key, /*withQueries=*/false);
  }

  /// dq of one block of queries of the group's head g.
  void computeQueries(int64_t g, int64_t first) {
    int64_t rows = getQueries(first);
    float *sum = dk; // as large as a block of queries, and free in this pass
    static_assert(keyBlock >= queryBlock);
    prepareDelta(g, first, first + rows);
    loadQueries(g, first);
    int64_t begin = getFirstKey(s, first) / keyBlock * keyBlock;
    for (int64_t key = begin; key < first + rows; key += keyBlock) {
      loadKeys(key);
      computeTile(g, first, key);
      multiplyIntoQueries(first, key);
      addRows(dq, padded, sum, padded, rows, padded, key == begin);
    }
    storeRows(getQueryHead(static_cast<T *>(args.dq), g), first, rows, dim, sum,
              padded);
  }

private:
  template <class U>
  Head<U> getQueryHead(U *tensor, int64_t g) const {
    return Head(tensor, batch, keyHead * group + g, s.seq, s.heads, dim);
  }
  template <class U>
  Head<U> getKeyHead(U *tensor) const {
    return Head(tensor, batch, keyHead, s.seq, s.kvHeads, dim);
  }
  int64_t getKeys(int64_t key) const { return smaller(keyBlock, s.seq - key); }
  int64_t getQueries(int64_t first) const {
    return smaller(queryBlock, s.seq - first);
  }

  /// The last query that sees any key of the tile.
  int64_t getLastQuery(int64_t key) const {
    int64_t last = s.seq - 1;
    if (s.window > 0)
      last = smaller(last, key + getKeys(key) - 1 + s.window - 1);
    return last;
  }

  void prepareDelta(int64_t g, int64_t begin, int64_t end) {
    computeDelta(getQueryHead(static_cast<const T *>(args.out), g),
                 getQueryHead(static_cast<const T *>(args.dout), g), begin, end,
                 dim, delta + g * s.seq);
  }

  /// dk and dv of one tile of keys; with queries, also its part of dq.
  void computeKeyTile(int64_t key, bool withQueries) {
    loadKeys(key);
    int64_t count = getKeys(key);
    for (int64_t i = 0; i < count * padded; i += W) {
      vstore(dk + i, vset(0));
      vstore(dv + i, vset(0));
    }
    for (int64_t g = 0; g < group; ++g)
      for (int64_t first = key / queryBlock * queryBlock;
           first <= getLastQuery(key); first += queryBlock) {
        loadQueries(g, first);
        computeTile(g, first, key);
        int64_t rows = getQueries(first);
        multiplyByScoresT(
            count, padded, first - key,
            {rows, probs, 1, keyBlock, dout, padded, dv, padded, true});
        multiplyByScoresT(
            count, padded, first - key,
            {rows, dscores, 1, keyBlock, q, padded, dk, padded, true});
        if (withQueries)
          growQueries(g, first, key);
      }
    storeRows(getKeyHead(static_cast<T *>(args.dk)), key, count, dim, dk,
              padded);
    storeRows(getKeyHead(static_cast<T *>(args.dv)), key, count, dim, dv,
              padded);
  }

  void loadKeys(int64_t key) {
    Head<const T> headK = getKeyHead(static_cast<const T *>(args.k));
    Head<const T> headV = getKeyHead(static_cast<const T *>(args.v));
    loadTransposed(headK, key, getKeys(key), dim, keysT);
    loadTransposed(headV, key, getKeys(key), dim, valuesT);
    loadRows(headK, key, getKeys(key), dim, s.scale, keys, padded);
  }

  void loadQueries(int64_t g, int64_t first) {
    int64_t rows = getQueries(first);
    loadRows(getQueryHead(static_cast<const T *>(args.q), g), first, rows, dim,
             s.scale, q, padded);
    loadRows(getQueryHead(static_cast<const T *>(args.dout), g), first, rows,
             dim, 1.0f, dout, padded);
  }

  /// Fills probs and dscores from the loaded queries and keys.
  void computeTile(int64_t g, int64_t first, int64_t key) {
    int64_t rows = getQueries(first), count = getKeys(key);
    multiplyIntoScores(
        rows, count, first - key,
        {dim, q, padded, 1, keysT, keyBlock, probs, keyBlock, false});
    multiplyIntoScores(
        rows, count, first - key,
        {dim, dout, padded, 1, valuesT, keyBlock, dscores, keyBlock, false});
    const float *lse =
        args.lse + (batch * s.heads + keyHead * group + g) * s.seq + first;
    for (int64_t i = 0; i < rows; ++i)
      differentiateRow(probs + i * keyBlock, dscores + i * keyBlock,
                       roundUp(count, W), getSeen(s, first + i, key, count),
                       s.softcap, lse[i], delta[g * s.seq + first + i]);
  }

  /// dq = scale * dscore k, of this tile alone.
  void multiplyIntoQueries(int64_t first, int64_t key) {
    multiplyByScores(
        getQueries(first), padded, first - key,
        {getKeys(key), dscores, keyBlock, 1, keys, padded, dq, padded, false});
  }

  /// Adds this tile's dq to what earlier tiles of keys gave.
  void growQueries(int64_t g, int64_t first, int64_t key) {
    multiplyIntoQueries(first, key);
    float *to = growing + (g * s.seq + first) * dim;
    int64_t ld = dim;
    if constexpr (sizeof(T) == sizeof(float)) {
      Head<T> head = getQueryHead(static_cast<T *>(args.dq), g);
      to = head.data + first * head.ld;
      ld = head.ld;
    }
    bool overwrite = getFirstKey(s, first) / keyBlock == key / keyBlock;
    addRows(dq, padded, to, ld, getQueries(first), dim, overwrite);
  }

  const AttentionGradArgs &args;
  const AttentionShape &s;
  int64_t batch, keyHead, dim, padded, group;
  // Tiles: [queryBlock or keyBlock][padded], scores [queryBlock][keyBlock].
  float *q, *dout, *dq, *keysT, *valuesT, *keys, *dk, *dv, *probs, *dscores;
  float *delta, *growing;
};

template <class T>
void computeGradUnit(const AttentionGradArgs &args, GradPass pass, int64_t unit,
                     char *workspace) {
  const AttentionShape &s = args.shape;
  int64_t heads = pass == GradPass::Queries ? s.heads : s.kvHeads;
  if (pass == GradPass::All) {
    KeyHeadGrad<T>(args, unit / heads, unit % heads, workspace).computeAll();
    return;
  }
  int64_t blocks =
      ceilDiv(s.seq, pass == GradPass::Queries ? queryBlock : keyBlock);
  int64_t block = getAlternating(unit % blocks, blocks);
  int64_t batch = unit / blocks / heads, head = unit / blocks % heads;
  if (pass == GradPass::Keys) {
    KeyHeadGrad<T>(args, batch, head, workspace).computeKeys(block * keyBlock);
    return;
  }
  int64_t group = s.heads / s.kvHeads;
  KeyHeadGrad<T>(args, batch, head / group, workspace)
      .computeQueries(head % group, block * queryBlock);
}

inline void attentionGradUnits(const AttentionGradArgs &args, GradPass pass,
                               int64_t begin, int64_t end, char *workspace) {
  for (int64_t unit = begin; unit < end; ++unit)
    if (args.shape.type == ElementType::F32)
      computeGradUnit<float>(args, pass, unit, workspace);
    else
      computeGradUnit<uint16_t>(args, pass, unit, workspace);
}

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONGRADUNIT_H
