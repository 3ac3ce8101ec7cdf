//===- Memory.h - The arena of a simulated rank ---------------------------===//
#ifndef CLEAVE_PASSES_INTERPRET_MEMORY_H
#define CLEAVE_PASSES_INTERPRET_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cleave {

/// Element types, as the program format numbers them.
enum class ElementCode : uint8_t { F32 = 0, BF16 = 1, I32 = 2 };

inline int64_t getBytes(ElementCode type) {
  return type == ElementCode::BF16 ? 2 : 4;
}

/// Bytes that remember as what they were written. An element takes the bytes
/// that it takes in the program, its value is a double. What is read as another
/// type, or was overwritten in part, or never written, is not a number: so a
/// buffer that another one runs over shows.
class Memory {
public:
  /// Room for `bytes`; what is there is kept.
  void grow(int64_t bytes);
  int64_t size() const { return 2 * int64_t(kinds.size()); }

  /// `offset` is even, and the element in memory.
  double load(int64_t offset, ElementCode type) const;
  void store(int64_t offset, ElementCode type, double value);
  /// The elements that were stored in a range, whatever their types; nothing
  /// for bytes that were never written as a whole element.
  std::vector<double> getElements(int64_t offset, int64_t bytes) const;

  /// Zero bytes are a zero of every type.
  void fillZero(int64_t offset, int64_t bytes);
  void copy(int64_t from, int64_t to, int64_t bytes);
  /// A range, as a memory of its own, and such a memory put somewhere.
  Memory take(int64_t offset, int64_t bytes) const;
  void put(int64_t offset, const Memory &range);

private:
  enum Kind : uint8_t { Nothing, F32, BF16, I32, Rest, Zero };
  static Kind getKind(ElementCode type);
  /// What was partly overwritten at `begin` and just after `end` is lost.
  void cut(std::size_t begin, std::size_t end);

  // Of every two bytes: what begins there, and its value.
  std::vector<Kind> kinds;
  std::vector<double> values;
};

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_MEMORY_H
