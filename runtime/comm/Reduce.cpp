//===- Reduce.cpp ---------------------------------------------------------===//
#include "runtime/comm/Reduce.h"
#include "runtime/cpu/Bf16.h"
#include <algorithm>
#include <cstring>

using namespace cleave::runtime;

namespace {

/// Elements reduced at a time: the sum stays in the first-level cache.
constexpr uint64_t blockElements = 2048;

/// How each element type is kept while it is reduced.
struct F32 {
  using Stored = float;
  using Kept = float;
  static float load(float x) { return x; }
  static float store(float x) { return x; }
};
struct BF16 {
  using Stored = uint16_t;
  using Kept = float;
  static float load(uint16_t x) { return cleave::cpu::fromBf16(x); }
  static uint16_t store(float x) { return cleave::cpu::toBf16(x); }
};
struct I32 {
  using Stored = int32_t;
  using Kept = int32_t;
  static int32_t load(int32_t x) { return x; }
  static int32_t store(int32_t x) { return x; }
};

float add(float a, float b) { return a + b; }
int32_t add(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
float larger(float a, float b) { return a > b || a != a ? a : b; }
int32_t larger(int32_t a, int32_t b) { return std::max(a, b); }

template <typename Type, Reduction reduction>
void reduceAs(std::span<const void *const> inputs,
              std::span<void *const> outputs, uint64_t elements) {
  using Stored = typename Type::Stored;
  using Kept = typename Type::Kept;
  Kept block[blockElements];
  Stored result[blockElements];
  for (uint64_t begin = 0; begin < elements; begin += blockElements) {
    uint64_t count = std::min(blockElements, elements - begin);
    const auto *first = static_cast<const Stored *>(inputs[0]) + begin;
    for (uint64_t i = 0; i < count; ++i)
      block[i] = Type::load(first[i]);
    for (const void *input : inputs.subspan(1)) {
      const auto *next = static_cast<const Stored *>(input) + begin;
      for (uint64_t i = 0; i < count; ++i) {
        if constexpr (reduction == Reduction::Sum)
          block[i] = add(block[i], Type::load(next[i]));
        else
          block[i] = larger(block[i], Type::load(next[i]));
      }
    }
    for (uint64_t i = 0; i < count; ++i)
      result[i] = Type::store(block[i]);
    for (void *output : outputs)
      std::memcpy(static_cast<Stored *>(output) + begin, result,
                  count * sizeof(Stored));
  }
}

template <typename Type>
void reduceType(std::span<const void *const> inputs,
                std::span<void *const> outputs, uint64_t elements,
                Reduction reduction) {
  if (reduction == Reduction::Sum)
    reduceAs<Type, Reduction::Sum>(inputs, outputs, elements);
  else
    reduceAs<Type, Reduction::Max>(inputs, outputs, elements);
}

} // namespace

void cleave::runtime::reduceInOrder(std::span<const void *const> inputs,
                                    std::span<void *const> outputs,
                                    uint64_t elements, ElementType type,
                                    Reduction reduction) {
  switch (type) {
  case ElementType::F32:
    return reduceType<F32>(inputs, outputs, elements, reduction);
  case ElementType::BF16:
    return reduceType<BF16>(inputs, outputs, elements, reduction);
  case ElementType::I32:
    return reduceType<I32>(inputs, outputs, elements, reduction);
  }
}

Range cleave::runtime::getReduceChunk(uint64_t elements, int index, int count) {
  constexpr uint64_t unit = 16;
  uint64_t units = (elements + unit - 1) / unit;
  auto cut = [&](uint64_t i) {
    uint64_t share = units / count, extra = units % count;
    return std::min(elements, (i * share + std::min(i, extra)) * unit);
  };
  return {cut(index), cut(index + 1)};
}
