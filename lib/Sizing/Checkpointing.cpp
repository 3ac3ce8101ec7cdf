//===- Checkpointing.cpp - When to save, and what failures cost -----------===//
#include "cleave/Sizing/Checkpointing.h"
#include <cmath>

using namespace cleave;

double cleave::getYoungInterval(const FailureModel &model) {
  return std::sqrt(2 * model.checkpoint * model.mtbf);
}

double cleave::getDalyInterval(const FailureModel &model) {
  double ratio = model.checkpoint / (2 * model.mtbf);
  if (ratio >= 1)
    return model.mtbf;
  return getYoungInterval(model) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         model.checkpoint;
}

// Of a segment of s = interval + checkpoint seconds, with x = s/M, r = R/M:
//   failed attempts     e^x - 1
//   time they undo      M (e^x - 1) - s
//   time to restart     M (e^r - 1) for each of them
//   all of it           M e^r (e^x - 1)
// The shares are these divided by the last, in a form that cannot overflow.
TimeShares cleave::getTimeShares(const FailureModel &model, double interval) {
  double x = (interval + model.checkpoint) / model.mtbf;
  double r = model.restart / model.mtbf;
  double attempt = std::exp(-r) / std::expm1(x);
  TimeShares shares;
  shares.goodput = attempt * interval / model.mtbf;
  shares.checkpoint = attempt * model.checkpoint / model.mtbf;
  shares.rework = std::exp(-r) - attempt * x;
  shares.restart = -std::expm1(-r);
  return shares;
}
