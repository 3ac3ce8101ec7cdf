//===- RuntimeKernels.h - Tests of them, whoever executes them
//-------------===//
//
// A machine executes the kernels that the runtime brings. It has
//
//   getAbsence()            why there is none, static; null where there is one
//   place(memory, bytes)    an address of the host's memory for kernels
//   placeInput(...)         the same of what they only read
//   launch(launches, params)
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_CUDA_KERNELS_RUNTIMEKERNELS_H
#define CLEAVE_TEST_RUNTIME_CUDA_KERNELS_RUNTIMEKERNELS_H

#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cuda/kernels/Launches.h"
#include "test/runtime/cpu/AttentionReference.h"

namespace cleave {

inline constexpr cpu::ElementType F32 = cpu::ElementType::F32;
inline constexpr cpu::ElementType BF16 = cpu::ElementType::BF16;

template <class Machine, class T>
T *placeAll(Machine &machine, std::vector<T> &values) {
  return static_cast<T *>(
      machine.place(values.data(), values.size() * sizeof(T)));
}
template <class Machine>
void *placeAll(Machine &machine, cpu::Buffer &buffer) {
  return machine.place(buffer.data(), buffer.sizeBytes());
}
template <class Machine>
const void *placeInput(Machine &machine, const cpu::Buffer &buffer) {
  return machine.placeInput(buffer.data(), buffer.sizeBytes());
}

template <class Machine>
class RuntimeKernels : public testing::Test {
protected:
  void SetUp() override {
    if (const char *absence = Machine::getAbsence())
      GTEST_SKIP() << absence;
  }
};
TYPED_TEST_SUITE_P(RuntimeKernels);

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Both directions, against the reference in f64.
template <class Machine>
void checkAttention(const cpu::AttentionShape &s) {
  SCOPED_TRACE(testing::Message()
               << "batch " << s.batch << " seq " << s.seq << " heads "
               << s.heads << '/' << s.kvHeads << " dim " << s.headDim
               << " window " << s.window << " cap " << s.softcap << " scale "
               << s.scale << " type " << int(s.type));
  const cuda::AttentionSizes sizes = {s.batch,   s.seq,    s.heads, s.kvHeads,
                                      s.headDim, s.window, s.scale, s.softcap};
  const size_t queries = size_t(s.batch * s.seq * s.heads * s.headDim);
  const size_t keys = size_t(s.batch * s.seq * s.kvHeads * s.headDim);
  using cpu::Buffer;
  Buffer q = Buffer::random(s.type, queries, 1);
  Buffer k = Buffer::random(s.type, keys, 2);
  Buffer v = Buffer::random(s.type, keys, 3);
  Buffer dout = Buffer::random(s.type, queries, 4);
  Buffer out(s.type, queries), lse(F32, size_t(s.batch * s.heads * s.seq));
  Buffer dq(s.type, queries), dk(s.type, keys), dv(s.type, keys);
  ASSERT_TRUE(cuda::hasAttention(sizes));
  Machine machine;
  auto *lseData = static_cast<float *>(placeAll(machine, lse));
  const void *qData = placeInput(machine, q), *kData = placeInput(machine, k),
             *vData = placeInput(machine, v);
  void *outData = placeAll(machine, out);
  machine.launch(
      cuda::getAttentionLaunches(sizes, s.type),
      cuda::AttentionParams{sizes, qData, kData, vData, outData, lseData});
  {
    const size_t scratchBytes = cuda::getAttentionGradScratch(sizes);
    cpu::Workspace scratch(scratchBytes);
    machine.launch(cuda::getAttentionGradLaunches(sizes, s.type),
                   cuda::AttentionGradParams{
                       sizes, qData, kData, vData, outData, lseData,
                       placeInput(machine, dout), placeAll(machine, dq),
                       placeAll(machine, dk), placeAll(machine, dv),
                       machine.place(scratch.data(), scratchBytes)});
  }
  cpu::Reference reference(s, q, k, v, dout);
  // As on the CPU; in bf16 the weights are rounded too.
  bool narrow = s.type == BF16;
  double near = narrow ? 6e-3 : 1e-6;
  EXPECT_LT(getError(out, reference.out), near);
  // The softcap scales the rounding of tanh, which is near one, up.
  EXPECT_LT(getError(lse, reference.lse), 1e-6 + s.softcap * 0x1p-24);
  double nearGrad = narrow ? 2e-2 : 2e-6;
  double dqSize = std::max(1e-3, reference.dqSize / 10);
  double dkSize = std::max(1e-3, reference.dkSize / 10);
  EXPECT_LT(getError(dq, reference.dq, dqSize), nearGrad);
  EXPECT_LT(getError(dk, reference.dk, dkSize), nearGrad);
  EXPECT_LT(getError(dv, reference.dv), near);
}

inline cpu::AttentionShape getShape(int64_t seq, int64_t headDim,
                                    cpu::ElementType type) {
  return {1, seq, 1, 1, headDim, 0, type, float(1 / std::sqrt(headDim)), 0};
}

TYPED_TEST_P(RuntimeKernels, AttentionEveryLength) {
  for (int64_t seq : {1, 2, 15, 17, 63, 64, 65, 129, 200})
    for (cpu::ElementType type : {F32, BF16})
      checkAttention<TypeParam>(getShape(seq, 24, type));
}

TYPED_TEST_P(RuntimeKernels, AttentionEveryHeadDim) {
  for (int64_t dim : {1, 7, 8, 16, 64, 72, 96, 100, 128, 160, 192, 200, 256})
    for (cpu::ElementType type : {F32, BF16})
      checkAttention<TypeParam>(getShape(70, dim, type));
}

TYPED_TEST_P(RuntimeKernels, AttentionManyTilesOfEveryClass) {
  for (int64_t dim : {64, 96, 128, 192, 256})
    checkAttention<TypeParam>(getShape(dim < 192 ? 300 : 150, dim, BF16));
}

TYPED_TEST_P(RuntimeKernels, AttentionGroupsWindowsAndCaps) {
  for (cpu::ElementType type : {F32, BF16}) {
    for (auto [heads, kvHeads] : {std::array<int64_t, 2>{4, 2}, {3, 1}})
      for (float softcap : {0.0f, 0.5f}) {
        cpu::AttentionShape s = getShape(100, 16, type);
        s.batch = heads == 3 ? 1 : 2;
        s.heads = heads;
        s.kvHeads = kvHeads;
        s.window = heads == 3 ? 30 : 0;
        s.softcap = softcap;
        checkAttention<TypeParam>(s);
      }
    for (int64_t window : {1, 2, 17, 64, 65, 149, 150, 1000}) {
      cpu::AttentionShape s = getShape(150, 16, type);
      s.window = window;
      s.softcap = window % 2 == 0 ? 30.0f : 0.0f;
      checkAttention<TypeParam>(s);
    }
  }
}

TYPED_TEST_P(RuntimeKernels, AttentionWindowsOfEveryClass) {
  for (int64_t dim : {64, 96, 128, 192, 256})
    for (int64_t window : {40, 130}) {
      cpu::AttentionShape s = getShape(280, dim, BF16);
      if (dim >= 192)
        s.seq = 170;
      s.window = window;
      s.softcap = window == 40 ? 5.0f : 0.0f;
      checkAttention<TypeParam>(s);
    }
}

TYPED_TEST_P(RuntimeKernels, AttentionAnyScale) {
  for (float scale : {0.0f, -0.25f, 1.0f})
    for (cpu::ElementType type : {F32, BF16}) {
      cpu::AttentionShape s = getShape(40, 32, type);
      s.scale = scale;
      checkAttention<TypeParam>(s);
    }
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// Ids of which some are outside the table, and many are the same.
inline std::vector<int32_t> getIds(int64_t rows, int64_t tableRows,
                                   int64_t first) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<int64_t> uniform(-2, tableRows + 2);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r)
    ids.push_back(
        int32_t(first + (r % 3 == 0 ? tableRows / 2 : uniform(generator))));
  return ids;
}

