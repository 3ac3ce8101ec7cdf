#include "Emulator.h"
#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/ThreadPool.h"
#include "test/runtime/cpu/AttentionReference.h"

using namespace cleave;
using cpu::Buffer;

namespace {

constexpr cpu::ElementType F32 = cpu::ElementType::F32;
constexpr cpu::ElementType BF16 = cpu::ElementType::BF16;

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Both directions on the emulator, against the reference in f64.
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
  Buffer q = Buffer::random(s.type, queries, 1);
  Buffer k = Buffer::random(s.type, keys, 2);
  Buffer v = Buffer::random(s.type, keys, 3);
  Buffer dout = Buffer::random(s.type, queries, 4);
  Buffer out(s.type, queries), lse(F32, size_t(s.batch * s.heads * s.seq));
  Buffer dq(s.type, queries), dk(s.type, keys), dv(s.type, keys);
  auto *lseData = static_cast<float *>(lse.data());
  ASSERT_TRUE(cuda::hasAttention(sizes));
  cuda::emulate(cuda::getAttentionLaunches(sizes, s.type),
                cuda::AttentionParams{sizes, q.data(), k.data(), v.data(),
                                      out.data(), lseData});
  {
    cpu::Workspace scratch(cuda::getAttentionGradScratch(sizes));
    cuda::emulate(cuda::getAttentionGradLaunches(sizes, s.type),
                  cuda::AttentionGradParams{sizes, q.data(), k.data(), v.data(),
                                            out.data(), lseData, dout.data(),
                                            dq.data(), dk.data(), dv.data(),
                                            scratch.data()});
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

cpu::AttentionShape getShape(int64_t seq, int64_t headDim,
                             cpu::ElementType type) {
  return {1, seq, 1, 1, headDim, 0, type, float(1 / std::sqrt(headDim)), 0};
}

TEST(CudaAttentionTest, EveryLength) {
  for (int64_t seq : {1, 2, 15, 17, 63, 64, 65, 129, 200})
    for (cpu::ElementType type : {F32, BF16})
      checkAttention(getShape(seq, 24, type));
}

TEST(CudaAttentionTest, EveryHeadDim) {
  for (int64_t dim : {1, 7, 8, 16, 64, 72, 96, 100, 128, 160, 192, 200, 256})
    for (cpu::ElementType type : {F32, BF16})
      checkAttention(getShape(70, dim, type));
}

TEST(CudaAttentionTest, ManyTilesOfEveryClass) {
  for (int64_t dim : {64, 96, 128, 192, 256})
    checkAttention(getShape(dim < 192 ? 300 : 150, dim, BF16));
}

TEST(CudaAttentionTest, GroupsWindowsAndCaps) {
  for (cpu::ElementType type : {F32, BF16}) {
    for (auto [heads, kvHeads] : {std::array<int64_t, 2>{4, 2}, {3, 1}})
      for (float softcap : {0.0f, 0.5f}) {
        cpu::AttentionShape s = getShape(100, 16, type);
        s.batch = heads == 3 ? 1 : 2;
        s.heads = heads;
        s.kvHeads = kvHeads;
        s.window = heads == 3 ? 30 : 0;
        s.softcap = softcap;
        checkAttention(s);
      }
    for (int64_t window : {1, 2, 17, 64, 65, 149, 150, 1000}) {
      cpu::AttentionShape s = getShape(150, 16, type);
      s.window = window;
      s.softcap = window % 2 == 0 ? 30.0f : 0.0f;
      checkAttention(s);
    }
  }
}

TEST(CudaAttentionTest, WindowsOfEveryClass) {
  for (int64_t dim : {64, 96, 128, 192, 256})
    for (int64_t window : {40, 130}) {
      cpu::AttentionShape s = getShape(280, dim, BF16);
      if (dim >= 192)
        s.seq = 170;
      s.window = window;
      s.softcap = window == 40 ? 5.0f : 0.0f;
      checkAttention(s);
    }
}

TEST(CudaAttentionTest, AnyScale) {
  for (float scale : {0.0f, -0.25f, 1.0f})
    for (cpu::ElementType type : {F32, BF16}) {
      cpu::AttentionShape s = getShape(40, 32, type);
      s.scale = scale;
      checkAttention(s);
    }
}

TEST(CudaAttentionTest, LargestHeadDimIsSaid) {
  EXPECT_TRUE(cuda::hasAttention({1, 8, 1, 1, 256, 0, 1, 0}));
  EXPECT_FALSE(cuda::hasAttention({1, 8, 1, 1, 257, 0, 1, 0}));
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// Ids of which some are outside the table, and many are the same.
std::vector<int32_t> getIds(int64_t rows, int64_t tableRows, int64_t first) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<int64_t> uniform(-2, tableRows + 2);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r)
    ids.push_back(
        int32_t(first + (r % 3 == 0 ? tableRows / 2 : uniform(generator))));
  return ids;
}

TEST(CudaEmbeddingTest, LooksUp) {
  cpu::ThreadPool pool(1);
  for (int64_t width : {1, 4, 130, 516})
    for (cpu::ElementType typeTable : {F32, BF16})
      for (cpu::ElementType typeOut : {F32, BF16}) {
        const int64_t rows = 20, tableRows = 9, first = 100;
        std::vector<int32_t> ids = getIds(rows, tableRows, first);
        Buffer table = Buffer::random(typeTable, size_t(tableRows * width), 1);
        Buffer got(typeOut, size_t(rows * width));
        Buffer want(typeOut, size_t(rows * width));
        cuda::EmbeddingParams params = {rows,      width,      tableRows,
                                        first,     ids.data(), table.data(),
                                        got.data()};
        cuda::emulate(cuda::getEmbeddingLaunches(params, typeTable, typeOut),
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

void checkEmbeddingGrad(const GradCase &c, cpu::ElementType typeDout,
                        cpu::ElementType typeDtable, bool accumulate) {
  SCOPED_TRACE(testing::Message()
               << "rows " << c.rows << " width " << c.width << " table "
               << c.tableRows << " types " << int(typeDout) << int(typeDtable)
               << " accumulate " << accumulate);
  cpu::ThreadPool pool(1);
  std::vector<int32_t> ids = getIds(c.rows, c.tableRows, c.first);
  Buffer dout = Buffer::random(typeDout, size_t(c.rows * c.width), 1);
  Buffer want = Buffer::random(typeDtable, size_t(c.tableRows * c.width), 2);
  Buffer got = want;
  cpu::Workspace scratch(cuda::getEmbeddingGradScratch(c.rows, c.tableRows));
  cuda::EmbeddingGradParams params = {c.rows,     c.width,        c.tableRows,
                                      c.first,    ids.data(),     dout.data(),
                                      got.data(), scratch.data(), accumulate};
  cuda::emulate(cuda::getEmbeddingGradLaunches(params, typeDout, typeDtable),
                params);
  cpu::embeddingGrad({c.rows, c.width, c.tableRows, c.first, typeDout,
                      typeDtable, ids.data(), dout.data(), want.data(),
                      accumulate},
                     pool);
  EXPECT_TRUE(got == want);
}

TEST(CudaEmbeddingTest, GradientHasTheBitsOfTheCpu) {
  for (cpu::ElementType typeDout : {F32, BF16})
    for (cpu::ElementType typeDtable : {F32, BF16})
      for (bool accumulate : {false, true}) {
        checkEmbeddingGrad({300, 12, 40, -7}, typeDout, typeDtable, accumulate);
        checkEmbeddingGrad({70, 517, 9, 100}, typeDout, typeDtable, accumulate);
      }
}

TEST(CudaEmbeddingTest, GradientOfManyIds) {
  checkEmbeddingGrad({5000, 2, 255, 0}, F32, F32, false);
  checkEmbeddingGrad({5000, 2, 256, 0}, F32, F32, false);
  checkEmbeddingGrad({3000, 1, 70000, 1 << 20}, F32, F32, true);
  // More rows than the most blocks take 1,024 each.
  checkEmbeddingGrad({140000, 1, 1000, 0}, F32, F32, false);
}

TEST(CudaEmbeddingTest, GradientOfNoRowsClearsTheTable) {
  checkEmbeddingGrad({0, 8, 20, 0}, F32, F32, false);
  checkEmbeddingGrad({0, 8, 20, 0}, F32, F32, true);
  EXPECT_EQ(
      cuda::getEmbeddingGradLaunches({5, 8, 0, 0, {}, {}, {}, {}, 0}, F32, F32)
          .size(),
      0u);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

TEST(CudaCopyTest, CopiesRowsOfAnyAlignment) {
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
        cuda::CopyRowsParams params = {outer,     bytes,     inStride,
                                       outStride, in.data(), got.data()};
        cuda::emulate(cuda::getCopyRowsLaunches(params), params);
        EXPECT_EQ(got, want);
      }
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

TEST(CudaLaunchesTest, TheLastKernelIsTheInstructions) {
  auto check = [](const std::vector<cuda::KernelLaunch> &launches,
                  const std::string &name) {
    ASSERT_FALSE(launches.empty());
    for (const cuda::KernelLaunch &launch : launches) {
      const char *start =
          &launch == &launches.back() ? name.c_str() : "cleave_part_";
      EXPECT_EQ(launch.symbol.compare(0, strlen(start), start), 0)
          << launch.symbol;
    }
  };
  for (int64_t dim : {64, 100, 130}) {
    cuda::AttentionSizes sizes = {1, 8, 2, 1, dim, 0, 1, 0};
    check(cuda::getAttentionLaunches(sizes, F32), "cleave_attention_f32");
    check(cuda::getAttentionLaunches(sizes, BF16), "cleave_attention_bf16");
    check(cuda::getAttentionGradLaunches(sizes, F32),
          "cleave_attention_grad_f32");
    check(cuda::getAttentionGradLaunches(sizes, BF16),
          "cleave_attention_grad_bf16");
  }
  check(cuda::getEmbeddingGradLaunches({5, 8, 9, 0, {}, {}, {}, {}, 0}, BF16,
                                       F32),
        "cleave_embedding_grad_bf16_f32");
}

} // namespace
