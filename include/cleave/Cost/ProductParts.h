//===- ProductParts.h - What products in parts hide of a collective -------===//
//
// A collective stands between products that make what it moves and products
// that use it. In k parts of their rows, one part moves while another is
// computed (Wang et al., "Overlap Communication with Dependent Computation via
// Decomposition", ASPLOS 2023). With b, c and a seconds of a part of what is
// computed before, of what is communicated and of what is computed after:
//
//   own     b0 b1 b2 b3 | wait | a0 a1 a2 a3
//   stream     c0  c1  c2  c3
//
// Part i has moved (i + 1) b + c after the first begins, or b + (i + 1) c where
// the stream is the slower, and is used k b + i a after it. So what is waited
// for is the most, of the first and the last part, of
//
//   0,  c - (k - 1) b,  c - (k - 1) a,  k c - (k - 1) (a + b)
//
// more the skew by which the last of the ranks comes later to each part, and
// less what else there is to compute meanwhile.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_COST_PRODUCTPARTS_H
#define CLEAVE_COST_PRODUCTPARTS_H

#include <cstdint>

namespace cleave {

/// Seconds of a collective and of what stands around it, in some number of
/// parts, all of them together.
struct ProductParts {
  int64_t count = 1;
  double before = 0, after = 0; ///< products
  double communication = 0;
  double skew = 0;   ///< by which it begins later than it could
  double beside = 0; ///< other compute, which may run while it moves
  /// Whether there are two collectives, and what is computed between them comes
  /// behind all parts of `before`: then nothing hides a part of both.
  bool isBroken = false;

  /// Seconds of communication that nothing hides.
  double getExposed() const;
};

} // namespace cleave

#endif // CLEAVE_COST_PRODUCTPARTS_H
