//===- AttentionReference.h - Attention and its gradient in f64 -----------===//
#ifndef CLEAVE_TEST_RUNTIME_CPU_ATTENTIONREFERENCE_H
#define CLEAVE_TEST_RUNTIME_CPU_ATTENTIONREFERENCE_H

#include "runtime/cpu/Attention.h"
#include "test/runtime/cpu/Reference.h"

namespace cleave::cpu {

/// One row of the score matrix at a time, as a textbook would.
struct Reference {
  std::vector<double> out, lse, dq, dk, dv;
  /// L2 norms of dq and dk with the two terms of each dscore added instead of
  /// subtracted: where they cancel, what is left is rounding of this size.
  double dqSize = 0, dkSize = 0;

  Reference(const AttentionShape &s, const Buffer &bufferQ,
            const Buffer &bufferK, const Buffer &bufferV,
            const Buffer &bufferDout)
      : Reference(s, bufferQ.decode(), bufferK.decode(), bufferV.decode(),
                  bufferDout.decode()) {}

  Reference(const AttentionShape &s, const std::vector<double> &q,
            const std::vector<double> &k, const std::vector<double> &v,
            const std::vector<double> &dout)
      : out(q.size()), lse(s.batch * s.heads * s.seq), dq(q.size()),
        dk(k.size()), dv(k.size()) {
    int64_t d = s.headDim;
    std::vector<double> dqTerms(q.size()), dkTerms(k.size());
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.seq; ++i) {
          int64_t keyHead = h / (s.heads / s.kvHeads);
          int64_t row = ((b * s.seq + i) * s.heads + h) * d;
          auto keyRow = [&](int64_t j) {
            return ((b * s.seq + j) * s.kvHeads + keyHead) * d;
          };
          auto sees = [&](int64_t j) {
            return j <= i && (s.window == 0 || i - s.window < j);
          };
          std::vector<double> score(s.seq), slope(s.seq), prob(s.seq),
              dprob(s.seq);
          double most = -INFINITY, total = 0, delta = 0;
          for (int64_t j = 0; j < s.seq; ++j) {
            if (!sees(j))
              continue;
            double dot = 0;
            int64_t keyAt = keyRow(j);
            for (int64_t c = 0; c < d; ++c)
              dot += q[row + c] * k[keyAt + c];
            dot *= s.scale;
            double t = s.softcap > 0 ? std::tanh(dot / s.softcap) : 0;
            score[j] = s.softcap > 0 ? s.softcap * t : dot;
            slope[j] = 1 - t * t;
            most = std::max(most, score[j]);
          }
          for (int64_t j = 0; j < s.seq; ++j)
            if (sees(j))
              total += prob[j] = std::exp(score[j] - most);
          lse[(b * s.heads + h) * s.seq + i] = most + std::log(total);
          for (int64_t j = 0; j < s.seq; ++j) {
            if (!sees(j))
              continue;
            prob[j] /= total;
            int64_t keyAt = keyRow(j);
            for (int64_t c = 0; c < d; ++c) {
              out[row + c] += prob[j] * v[keyAt + c];
              dprob[j] += dout[row + c] * v[keyAt + c];
              dv[keyAt + c] += prob[j] * dout[row + c];
            }
            delta += prob[j] * dprob[j];
          }
          for (int64_t j = 0; j < s.seq; ++j) {
            if (!sees(j))
              continue;
            double dscore =
                prob[j] * (dprob[j] - delta) * slope[j] * double(s.scale);
            int64_t keyAt = keyRow(j);
            double size = std::abs(prob[j] * slope[j] * double(s.scale)) *
                          (std::abs(dprob[j]) + std::abs(delta));
            for (int64_t c = 0; c < d; ++c) {
              dqTerms[row + c] += size * std::abs(k[keyAt + c]);
              dkTerms[keyAt + c] += size * std::abs(q[row + c]);
              dq[row + c] += dscore * k[keyAt + c];
              dk[keyAt + c] += dscore * q[row + c];
            }
          }
        }
    for (double x : dqTerms)
      dqSize += x * x;
    for (double x : dkTerms)
      dkSize += x * x;
    dqSize = std::sqrt(dqSize);
    dkSize = std::sqrt(dkSize);
  }
};

/// L2 distance over L2 norm, or over `least` if that is larger.
inline double getError(const Buffer &got, const std::vector<double> &want,
                       double least = 1e-3) {
  double distance = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    distance += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(distance) / std::max(least, std::sqrt(norm));
}

} // namespace cleave::cpu

#endif // CLEAVE_TEST_RUNTIME_CPU_ATTENTIONREFERENCE_H
