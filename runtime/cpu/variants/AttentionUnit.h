//===- AttentionUnit.h - Attention of one block of queries ----------------===//
//
// State, per query row: `most`, the largest score so far; `total`, the sum of
// e^(score - most); `sum`, the values weighted by e^(score - most). A tile of
// keys that raises `most` rescales the other two. After the last tile, out is
// sum / total and lse is most + log(total).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONUNIT_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONUNIT_H

#include "runtime/cpu/variants/AttentionTile.h"

#include <math.h>

namespace {

/// One row of scores becomes weights e^(score - most), zero where not seen;
/// `most`, `total` and the row's weighted `sum` move along.
inline void advanceRow(float *scores, int64_t cols, Seen seen, float softcap,
                       float &most, float &total, float *sum, int64_t padded) {
  if (seen.begin >= seen.end) {
    for (int64_t j = 0; j < cols; j += W)
      vstore(scores + j, vset(0));
    return;
  }
  bool all = seen.begin == 0 && seen.end == cols;
  Vec highest = vset(-INFINITY);
  for (int64_t j = 0; j < cols; j += W) {
    Vec score = vload(scores + j);
    if (softcap > 0)
      score = applySoftcap(score, softcap);
    if (!all)
      score = vselect(getSeenLanes(seen, j), score, vset(-INFINITY));
    vstore(scores + j, score);
    highest = vmax(highest, score);
  }
  float raised = vmaximum(highest);
  if (most == -INFINITY) {
    most = raised; // nothing to rescale yet
  } else if (raised > most) {
    float shrink = vexp(vset(most - raised))[0];
    for (int64_t j = 0; j < padded; j += W)
      vstore(sum + j, vload(sum + j) * vset(shrink));
    total *= shrink;
    most = raised;
  }
  Vec added = vset(0);
  for (int64_t j = 0; j < cols; j += W) {
    Vec weight = vexp(vload(scores + j) - vset(most));
    vstore(scores + j, weight);
    added += weight;
  }
  total += vsum(added);
}

template <class T>
void computeQueries(const AttentionArgs &args, int64_t batch, int64_t head,
                    int64_t first, char *workspace) {
  const AttentionShape &s = args.shape;
  int64_t dim = s.headDim, padded = roundUp(dim, attention_block::lane);
  int64_t rows = smaller(queryBlock, s.seq - first);
  Scratch scratch(workspace);
  float *q = scratch.take(queryBlock * padded);
  float *sum = scratch.take(queryBlock * padded);
  float *keysT = scratch.take(keyBlock * padded);
  float *values = scratch.take(keyBlock * padded);
  float *scores = scratch.take(queryBlock * keyBlock);
  float *most = scratch.take(queryBlock);
  float *total = scratch.take(queryBlock);

  int64_t keyHead = head / (s.heads / s.kvHeads);
  Head<const T> headQ(static_cast<const T *>(args.q), batch, head, s.seq,
                      s.heads, dim);
  Head<const T> headK(static_cast<const T *>(args.k), batch, keyHead, s.seq,
                      s.kvHeads, dim);
  Head<const T> headV(static_cast<const T *>(args.v), batch, keyHead, s.seq,
                      s.kvHeads, dim);
  loadRows(headQ, first, rows, dim, s.scale, q, padded);
  for (int64_t i = 0; i < rows; ++i) {
    most[i] = -INFINITY;
    total[i] = 0;
  }
  for (int64_t i = 0; i < rows * padded; i += W)
    vstore(sum + i, vset(0));

  int64_t firstTile = getFirstKey(s, first) / keyBlock;
  int64_t lastTile = (first + rows - 1) / keyBlock;
  for (int64_t tile = firstTile; tile <= lastTile; ++tile) {
    int64_t key = tile * keyBlock;
    int64_t keys = smaller(keyBlock, s.seq - key);
    int64_t cols = roundUp(keys, W);
    loadTransposed(headK, key, keys, dim, keysT);
    loadRows(headV, key, keys, dim, 1.0f, values, padded);
    multiplyIntoScores(
        rows, keys, first - key,
        {dim, q, padded, 1, keysT, keyBlock, scores, keyBlock, false});
    for (int64_t i = 0; i < rows; ++i)
      advanceRow(scores + i * keyBlock, cols, getSeen(s, first + i, key, keys),
                 s.softcap, most[i], total[i], sum + i * padded, padded);
    multiplyByScores(
        rows, padded, first - key,
        {keys, scores, keyBlock, 1, values, padded, sum, padded, true});
  }

  float *lse = args.lse + (batch * s.heads + head) * s.seq + first;
  for (int64_t i = 0; i < rows; ++i) {
    lse[i] = most[i] + logf(total[i]);
    for (int64_t j = 0; j < padded; j += W)
      vstore(sum + i * padded + j,
             vload(sum + i * padded + j) / vset(total[i]));
  }
  Head<T> headOut(static_cast<T *>(args.out), batch, head, s.seq, s.heads, dim);
  storeRows(headOut, first, rows, dim, sum, padded);
}

/// Units are (batch, head, query block).
inline void attentionUnits(const AttentionArgs &args, int64_t begin,
                           int64_t end, char *workspace) {
  const AttentionShape &s = args.shape;
  int64_t blocks = ceilDiv(s.seq, queryBlock);
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t block = getAlternating(unit % blocks, blocks);
    int64_t head = unit / blocks % s.heads;
    int64_t batch = unit / blocks / s.heads;
    if (s.type == ElementType::F32)
      computeQueries<float>(args, batch, head, block * queryBlock, workspace);
    else
      computeQueries<uint16_t>(args, batch, head, block * queryBlock,
                               workspace);
  }
}

} // namespace

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_ATTENTIONUNIT_H
