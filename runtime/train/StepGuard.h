//===- StepGuard.h - Steps that would spoil the state ---------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_STEPGUARD_H
#define CLEAVE_RUNTIME_TRAIN_STEPGUARD_H

#include "runtime/device/Device.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Says by which loss and gradient norm a step is bad and changes nothing: one
/// that is not a number, or, where `sigmas` is above 0, one that is more than
/// so many standard deviations above the mean of the last good steps (OLMo 2's
/// rule: a window of 128, 6 standard deviations).
///
/// The limits are known before the step, so that the device judges it; all
/// ranks have the same.
class StepGuard {
public:
  /// Steps of the window, and how many it must have before it tells a spike.
  static constexpr size_t window = 128, leastKnown = 16;

  StepGuard(int64_t budget, double sigmas) : budget(budget), sigmas(sigmas) {}

  /// Goes on from what an earlier run knew.
  void resume(int64_t newSkipped, std::vector<double> newLosses,
              std::vector<double> newNorms);

  /// Of the next step.
  StepLimits getLimits() const;
  /// Why a step with these is not below the limits; empty if it is.
  std::string judge(float loss, float gradNorm) const;
  /// Whatever `sigmas` is: a later run may ask for another one.
  void accept(double loss, double gradNorm);
  /// Counts a skipped step. Fails, saying since when, where that is beyond the
  /// budget.
  Status skip(int64_t step, const std::string &why);

  int64_t getSkipped() const { return skipped; }
  const std::vector<double> &getLosses() const { return losses; }
  const std::vector<double> &getGradNorms() const { return norms; }

private:
  int64_t budget;
  double sigmas;
  int64_t skipped = 0;
  std::vector<double> losses, norms; ///< oldest first
  std::vector<int64_t> skippedSteps; ///< of this run
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_STEPGUARD_H
