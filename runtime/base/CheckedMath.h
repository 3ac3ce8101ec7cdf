//===- CheckedMath.h - Products and sums that do not wrap -----------------===//
#ifndef CLEAVE_RUNTIME_BASE_CHECKEDMATH_H
#define CLEAVE_RUNTIME_BASE_CHECKEDMATH_H

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace cleave::runtime {

/// a + b, or nothing where that is over 2^64 - 1.
inline std::optional<uint64_t> addChecked(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return std::nullopt;
  return sum;
}

/// The product, or nothing where a partial product is over 2^64 - 1.
template <typename Range>
std::optional<uint64_t> multiplyAll(const Range &factors) {
  uint64_t product = 1;
  for (uint64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product))
      return std::nullopt;
  return product;
}
inline std::optional<uint64_t>
multiplyChecked(std::initializer_list<uint64_t> factors) {
  return multiplyAll(factors);
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CHECKEDMATH_H
