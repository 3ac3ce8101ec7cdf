//===- AttentionScores.cpp - Causal attention and its gradient ------------===//
#include "passes/Interpret/AttentionScores.h"
#include <cmath>

using namespace cleave;

AttentionScores::AttentionScores(llvm::ArrayRef<int64_t> queryShape,
                                 int64_t kvHeads, double scale, int64_t window,
                                 double softcap)
    : batch(queryShape[0]), seq(queryShape[1]), heads(queryShape[2]),
      kvHeads(kvHeads), depth(queryShape[3]), scale(scale), softcap(softcap),
      window(window) {}

int64_t AttentionScores::atQuery(int64_t b, int64_t i, int64_t h) const {
  return ((b * seq + i) * heads + h) * depth;
}

int64_t AttentionScores::atKey(int64_t b, int64_t j, int64_t h) const {
  return ((b * seq + j) * kvHeads + h / (heads / kvHeads)) * depth;
}

bool AttentionScores::reads(int64_t i, int64_t j) const {
  return j <= i && (window <= 0 || j > i - window);
}

Dual AttentionScores::score(const Values &q, const Values &k, int64_t b,
                            int64_t i, int64_t j, int64_t h) const {
  double product = 0;
  for (int64_t d = 0; d < depth; ++d)
    product += q[atQuery(b, i, h) + d] * k[atKey(b, j, h) + d];
  Dual score{scale * product, 1};
  return softcap > 0 ? Dual(softcap) * tanh(score / Dual(softcap)) : score;
}

void AttentionScores::attend(const Values &q, const Values &k, const Values &v,
                             Values &out, Values &lse) const {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < seq; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < seq; ++j)
          if (reads(i, j))
            sum += std::exp(score(q, k, b, i, j, h).value);
        lse[(b * heads + h) * seq + i] = std::log(sum);
        for (int64_t j = 0; j < seq; ++j)
          if (reads(i, j))
            for (int64_t d = 0; d < depth; ++d)
              out[atQuery(b, i, h) + d] +=
                  std::exp(score(q, k, b, i, j, h).value) / sum *
                  v[atKey(b, j, h) + d];
      }
}

/// With p = softmax: dv = p^T do, ds = p (do v^T - sum_d do o), and dq, dk
/// through the slope of the score.
void AttentionScores::differentiate(const Values &q, const Values &k,
                                    const Values &v, const Values &out,
                                    const Values &lse, const Values &dout,
                                    Values &dq, Values &dk, Values &dv) const {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < seq; ++i)
        for (int64_t j = 0; j < seq; ++j) {
          if (!reads(i, j))
            continue;
          Dual at = score(q, k, b, i, j, h);
          double p = std::exp(at.value - lse[(b * heads + h) * seq + i]);
          double dp = 0, pull = 0;
          for (int64_t d = 0; d < depth; ++d) {
            double grad = dout[atQuery(b, i, h) + d];
            dp += grad * v[atKey(b, j, h) + d];
            pull += grad * out[atQuery(b, i, h) + d];
            dv[atKey(b, j, h) + d] += p * grad;
          }
          double ds = p * (dp - pull) * at.slope * scale;
          for (int64_t d = 0; d < depth; ++d) {
            dq[atQuery(b, i, h) + d] += ds * k[atKey(b, j, h) + d];
            dk[atKey(b, j, h) + d] += ds * q[atQuery(b, i, h) + d];
          }
        }
}
