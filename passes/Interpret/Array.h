//===- Array.h - A tensor in f64 ------------------------------------------===//
#ifndef CLEAVE_PASSES_INTERPRET_ARRAY_H
#define CLEAVE_PASSES_INTERPRET_ARRAY_H

#include "cleave/Placement/Placement.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave {

/// A dense tensor, row-major. Whatever the element type of the program, ids
/// included, an element is a double.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> data;

  static Array zeros(llvm::ArrayRef<int64_t> shape);
  int64_t size() const { return int64_t(data.size()); }
  /// Product of dims [begin, end).
  int64_t count(size_t begin, size_t end) const;
};

/// What `rank` holds of a tensor under a placement that verifies. Of a value
/// that is partial, the first rank along the partial axes holds all of a sum,
/// the others zeros; of a maximum all hold the value.
Array split(const Array &whole, const Placement &placement, const Mesh &mesh,
            int64_t rank);

/// The tensor of `shape` that the parts, one for each rank, are of. Where ranks
/// hold copies, the first rank's counts.
Array join(llvm::ArrayRef<const Array *> parts, llvm::ArrayRef<int64_t> shape,
           const Placement &placement, const Mesh &mesh);

/// The first element in which two arrays of one size differ by more than
/// `tolerance` of the largest element of either; none if there is none. One
/// that is not a number differs from all.
std::optional<int64_t> findDifference(const Array &a, const Array &b,
                                      double tolerance);

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_ARRAY_H