TYPED_TEST_P(RuntimeKernels, EmbeddingLooksUp) {
  cpu::ThreadPool pool(1);
  for (int64_t width : {1, 4, 130, 516})
    for (cpu::ElementType typeTable : {F32, BF16})
      for (cpu::ElementType typeOut : {F32, BF16}) {
        const int64_t rows = 20, tableRows = 9, first = 100;
        std::vector<int32_t> ids = getIds(rows, tableRows, first);
        cpu::Buffer table =
            cpu::Buffer::random(typeTable, size_t(tableRows * width), 1);
        cpu::Buffer got(typeOut, size_t(rows * width));
        cpu::Buffer want(typeOut, size_t(rows * width));
        TypeParam machine;
        cuda::EmbeddingParams params = {rows,
                                        width,
                                        tableRows,
                                        first,
                                        placeAll(machine, ids),
                                        placeInput(machine, table),
                                        placeAll(machine, got)};
        machine.launch(cuda::getEmbeddingLaunches(params, typeTable, typeOut),
                       params);
        cpu::embedding({rows, width, tableRows, first, typeTable, typeOut,
                        ids.data(), table.data(), want.data()},
                       pool);
        EXPECT_TRUE(got == want);
      }
}

struct GradCase {
  int64_t rows, width, tableRows, first;
};

