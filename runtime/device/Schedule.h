//===- Schedule.h - The learning rate of a step ---------------------------===//
#ifndef CLEAVE_RUNTIME_DEVICE_SCHEDULE_H
#define CLEAVE_RUNTIME_DEVICE_SCHEDULE_H

#include "runtime/base/Status.h"
#include "runtime/program/program_generated.h"
#include <cstdint>
#include <optional>
#include <string_view>

namespace cleave::runtime {

using ScheduleKind = program::LRSchedule;

struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  int64_t warmupSteps = 0;
  int64_t decaySteps = 0;  ///< step at which minLr is reached
  int64_t stableSteps = 0; ///< WarmupStableDecay: steps at lr
  double lr = 0, minLr = 0;
  double beta1 = 0, beta2 = 0;
};

/// What a run says in place of what was compiled.
struct ScheduleOverrides {
  std::optional<ScheduleKind> kind;
  std::optional<int64_t> warmupSteps, decaySteps, stableSteps;
  std::optional<double> lr, minLr;
  /// Steps of the run: where decay ends if nothing else says. 0: not known.
  int64_t totalSteps = 0;
};

/// Reads a verified Schedule instruction. Fails where the result is not legal:
/// a negative rate, or a decay without an end.
Status resolveSchedule(const program::Schedule &compiled,
                       const ScheduleOverrides &overrides, Schedule &schedule);

/// Of step t = 0, 1, ...: runtime/program/README.md has the formulas.
double getLearningRate(const Schedule &schedule, int64_t step);

/// 1 / (1 - beta^(t+1)) after t updates, which makes up for moments that start
/// at zero (Kingma and Ba, "Adam", 2015, section 3).
double getBiasCorrection(double beta, int64_t updates);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_SCHEDULE_H
