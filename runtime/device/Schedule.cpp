//===- Schedule.cpp -------------------------------------------------------===//
#include "runtime/device/Schedule.h"
#include <cmath>
#include <numbers>

using namespace cleave::runtime;

Status cleave::runtime::resolveSchedule(const program::Schedule &compiled,
                                        const ScheduleOverrides &overrides,
                                        Schedule &schedule) {
  Schedule result;
  result.kind = overrides.kind.value_or(compiled.kind());
  result.warmupSteps = overrides.warmupSteps.value_or(compiled.warmup_steps());
  result.decaySteps = overrides.decaySteps.value_or(compiled.decay_steps());
  result.stableSteps = overrides.stableSteps.value_or(compiled.stable_steps());
  result.lr = overrides.lr.value_or(compiled.lr());
  result.minLr = overrides.minLr.value_or(compiled.min_lr());
  result.beta1 = compiled.beta1();
  result.beta2 = compiled.beta2();
  auto expect = [](const char *name, double value) {
    if (std::isfinite(value) && value >= 0)
      return Status();
    return Status::error(std::string(name) + " is " + std::to_string(value) +
                         ", expects a number of at least 0");
  };
  CLEAVE_RETURN_IF_ERROR(expect("learning rate", result.lr));
  CLEAVE_RETURN_IF_ERROR(expect("minimum learning rate", result.minLr));
  CLEAVE_RETURN_IF_ERROR(expect("warm-up steps", double(result.warmupSteps)));
  CLEAVE_RETURN_IF_ERROR(expect("stable steps", double(result.stableSteps)));
  if (result.decaySteps == 0)
    result.decaySteps = overrides.totalSteps;
  if (result.kind != ScheduleKind::Constant && result.decaySteps <= 0)
    return Status::error("the learning rate decays, and neither the program "
                         "nor the run says until which step");
  schedule = result;
  return {};
}

double cleave::runtime::getLearningRate(const Schedule &s, int64_t step) {
  double t = double(step), warmup = double(s.warmupSteps);
  if (step < s.warmupSteps)
    return s.lr * (t + 1) / warmup;
  if (s.kind == ScheduleKind::Constant)
    return s.lr;
  if (step >= s.decaySteps)
    return s.minLr;
  double begin = warmup;
  if (s.kind == ScheduleKind::WarmupStableDecay) {
    begin += double(s.stableSteps);
    if (t < begin)
      return s.lr;
  }
  double done = (t - begin) / (double(s.decaySteps) - begin);
  if (s.kind == ScheduleKind::Cosine)
    return s.minLr +
           (s.lr - s.minLr) / 2 * (1 + std::cos(std::numbers::pi * done));
  return s.lr + (s.minLr - s.lr) * done;
}

double cleave::runtime::getBiasCorrection(double beta, int64_t updates) {
  return 1 / (1 - std::pow(beta, double(updates) + 1));
}