template <class Machine>
void checkEmbeddingGrad(const GradCase &c, cpu::ElementType typeDout,
                        cpu::ElementType typeDtable, bool accumulate) {
  SCOPED_TRACE(testing::Message()
               << "rows " << c.rows << " width " << c.width << " table "
               << c.tableRows << " types " << int(typeDout) << int(typeDtable)
               << " accumulate " << accumulate);
  cpu::ThreadPool pool(1);
  std::vector<int32_t> ids = getIds(c.rows, c.tableRows, c.first);
  cpu::Buffer dout = cpu::Buffer::random(typeDout, size_t(c.rows * c.width), 1);
  cpu::Buffer want =
      cpu::Buffer::random(typeDtable, size_t(c.tableRows * c.width), 2);
  cpu::Buffer got = want;
  const size_t scratchBytes =
      cuda::getEmbeddingGradScratch(c.rows, c.tableRows);
  cpu::Workspace scratch(scratchBytes);
  Machine machine;
  cuda::EmbeddingGradParams params = {
      c.rows,
      c.width,
      c.tableRows,
      c.first,
      placeAll(machine, ids),
      placeInput(machine, dout),
      placeAll(machine, got),
      machine.place(scratch.data(), scratchBytes),
      accumulate};
  machine.launch(cuda::getEmbeddingGradLaunches(params, typeDout, typeDtable),
                 params);
  cpu::embeddingGrad({c.rows, c.width, c.tableRows, c.first, typeDout,
                      typeDtable, ids.data(), dout.data(), want.data(),
                      accumulate},
                     pool);
  EXPECT_TRUE(got == want);
}

TYPED_TEST_P(RuntimeKernels, EmbeddingGradientHasTheBitsOfTheCpu) {
  for (cpu::ElementType typeDout : {F32, BF16})
    for (cpu::ElementType typeDtable : {F32, BF16})
      for (bool accumulate : {false, true}) {
        checkEmbeddingGrad<TypeParam>({300, 12, 40, -7}, typeDout, typeDtable,
                                      accumulate);
        checkEmbeddingGrad<TypeParam>({70, 517, 9, 100}, typeDout, typeDtable,
                                      accumulate);
      }
}

TYPED_TEST_P(RuntimeKernels, EmbeddingGradientOfManyIds) {
  checkEmbeddingGrad<TypeParam>({5000, 2, 255, 0}, F32, F32, false);
  checkEmbeddingGrad<TypeParam>({5000, 2, 256, 0}, F32, F32, false);
  checkEmbeddingGrad<TypeParam>({3000, 1, 70000, 1 << 20}, F32, F32, true);
  // More rows than the most blocks take 1,024 each.
  checkEmbeddingGrad<TypeParam>({140000, 1, 1000, 0}, F32, F32, false);
}

TYPED_TEST_P(RuntimeKernels, EmbeddingGradientOfNoRowsClearsTheTable) {
  checkEmbeddingGrad<TypeParam>({0, 8, 20, 0}, F32, F32, false);
  checkEmbeddingGrad<TypeParam>({0, 8, 20, 0}, F32, F32, true);
  EXPECT_EQ(
      cuda::getEmbeddingGradLaunches({5, 8, 0, 0, {}, {}, {}, {}, 0}, F32, F32)
          .size(),
      0u);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

TYPED_TEST_P(RuntimeKernels, CopiesRowsOfAnyAlignment) {
  for (int64_t outer : {1, 3, 70})
    for (int64_t bytes : {1, 2, 12, 16, 64, 1000, 5000})
      for (int64_t gap : {0, 1, 2, 4, 8, 16}) {
        int64_t inStride = bytes + gap, outStride = bytes + 2 * gap;
        std::vector<char> in(size_t(outer * inStride)),
            got(size_t(outer * outStride), 'x'), want = got;
        for (size_t i = 0; i < in.size(); ++i)
          in[i] = char(i * 7 + i / 256);
        for (int64_t i = 0; i < outer; ++i)
          memcpy(want.data() + i * outStride, in.data() + i * inStride,
                 size_t(bytes));
        TypeParam machine;
        cuda::CopyRowsParams params = {outer,
                                       bytes,
                                       inStride,
                                       outStride,
                                       placeAll(machine, in),
                                       placeAll(machine, got)};
        machine.launch(cuda::getCopyRowsLaunches(params), params);
        EXPECT_EQ(got, want);
      }
}

REGISTER_TYPED_TEST_SUITE_P(
    RuntimeKernels, AttentionEveryLength, AttentionEveryHeadDim,
    AttentionManyTilesOfEveryClass, AttentionGroupsWindowsAndCaps,
    AttentionWindowsOfEveryClass, AttentionAnyScale, EmbeddingLooksUp,
    EmbeddingGradientHasTheBitsOfTheCpu, EmbeddingGradientOfManyIds,
    EmbeddingGradientOfNoRowsClearsTheTable, CopiesRowsOfAnyAlignment);

} // namespace cleave

#endif // CLEAVE_TEST_RUNTIME_CUDA_KERNELS_RUNTIMEKERNELS_H
