#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/ThreadPool.h"
#include "test/runtime/cpu/Reference.h"

using namespace cleave::cpu;

namespace {

constexpr ElementType F32 = ElementType::F32, BF16 = ElementType::BF16;

std::vector<int32_t> getIds(int64_t rows, int32_t most) {
  std::mt19937 generator(7);
  std::vector<int32_t> ids(rows);
  for (int32_t &id : ids)
    id = int32_t(generator() % uint32_t(most));
  return ids;
}

TEST(Embedding, LooksUpThisRanksRows) {
  for (int threads : {1, 3})
    for (ElementType typeTable : {F32, BF16})
      for (ElementType typeOut : {F32, BF16})
        for (int64_t width : {1, 7, 64, 100}) {
          ThreadPool pool(threads);
          int64_t rows = 2000, tableRows = 11, first = 22;
          std::vector<int32_t> ids = getIds(rows, 44);
          ids[0] = -5;
          Buffer table = Buffer::random(typeTable, tableRows * width, 1);
          Buffer out = Buffer::random(typeOut, rows * width, 2);
          embedding({rows, width, tableRows, first, typeTable, typeOut,
                     ids.data(), table.data(), out.data()},
                    pool);
          int64_t found = 0;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < width; ++j) {
              bool here = ids[r] >= first && ids[r] < first + tableRows;
              double want = here ? table[(ids[r] - first) * width + j] : 0;
              if (typeOut == BF16)
                want = fromBf16(toBf16(float(want)));
              ASSERT_EQ(out[r * width + j], want);
              found += here;
            }
          EXPECT_GT(found, 0);
        }
}

TEST(EmbeddingGrad, AddsRowsInOrder) {
  for (ElementType typeDout : {F32, BF16})
    for (ElementType typeDtable : {F32, BF16})
      for (bool accumulate : {false, true})
        for (int64_t width : {1, 5, 70, 513}) {
          int64_t rows = 300, tableRows = 13, first = 3;
          std::vector<int32_t> ids = getIds(rows, 20);
          Buffer dout = Buffer::random(typeDout, rows * width, 3);
          Buffer start = Buffer::random(typeDtable, tableRows * width, 4);
          // The same sum in the same order, one number at a time.
          Buffer want = start;
          if (!accumulate)
            want = Buffer(typeDtable, tableRows * width);
          for (int64_t r = 0; r < rows; ++r) {
            int64_t id = ids[r] - first;
            if (id < 0 || id >= tableRows)
              continue;
            for (int64_t j = 0; j < width; ++j)
              want.set(id * width + j, float(want[id * width + j]) +
                                           float(dout[r * width + j]));
          }
          for (int threads : {1, 2, 5}) {
            ThreadPool pool(threads);
            Buffer dtable = start;
            embeddingGrad({rows, width, tableRows, first, typeDout, typeDtable,
                           ids.data(), dout.data(), dtable.data(), accumulate},
                          pool);
            EXPECT_TRUE(dtable == want) << width << " threads " << threads;
          }
        }
}

TEST(Moves, FillAndCopyEveryByte) {
  ThreadPool pool(3);
  for (int64_t bytes : {0, 1, 63, 64, 65, 1000003}) {
    std::vector<unsigned char> in(bytes + 1, 7), out(bytes + 1, 9);
    for (int64_t i = 0; i < bytes; ++i)
      in[i] = (unsigned char)(i * 31);
    copyBytes(in.data(), out.data(), bytes, pool);
    EXPECT_TRUE(std::equal(in.begin(), in.end() - 1, out.begin()));
    EXPECT_EQ(out[bytes], 9);
    fillZero(out.data(), bytes, pool);
    EXPECT_EQ(std::count(out.begin(), out.end() - 1, 0), bytes);
    EXPECT_EQ(out[bytes], 9);
  }
}

} // namespace
