//===- Stretches.h - What stretches of bytes hold -------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_STRETCHES_H
#define CLEAVE_RUNTIME_PROGRAM_STRETCHES_H

#include "runtime/program/Verify.h"
#include <map>

namespace cleave::runtime {

/// A value for each of some stretches of bytes, by where they begin; none of
/// two share a byte, and bytes of no stretch have none.
template <typename T>
struct Stretch {
  uint64_t end;
  T value;
};
template <typename T>
class Stretches : public std::map<uint64_t, Stretch<T>> {
public:
  /// Makes `at` a border of stretches.
  void split(uint64_t at) {
    auto stretch = this->lower_bound(at);
    if (stretch == this->begin() || (--stretch)->second.end <= at)
      return;
    (*this)[at] = stretch->second;
    stretch->second.end = at;
  }

  /// The range becomes one stretch.
  void write(ByteRange range, const T &value) {
    split(range.begin);
    split(range.end);
    this->erase(this->lower_bound(range.begin), this->lower_bound(range.end));
    (*this)[range.begin] = {range.end, value};
  }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_STRETCHES_H
