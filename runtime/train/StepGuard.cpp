//===- StepGuard.cpp ------------------------------------------------------===//
#include "runtime/train/StepGuard.h"
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>

using namespace cleave::runtime;

static std::string format(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

namespace {
/// What the values of the last steps say.
struct Window {
  explicit Window(const std::vector<double> &values);

  double getLimit(double sigmas) const { return mean + sigmas * deviation; }

  double mean = 0, deviation = 0;
};
} // namespace

Window::Window(const std::vector<double> &values) {
  double squares = 0, n = double(values.size());
  for (double each : values)
    mean += each / n;
  for (double each : values)
    squares += (each - mean) * (each - mean);
  deviation = std::sqrt(squares / (n - 1));
}

static bool tellsSpikes(double sigmas, const std::vector<double> &before) {
  return sigmas > 0 && before.size() >= StepGuard::leastKnown;
}

/// The least value that is bad.
static float getLimit(double sigmas, const std::vector<double> &before) {
  if (!tellsSpikes(sigmas, before))
    return FLT_MAX;
  double last = std::min(Window(before).getLimit(sigmas), double(FLT_MAX));
  return std::nextafter(float(last), FLT_MAX);
}

/// How `value` is out of line with those before it; empty if it is not.
static std::string judgeOne(const char *name, float value, double sigmas,
                            const std::vector<double> &before) {
  if (value < getLimit(sigmas, before))
    return "";
  std::string text = std::string("the ") + name + " is ";
  if (std::isnan(value))
    return text + "not a number";
  if (value >= FLT_MAX)
    return text + "infinite";
  return text + format(value) + ", more than " + format(sigmas) +
         " standard deviations above the " + format(Window(before).mean) +
         " of the last " + std::to_string(before.size()) + " steps";
}

void StepGuard::resume(int64_t newSkipped, std::vector<double> newLosses,
                       std::vector<double> newNorms) {
  skipped = newSkipped;
  losses = std::move(newLosses);
  norms = std::move(newNorms);
}

StepLimits StepGuard::getLimits() const {
  return {getLimit(sigmas, losses), getLimit(sigmas, norms)};
}

std::string StepGuard::judge(float loss, float gradNorm) const {
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
