//===- StepGuard.cpp ------------------------------------------------------===//
#include "runtime/train/StepGuard.h"
#include <cmath>
#include <cstdio>

using namespace cleave::runtime;

static std::string format(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

/// How `value` is out of line with those before it; empty if it is not.
static std::string judgeOne(const char *name, double value, double sigmas,
                            const std::vector<double> &before) {
  if (std::isnan(value))
    return std::string("the ") + name + " is not a number";
  if (std::isinf(value))
    return std::string("the ") + name + " is infinite";
  if (sigmas <= 0 || before.size() < StepGuard::leastKnown)
    return "";
  double mean = 0, squares = 0, n = double(before.size());
  for (double each : before)
    mean += each / n;
  for (double each : before)
    squares += (each - mean) * (each - mean);
  double deviation = std::sqrt(squares / (n - 1));
  if (value <= mean + sigmas * deviation)
    return "";
  return std::string("the ") + name + " is " + format(value) + ", more than " +
         format(sigmas) + " standard deviations above the " + format(mean) +
         " of the last " + std::to_string(before.size()) + " steps";
}

void StepGuard::resume(int64_t newSkipped, std::vector<double> newLosses,
                       std::vector<double> newNorms) {
  skipped = newSkipped;
  losses = std::move(newLosses);
  norms = std::move(newNorms);
}

std::string StepGuard::judge(double loss, double gradNorm) const {
  std::string why = judgeOne("loss", loss, sigmas, losses);
  return why.empty() ? judgeOne("gradient norm", gradNorm, sigmas, norms) : why;
}

void StepGuard::accept(double loss, double gradNorm) {
  for (auto [list, value] : {std::pair(&losses, loss), {&norms, gradNorm}}) {
    if (list->size() == window)
      list->erase(list->begin());
    list->push_back(value);
  }
}

Status StepGuard::skip(int64_t step, const std::string &why) {
  ++skipped;
  skippedSteps.push_back(step);
  if (skipped <= budget)
    return {};
  std::string message = "step " + std::to_string(step) + ": " + why;
  if (budget == 0)
    return Status::error(message + "; the state is that before the step "
                                   "(--skip-budget lets steps be skipped)");
  return Status::error(message + "; " + std::to_string(skipped) +
                       " steps were skipped, the first of this run step " +
                       std::to_string(skippedSteps.front()) +
                       "; --skip-budget is " + std::to_string(budget));
}
