//===- Dual.h - A number and its slope ------------------------------------===//
#ifndef CLEAVE_PASSES_INTERPRET_DUAL_H
#define CLEAVE_PASSES_INTERPRET_DUAL_H

#include <cmath>

namespace cleave {

/// A value and its derivative; arithmetic carries both.
struct Dual {
  double value = 0, slope = 0;

  Dual() = default;
  explicit Dual(double value, double slope = 0) : value(value), slope(slope) {}

  friend Dual operator+(Dual a, Dual b) {
    return Dual(a.value + b.value, a.slope + b.slope);
  }
  friend Dual operator-(Dual a, Dual b) {
    return Dual(a.value - b.value, a.slope - b.slope);
  }
  friend Dual operator*(Dual a, Dual b) {
    return Dual(a.value * b.value, a.slope * b.value + a.value * b.slope);
  }
  friend Dual operator/(Dual a, Dual b) {
    return Dual(a.value / b.value,
                (a.slope * b.value - a.value * b.slope) / (b.value * b.value));
  }
  friend Dual exp(Dual a) {
    return Dual(std::exp(a.value), a.slope * std::exp(a.value));
  }
  friend Dual tanh(Dual a) {
    double t = std::tanh(a.value);
    return Dual(t, a.slope * (1 - t * t));
  }
  friend Dual erf(Dual a) {
    return Dual(std::erf(a.value),
                a.slope * 2 / std::sqrt(M_PI) * std::exp(-a.value * a.value));
  }
};

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_DUAL_H
