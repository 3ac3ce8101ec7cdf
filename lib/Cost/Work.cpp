//===- Work.cpp - FLOPs and bytes of each kind of operation ---------------===//
#include "cleave/Cost/Work.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

Flops cleave::getMatmulFlops(double m, double n, double k) {
  return {2 * m * n * k, 2 * m * n * k};
}

double cleave::getMatmulBytes(double m, double n, double k, double operand,
                              double result) {
  return (m * k + n * k) * operand + m * n * result;
}

double cleave::getCausalPairs(double seqLen, double window) {
  if (window <= 0 || window >= seqLen)
    return seqLen * (seqLen + 1) / 2;
  return window * (window + 1) / 2 + (seqLen - window) * window;
}

double cleave::getChunkedPairs(double seqLen, double chunk) {
  double whole = std::floor(seqLen / chunk);
  return whole * getCausalPairs(chunk, 0) +
         getCausalPairs(seqLen - whole * chunk, 0);
}

Flops cleave::getAttentionFlops(Direction direction, double pairs,
                                double headDim, double valueDim) {
  double scores = 2 * pairs * headDim, values = 2 * pairs * valueDim;
  if (direction == Direction::Forward)
    return {scores + values, scores + values};
  double gradients = 2 * (scores + values);
  return {gradients, gradients + scores};
}

Flops cleave::getOrthogonalizeFlops(double rows, double columns, double steps) {
  double s = std::min(rows, columns), l = std::max(rows, columns);
  double products =
      2 * getMatmulFlops(s, s, l).executed + getMatmulFlops(s, s, s).executed;
  return {0, steps * products};
}

double cleave::getLossBytes(Direction direction, double logits,
                            double logitBytes, double gradientBytes) {
  return direction == Direction::Forward
             ? logits * 2 * logitBytes
             : logits * (logitBytes + gradientBytes);
}
