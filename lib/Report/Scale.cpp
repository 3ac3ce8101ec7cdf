//===- Scale.cpp - Numbers of one column, in one unit ---------------------===//
#include "Scale.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

static std::string formatFixed(double value, int decimals) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f", decimals, value);
  return text;
}

/// Decimals with which `value` has that many digits.
static int getDecimals(double value, int digits) {
  if (!(value > 0))
    return 0;
  return std::clamp(digits - 1 - int(std::floor(std::log10(value))), 0, 9);
}

Scale Scale::ofSeconds(double largest) {
  Scale scale = largest < 1 ? Scale{1e-3, "ms"} : Scale{1, "s"};
  scale.decimals = getDecimals(largest / scale.unit, 4);
  return scale;
}

Scale Scale::ofBytes(double largest) {
  return {1e9, "GB", std::max(getDecimals(largest / 1e9, 3), 1)};
}

std::string Scale::format(double value) const {
  return formatFixed(value / unit, decimals);
}

std::vector<double> cleave::getTicks(double low, double high, int count) {
  double rough = (high - low) / count;
  double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (double factor : {2., 5., 10.})
    if (step < 0.75 * rough)
      step = factor * power;
  std::vector<double> ticks;
  for (auto number = int64_t(std::ceil(low / step - 1e-9));
       double(number) * step <= high * (1 + 1e-9); ++number)
    ticks.push_back(double(number) * step + 0.); // no -0
  return ticks;
}

std::string cleave::formatTick(double value, double step, double unit) {
  return formatFixed(value / unit, getDecimals(step / unit * 1.001, 1));
}
