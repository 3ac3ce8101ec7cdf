//===- Reduce.h - Sums and maxima in rank order ---------------------------===//
//
// The one reduction of all backends, so that they agree to the bit: element by
// element in the order of the inputs, in f32 where the type is a float, rounded
// once at the end. How a buffer is cut into pieces changes nothing.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_REDUCE_H
#define CLEAVE_RUNTIME_COMM_REDUCE_H

#include "runtime/abi/Workspace.h"
#include <cstddef>
#include <cstdint>
#include <span>

namespace cleave::runtime {

using cpu::ElementType;

/// Max: a NaN in any input is a NaN in the result. Sum of i32 wraps.
enum class Reduction : uint8_t { Sum = 0, Max = 1 };

inline uint64_t getElementBytes(ElementType type) {
  return type == ElementType::BF16 ? 2 : 4;
}

/// Reduces `elements` elements of every input and writes the result to every
/// output. An output may be one of the inputs; else they are disjoint.
/// Pointers are aligned to their element.
void reduceInOrder(std::span<const void *const> inputs,
                   std::span<void *const> outputs, uint64_t elements,
                   ElementType type, Reduction reduction);

/// The part of [0, elements) that rank `index` of `count` reduces: cut at
/// multiples of 16 elements, so that no two ranks write one cache line of an
/// aligned buffer of 4-byte elements.
struct Range {
  uint64_t begin, end;
};
Range getReduceChunk(uint64_t elements, int index, int count);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_REDUCE_H
