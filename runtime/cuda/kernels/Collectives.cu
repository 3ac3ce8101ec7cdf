//===- Collectives.cu - Sums and moves between ranks on one GPU -----------===//
#include "runtime/cuda/kernels/Kernels.h"
#include "runtime/cuda/kernels/Numbers.h"

using namespace cleave::cuda;

namespace {

constexpr int blockThreads = 256;

CLEAVE_DEVICE int64_t getFirst() {
  return int64_t(getBlockX()) * blockThreads + getThread();
}
CLEAVE_DEVICE int64_t getStep() { return int64_t(getBlocksX()) * blockThreads; }

/// How an element type is kept while it is reduced.
struct F32 {
  using Stored = float;
  using Kept = float;
  CLEAVE_DEVICE static float read(float x) { return x; }
  CLEAVE_DEVICE static float round(float x) { return x; }
};
struct BF16 {
  using Stored = uint16_t;
  using Kept = float;
  CLEAVE_DEVICE static float read(uint16_t x) { return fromBf16(x); }
  CLEAVE_DEVICE static uint16_t round(float x) { return toBf16(x); }
};
struct I32 {
  using Stored = int32_t;
  using Kept = int32_t;
  CLEAVE_DEVICE static int32_t read(int32_t x) { return x; }
  CLEAVE_DEVICE static int32_t round(int32_t x) { return x; }
};

struct Sum {
  CLEAVE_DEVICE static float apply(float x, float y) { return x + y; }
  CLEAVE_DEVICE static int32_t apply(int32_t x, int32_t y) {
    return int32_t(uint32_t(x) + uint32_t(y));
  }
};
struct Max {
  CLEAVE_DEVICE static float apply(float x, float y) {
    return x > y || x != x ? x : y;
  }
  CLEAVE_DEVICE static int32_t apply(int32_t x, int32_t y) {
    return x < y ? y : x;
  }
};

/// Each thread has elements of its own, so an output may be one of the inputs.
template <class Op, class Type>
CLEAVE_DEVICE void reduce(const ReduceParams &p) {
  using Stored = typename Type::Stored;
  for (int64_t i = getFirst(); i < p.elements; i += getStep()) {
    typename Type::Kept kept =
        Type::read(static_cast<const Stored *>(p.in[0])[i]);
    for (int j = 1; j < p.inputs; ++j)
      kept =
          Op::apply(kept, Type::read(static_cast<const Stored *>(p.in[j])[i]));
    Stored result = Type::round(kept);
    for (int j = 0; j < p.outputs; ++j)
      static_cast<Stored *>(p.out[j])[i] = result;
  }
}

CLEAVE_DEVICE int64_t locate(const RowGroups &groups, int64_t row) {
  return row / groups.rowsOfGroup * groups.groupStride +
         row % groups.rowsOfGroup * groups.rowStride;
}

template <class Word>
CLEAVE_DEVICE void copyParts(const CopyPartsParams &p) {
  int64_t words = p.bytes / int64_t(sizeof(Word));
  for (int64_t i = getFirst(); i < p.rows * words; i += getStep()) {
    int64_t row = i / words, word = i % words;
    auto *from = reinterpret_cast<const Word *>(
        static_cast<const char *>(p.in) + locate(p.inGroups, row));
    auto *to = reinterpret_cast<Word *>(static_cast<char *>(p.out) +
                                        locate(p.outGroups, row));
    to[word] = from[word];
  }
}

} // namespace

/// Launched in blocks of 256 threads, which take the elements in turns; so are
/// all of this file.
CLEAVE_KERNEL(256, 4) cleave_convert_f32_bf16(ConvertParams p) {
  for (int64_t i = getFirst(); i < p.elements; i += getStep())
    static_cast<uint16_t *>(p.out)[i] = toBf16(p.in[i]);
}

CLEAVE_KERNEL(256, 4) cleave_reduce_sum_f32(ReduceParams p) {
  reduce<Sum, F32>(p);
}
CLEAVE_KERNEL(256, 4) cleave_reduce_sum_bf16(ReduceParams p) {
  reduce<Sum, BF16>(p);
}
CLEAVE_KERNEL(256, 4) cleave_reduce_sum_i32(ReduceParams p) {
  reduce<Sum, I32>(p);
}
CLEAVE_KERNEL(256, 4) cleave_reduce_max_f32(ReduceParams p) {
  reduce<Max, F32>(p);
}
CLEAVE_KERNEL(256, 4) cleave_reduce_max_bf16(ReduceParams p) {
  reduce<Max, BF16>(p);
}
CLEAVE_KERNEL(256, 4) cleave_reduce_max_i32(ReduceParams p) {
  reduce<Max, I32>(p);
}

CLEAVE_KERNEL(256, 4) cleave_copy_parts(CopyPartsParams p) {
  uint64_t all =
      uint64_t(p.in) | uint64_t(p.out) | uint64_t(p.bytes) |
      uint64_t(p.inGroups.rowStride) | uint64_t(p.inGroups.groupStride) |
      uint64_t(p.outGroups.rowStride) | uint64_t(p.outGroups.groupStride);
  if (all % 16 == 0)
    copyParts<Words4>(p);
  else if (all % 4 == 0)
    copyParts<uint32_t>(p);
  else
    copyParts<uint16_t>(p);
}
