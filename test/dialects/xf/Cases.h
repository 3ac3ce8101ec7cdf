//===- Cases.h - Small functions, one for each way to use an op -----------===//
#ifndef CLEAVE_TEST_DIALECTS_XF_CASES_H
#define CLEAVE_TEST_DIALECTS_XF_CASES_H

#include <ostream>
#include <string>
#include <vector>

namespace cleave::xf {

/// A function `@f` of one result. Arguments of i32 are ids below `ids`; those
/// marked `{func.constant}` are not differentiated.
struct Case {
  std::string name;
  std::string text;
  int64_t ids = 0;
  bool ignore = false; ///< some ids are -100
};

/// How a failure names its case; found by this name by gtest.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void PrintTo(const Case &one, std::ostream *out) { *out << one.name; }

/// Every op with a gradient.
std::vector<Case> getDifferentiable();

/// Ops without one: parts of the loss, the optimizer.
std::vector<Case> getOthers();

} // namespace cleave::xf

#endif // CLEAVE_TEST_DIALECTS_XF_CASES_H
