//===- Scale.h - Numbers of one column, in one unit -----------------------===//
#ifndef CLEAVE_LIB_REPORT_SCALE_H
#define CLEAVE_LIB_REPORT_SCALE_H

#include <string>
#include <vector>

namespace cleave {

/// A unit and a number of decimals that suit all numbers up to a largest one.
struct Scale {
  double unit = 1;
  const char *name = "";
  int decimals = 0;

  /// s or ms, with four digits of `largest`.
  static Scale ofSeconds(double largest);
  /// GB, with three.
  static Scale ofBytes(double largest);

  /// Without the unit.
  std::string format(double value) const;
};

/// Round values for an axis from `low` to `high`, about `count` of them.
std::vector<double> getTicks(double low, double high, int count);
/// A tick of such an axis, in that unit, with the digits that tell it apart.
std::string formatTick(double value, double step, double unit);

} // namespace cleave

#endif // CLEAVE_LIB_REPORT_SCALE_H
