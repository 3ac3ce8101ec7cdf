#include "runtime/cpu/Embedding.h"

#include "runtime/cpu/Bf16.h"
#include "runtime/cpu/ThreadPool.h"

#include <cstring>

using namespace cleave::cpu;

/// Fewest bytes that are worth waking a thread for: about 10 us of copying.
static constexpr int64_t grainBytes = 128 << 10;

static float load(const float *p) { return *p; }
static float load(const uint16_t *p) { return fromBf16(*p); }
static void store(float *p, float x) { *p = x; }
static void store(uint16_t *p, float x) { *p = toBf16(x); }

/// Calls `fn` with null pointers of the C++ types of a and b.
template <class Fn>
static void withTypes(ElementType a, ElementType b, Fn fn) {
  float *f32 = nullptr;
  uint16_t *bf16 = nullptr;
  bool narrowA = a == ElementType::BF16, narrowB = b == ElementType::BF16;
  if (narrowA)
    narrowB ? fn(bf16, bf16) : fn(bf16, f32);
  else
    narrowB ? fn(f32, bf16) : fn(f32, f32);
}

void cleave::cpu::embedding(const EmbeddingArgs &args, ThreadPool &pool) {
  int64_t width = args.width;
  withTypes(args.typeTable, args.typeOut, [&](auto *typeTable, auto *typeOut) {
    auto *table =
        static_cast<const std::remove_pointer_t<decltype(typeTable)> *>(
            args.table);
    auto *out = static_cast<decltype(typeOut)>(args.out);
    int64_t grain = larger(1, grainBytes / larger(1, 4 * width));
    pool.parallelFor(0, args.rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t id = int64_t(args.ids[r]) - args.first;
        bool here = id >= 0 && id < args.tableRows;
        auto *to = out + r * width;
        for (int64_t j = 0; j < width; ++j)
          store(to + j, here ? load(table + id * width + j) : 0.0f);
      }
    });
  });
}

void cleave::cpu::embeddingGrad(const EmbeddingGradArgs &args,
                                ThreadPool &pool) {
  int64_t width = args.width;
  withTypes(args.typeDout, args.typeDtable, [&](auto *typeIn, auto *typeOut) {
    auto *dout =
        static_cast<const std::remove_pointer_t<decltype(typeIn)> *>(args.dout);
    auto *dtable = static_cast<decltype(typeOut)>(args.dtable);
    if (!args.accumulate)
      fillZero(dtable, args.tableRows * width * int64_t(sizeof *dtable), pool);
    int64_t perColumn = larger(1, 4 * args.rows);
    int64_t grain = larger(16, grainBytes / perColumn);
    pool.parallelFor(0, width, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = 0; r < args.rows; ++r) {
        int64_t id = int64_t(args.ids[r]) - args.first;
        if (id < 0 || id >= args.tableRows)
          continue;
        auto *to = dtable + id * width;
        auto *from = dout + r * width;
        for (int64_t j = begin; j < end; ++j)
          store(to + j, load(to + j) + load(from + j));
      }
    });
  });
}

void cleave::cpu::fillZero(void *out, int64_t bytes, ThreadPool &pool) {
  pool.parallelFor(
      0, ceilDiv(bytes, workspaceAlign), grainBytes / workspaceAlign,
      [&](int64_t begin, int64_t end, int) {
        int64_t from = begin * workspaceAlign;
        int64_t to = smaller(bytes, end * workspaceAlign);
        memset(static_cast<char *>(out) + from, 0, size_t(to - from));
      });
}

void cleave::cpu::copyBytes(const void *in, void *out, int64_t bytes,
                            ThreadPool &pool) {
  if (in == out)
    return;
  pool.parallelFor(
      0, ceilDiv(bytes, workspaceAlign), grainBytes / workspaceAlign,
      [&](int64_t begin, int64_t end, int) {
        int64_t from = begin * workspaceAlign;
        int64_t to = smaller(bytes, end * workspaceAlign);
        memcpy(static_cast<char *>(out) + from,
               static_cast<const char *>(in) + from, size_t(to - from));
      });
}
