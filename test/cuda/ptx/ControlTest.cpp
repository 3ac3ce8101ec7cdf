//===- ControlTest.cpp - Branches, calls, barriers and warps --------------===//
#include "Testing.h"
#include <numeric>

using namespace cleave;
using namespace cleave::ptx;

namespace {

/// Runs a body that stores %r0 of each thread, with every seed up to 8.
std::vector<uint32_t> runThreads(const std::string &body, uint32_t threads = 32,
                                 uint32_t blocks = 1,
                                 const std::string &outside = "") {
  std::string text =
      makeKernel(1,
                 body + "\nmov.u32 %r58, %ctaid.x;\nmov.u32 %r59, %ntid.x;\n"
                        "mad.lo.s32 %r59, %r58, %r59, %thread;\n"
                        "mul.wide.u32 %l39, %r59, 4;\nadd.s64 %p0, %p0, %l39;\n"
                        "st.global.u32 [%p0], %r0;",
                 outside);
  std::vector<uint32_t> first;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<uint32_t> out(size_t(threads) * blocks, 0xdddddddd);
    Device device;
    Options options;
    options.seed = seed;
    options.longestTurn = seed % 2 ? 3 : 4096;
    expectOk(runText(text, device, {device.add(out)}, {threads, 1, 1},
                     {blocks, 1, 1}, 0, options));
    if (seed == 0)
      first = out;
    EXPECT_EQ(out, first) << "seed " << seed;
  }
  return first;
}

template <class Want>
void expectThreads(const std::vector<uint32_t> &got, Want want) {
  for (uint32_t t = 0; t < got.size(); ++t)
    ASSERT_EQ(got[t], uint32_t(want(t))) << "thread " << t;
}

//===----------------------------------------------------------------------===//
// Branches
//===----------------------------------------------------------------------===//

TEST(PtxControlTest, LanesPartAndMeet) {
  // What comes behind is done by all lanes together again: a ballot of them.
  auto out = runThreads(R"(
    and.b32 %r1, %thread, 3;
    setp.eq.s32 %q1, %r1, 0;
    @%q1 bra zero;
    setp.eq.s32 %q2, %r1, 1;
    @%q2 bra one;
    mov.u32 %r0, 100;
    bra.uni end;
  zero:
    mov.u32 %r0, 200;
    bra.uni end;
  one:
    mov.u32 %r0, 300;
  end:
    activemask.b32 %r2;
    setp.eq.s32 %q3, %r2, -1;
    selp.u32 %r3, 1, 0, %q3;
    add.s32 %r0, %r0, %r3;)");
  expectThreads(out, [](uint32_t t) {
    return t % 4 == 0 ? 201 : t % 4 == 1 ? 301 : 101;
  });
}

TEST(PtxControlTest, LoopsOfEveryLengthAndTheirBreaks) {
  // The sum of 0 to thread - 1 but for what begins at 20; each lane leaves at
  // a time of its own, some of them by a second way.
  auto out = runThreads(R"(
    mov.u32 %r0, 0;
    mov.u32 %r1, 0;
  loop:
    setp.ge.u32 %q1, %r1, %thread;
    @%q1 bra done;
    setp.eq.u32 %q2, %r1, 20;
    @%q2 bra done;
    add.s32 %r0, %r0, %r1;
    add.s32 %r1, %r1, 1;
    bra.uni loop;
  done:
    activemask.b32 %r2;
    setp.ne.s32 %q3, %r2, -1;
    @%q3 add.s32 %r0, %r0, 1000;)");
  expectThreads(out, [](uint32_t t) {
    uint32_t n = std::min(t, 20U);
    return n * (n - 1) / 2;
  });
}

TEST(PtxControlTest, NestedLoops) {
  auto out = runThreads(R"(
    mov.u32 %r0, 0;
    mov.u32 %r1, 0;
  outer:
    mov.u32 %r2, 0;
  inner:
    add.s32 %r0, %r0, 1;
    add.s32 %r2, %r2, 1;
    xor.b32 %r3, %r1, %thread;
    and.b32 %r3, %r3, 7;
    setp.le.u32 %q1, %r2, %r3;
    @%q1 bra inner;
    add.s32 %r1, %r1, 1;
    setp.lt.u32 %q2, %r1, 5;
    @%q2 bra outer;)");
  expectThreads(out, [](uint32_t t) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 5; ++i)
      sum += ((i ^ t) & 7) + 1;
    return sum;
  });
}

TEST(PtxControlTest, SomeReturnEarly) {
  std::vector<uint32_t> out(64, 7);
  Device device;
  expectOk(runText(makeKernel(1, R"(
    and.b32 %r1, %thread, 1;
    setp.eq.s32 %q1, %r1, 1;
    @%q1 ret;
    setp.gt.u32 %q2, %thread, 40;
    @%q2 exit;
    bar.sync 0;
    add.s64 %p0, %p0, %off64;
    st.global.u32 [%p0], %thread;)"),
                   device, {device.add(out)}, {64, 1, 1}));
  expectThreads(out, [](uint32_t t) { return t % 2 == 1 || t > 40 ? 7 : t; });
}

TEST(PtxControlTest, BranchesByTable) {
  auto out = runThreads(R"(
    rem.u32 %r1, %thread, 3;
    mov.u32 %r0, 0;
  targets: .branchtargets first, second, third;
    brx.idx %r1, targets;
  first:
    add.s32 %r0, %r0, 1;
  second:
    add.s32 %r0, %r0, 10;
  third:
    add.s32 %r0, %r0, 100;)");
  expectThreads(out, [](uint32_t t) {
    return t % 3 == 0 ? 111 : t % 3 == 1 ? 110 : 100;
  });
}

TEST(PtxControlTest, PredicatesGuardEverything) {
  auto out = runThreads(R"(
    mov.u32 %r0, 1;
    setp.lt.u32 %q1, %thread, 9;
    @%q1 mov.u32 %r0, 2;
    @!%q1 add.s32 %r0, %r0, 4;
    not.pred %q2, %q1;
    @%q2 bra skip;
    add.s32 %r0, %r0, 8;
  skip:)");
  expectThreads(out, [](uint32_t t) { return t < 9 ? 10 : 5; });
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

TEST(PtxControlTest, CallsItself) {
  // Fibonacci's numbers, each lane as deep as it must.
  const char *outside = R"(
    .func (.param .b32 result) fib(.param .b32 n)
    {
      .reg .pred %q;
      .reg .b32 %r<6>;
      ld.param.u32 %r1, [n];
      setp.lt.u32 %q, %r1, 2;
      @%q bra end;
      sub.s32 %r2, %r1, 1;
      {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %r2;
        call.uni (out), fib, (in);
        ld.param.b32 %r3, [out];
      }
      sub.s32 %r2, %r1, 2;
      {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %r2;
        call.uni (out), fib, (in);
        ld.param.b32 %r4, [out];
      }
      add.s32 %r1, %r3, %r4;
    end:
      st.param.b32 [result], %r1;
      ret;
    })";
  auto out = runThreads(R"(
    {
      .param .b32 in;
      .param .b32 out;
      and.b32 %r1, %thread, 7;
      st.param.b32 [in], %r1;
      call.uni (out), fib, (in);
      ld.param.b32 %r0, [out];
    })",
                        32, 1, outside);
  static constexpr uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13};
  expectThreads(out, [](uint32_t t) { return fib[t % 8]; });
}

TEST(PtxControlTest, SomeLanesCall) {
  const char *outside = R"(
    .func twice(.param .b64 p)
    {
      .local .align 4 .b8 stack[8];
      .reg .b32 %r<4>;
      .reg .b64 %l;
      ld.param.u64 %l, [p];
      ld.u32 %r1, [%l];
      st.local.u32 [stack+4], %r1;
      ld.local.u32 %r2, [stack+4];
      add.s32 %r2, %r2, %r1;
      st.u32 [%l], %r2;
      ret;
    })";
  auto out = runThreads(R"(
    .local .align 4 .b8 mine[4];
    mov.u64 %l1, mine;
    cvta.local.u64 %l1, %l1;
    add.s32 %r0, %thread, 5;
    st.u32 [%l1], %r0;
    setp.gt.u32 %q1, %thread, 11;
    {
      .param .b64 in;
      st.param.b64 [in], %l1;
      @%q1 call.uni twice, (in);
    }
    ld.u32 %r0, [%l1];)",
                        32, 1, outside);
  expectThreads(out, [](uint32_t t) { return (t + 5) * (t > 11 ? 2 : 1); });
}

//===----------------------------------------------------------------------===//
// Special registers
//===----------------------------------------------------------------------===//

TEST(PtxControlTest, KnowsThreadsAndBlocks) {
  std::vector<uint32_t> out(3 * 2 * 2 * 5 * 3);
  Device device;
  std::string text = makeKernel(1, R"(
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %ntid.y;
    mad.lo.s32 %r5, %r2, %r3, %r1;      // in the block
    mov.u32 %r6, %ctaid.x;
    mov.u32 %r7, %ctaid.y;
    mov.u32 %r8, %ctaid.z;
    mov.u32 %r9, %nctaid.x;
    mov.u32 %r10, %nctaid.y;
    mad.lo.s32 %r11, %r8, %r10, %r7;
    mad.lo.s32 %r11, %r11, %r9, %r6;    // the block
    mul.lo.s32 %r12, %r3, %r4;
    mad.lo.s32 %r13, %r11, %r12, %r5;
    mul.wide.u32 %l1, %r13, 4;
    add.s64 %p0, %p0, %l1;
    mov.u32 %r14, %laneid;
    mad.lo.s32 %r15, %r13, 100, %r14;
    st.global.u32 [%p0], %r15;)");
  for (uint64_t seed : {0, 1, 2}) {
    std::fill(out.begin(), out.end(), 0);
    Options options;
    options.seed = seed;
    expectOk(runText(text, device, {device.add(out)}, {5, 3, 1}, {3, 2, 2}, 0,
                     options));
    expectThreads(out, [](uint32_t t) { return t * 100 + t % 15; });
  }
}

//===----------------------------------------------------------------------===//
// Barriers and shared memory
//===----------------------------------------------------------------------===//

TEST(PtxControlTest, WarpsExchangeThroughSharedMemory) {
  const char *outside = ".shared .align 4 .b8 words[512];";
  auto out = runThreads(R"(
    mov.u32 %r1, words;
    add.s32 %r2, %r1, %off;
    st.shared.u32 [%r2], %thread;
    bar.sync 0;
    sub.s32 %r3, 127, %thread;
    shl.b32 %r3, %r3, 2;
    add.s32 %r3, %r1, %r3;
    ld.shared.u32 %r0, [%r3];
    bar.sync 0;
    st.shared.u32 [%r2], %r0;)",
                        128, 3, outside);
  expectThreads(out, [](uint32_t t) { return 127 - t % 128; });
}

TEST(PtxControlTest, NamedBarriersOfSomeWarps) {
  // Two warps hand over to two others, which alone wait.
  const char *outside = ".shared .align 4 .b8 words[256];";
  auto out = runThreads(R"(
    mov.u32 %r1, words;
    mov.u32 %r0, 0;
    setp.ge.u32 %q1, %thread, 64;
    @%q1 bra readers;
    add.s32 %r2, %r1, %off;
    st.shared.u32 [%r2], %thread;
    bar.arrive 1, 128;
    bra.uni end;
  readers:
    bar.sync 1, 128;
    add.s32 %r2, %r1, %off;
    ld.shared.u32 %r0, [%r2+-256];
  end:)",
                        128, 1, outside);
  expectThreads(out, [](uint32_t t) { return t < 64 ? 0 : t - 64; });
}

TEST(PtxControlTest, BarriersReduce) {
  auto out = runThreads(R"(
    setp.lt.u32 %q1, %thread, 50;
    barrier.sync 0;
    bar.red.popc.u32 %r0, 0, %q1;
    bar.red.and.pred %q2, 0, %q1;
    bar.red.or.pred %q3, 0, %q1;
    @%q2 add.s32 %r0, %r0, 1000;
    @%q3 add.s32 %r0, %r0, 2000;)",
                        96);
  expectThreads(out, [](uint32_t) { return 2050; });
}

TEST(PtxControlTest, DynamicSharedMemory) {
  std::vector<uint32_t> out(64);
  Device device;
  expectOk(runText(makeKernel(1, R"(
    mov.u32 %r1, dynamic;
    add.s32 %r1, %r1, %off;
    st.shared.u32 [%r1], %thread;
    ld.shared.u32 %r0, [%r1];
    mov.u32 %r2, %dynamic_smem_size;
    add.s32 %r0, %r0, %r2;
    add.s64 %p0, %p0, %off64;
    st.global.u32 [%p0], %r0;)",
                              ".extern .shared .align 16 .b8 dynamic[];\n"
                              ".shared .align 8 .b8 other[24];"),
                   device, {device.add(out)}, {64, 1, 1}, {1, 1, 1}, 256));
  expectThreads(out, [](uint32_t t) { return t + 256; });
}

TEST(PtxControlTest, Atomics) {
  const char *outside = ".shared .align 4 .b8 sum[8];";
  auto out = runThreads(R"(
    mov.u32 %r1, sum;
    setp.eq.u32 %q1, %thread, 0;
    mov.u32 %r2, 0;
    @%q1 st.shared.u32 [%r1], %r2;
    @%q1 st.shared.u32 [%r1+4], %r2;
    bar.sync 0;
    atom.shared.add.u32 %r3, [%r1], %thread;
    red.shared.max.u32 [%r1+4], %thread;
    bar.sync 0;
    ld.shared.u32 %r0, [%r1];
    ld.shared.u32 %r4, [%r1+4];
    mad.lo.s32 %r0, %r4, 10000, %r0;)",
                        96, 2, outside);
  expectThreads(out, [](uint32_t) { return 95 * 10000 + 96 * 95 / 2; });
}

TEST(PtxControlTest, GlobalAtomics) {
  std::vector<uint64_t> cells = {0, ~uint64_t(0), 5, 0};
  std::vector<float> sum = {0};
  Device device;
  expectOk(runText(makeKernel(2, R"(
    cvt.u64.u32 %l1, %thread;
    atom.global.add.u64 %l2, [%p0], %l1;
    atom.global.min.u64 %l2, [%p0+8], %l1;
    mov.u64 %l3, 5;
    mov.u64 %l4, 77;
    atom.global.cas.b64 %l2, [%p0+16], %l3, %l4;
    atom.global.inc.u32 %r1, [%p0+24], 6;
    mov.f32 %f1, 0f3F000000;
    red.global.add.f32 [%p1], %f1;)"),
                   device, {device.add(cells), device.add(sum)}, {64, 1, 1},
                   {2, 1, 1}));
  EXPECT_EQ(cells, (std::vector<uint64_t>{2 * 64 * 63 / 2, 0, 77, 128 % 7}));
  EXPECT_EQ(sum[0], 64.0f);
}

//===----------------------------------------------------------------------===//
// Lanes of a warp
//===----------------------------------------------------------------------===//

TEST(PtxWarpTest, Shuffles) {
  expectThreads(runThreads("shfl.sync.bfly.b32 %r0, %thread, 5, 31, -1;"),
                [](uint32_t t) { return t ^ 5; });
  expectThreads(runThreads("shfl.sync.idx.b32 %r0, %thread, 9, 31, -1;"),
                [](uint32_t) { return 9; });
  expectThreads(runThreads("shfl.sync.up.b32 %r0|%q1, %thread, 3, 0, -1;\n"
                           "@!%q1 mov.u32 %r0, 50;"),
                [](uint32_t t) { return t < 3 ? 50 : t - 3; });
  expectThreads(runThreads("shfl.sync.down.b32 %r0|%q1, %thread, 4, 31, -1;\n"
                           "@!%q1 mov.u32 %r0, 50;"),
                [](uint32_t t) { return t > 27 ? 50 : t + 4; });
  // Within segments of 8: 0x1807.
  expectThreads(runThreads("shfl.sync.down.b32 %r0, %thread, 2, 0x1807, -1;"),
                [](uint32_t t) { return t % 8 > 5 ? t : t + 2; });
  expectThreads(runThreads("shfl.sync.idx.b32 %r0, %thread, 3, 0x181f, -1;"),
                [](uint32_t t) { return t / 8 * 8 + 3; });
}

TEST(PtxWarpTest, VotesAndMatches) {
  expectThreads(runThreads("setp.lt.u32 %q1, %thread, 5;\n"
                           "vote.sync.ballot.b32 %r0, %q1, -1;"),
                [](uint32_t) { return 31; });
  expectThreads(runThreads("setp.lt.u32 %q1, %thread, 5;\n"
                           "vote.sync.any.pred %q2, %q1, -1;\n"
                           "vote.sync.all.pred %q3, %q1, -1;\n"
                           "selp.u32 %r0, 1, 0, %q2;\n"
                           "@%q3 add.s32 %r0, %r0, 2;"),
                [](uint32_t) { return 1; });
  expectThreads(runThreads("rem.u32 %r1, %thread, 3;\n"
                           "match.any.sync.b32 %r0, %r1, -1;"),
                [](uint32_t t) { return 0x49249249U << (t % 3); });
  expectThreads(runThreads("rem.u32 %r1, %thread, 3;\n"
                           "match.all.sync.b32 %r0|%q1, %r1, -1;"),
                [](uint32_t) { return 0; });
  expectThreads(runThreads("redux.sync.add.s32 %r0, %thread, -1;"),
                [](uint32_t) { return 31 * 16; });
  expectThreads(runThreads("redux.sync.max.u32 %r0, %thread, -1;"),
                [](uint32_t) { return 31; });
  expectThreads(runThreads("elect.sync %r0|%q1, -1;\n"
                           "@%q1 add.s32 %r0, %r0, 100;"),
                [](uint32_t t) { return t == 0 ? 100 : 0; });
}

TEST(PtxWarpTest, PartOfAWarp) {
  expectThreads(runThreads("mov.u32 %r0, 3;\n"
                           "setp.ge.u32 %q1, %thread, 16;\n"
                           "@%q1 bra end;\n"
                           "shfl.sync.bfly.b32 %r0, %thread, 1, 31, 0xffff;\n"
                           "bar.warp.sync 0xffff;\n"
                           "end:"),
                [](uint32_t t) { return t < 16 ? t ^ 1 : 3; });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST(PtxMemoryTest, VectorsAndNarrowTypes) {
  std::vector<int8_t> bytes(128);
  std::iota(bytes.begin(), bytes.end(), int8_t(-64));
  std::vector<int64_t> out(64);
  Device device;
  expectOk(runText(makeKernel(2, R"(
    add.s64 %p0, %p0, %off64;
    mul.wide.u32 %l9, %thread, 16;
    add.s64 %p1, %p1, %l9;
    ld.global.v4.s8 {%r1, %r2, %r3, %r4}, [%p0];
    add.s32 %r5, %r1, %r2;
    add.s32 %r6, %r3, %r4;
    add.s32 %r5, %r5, %r6;
    cvt.s64.s32 %l1, %r5;
    ld.global.nc.L1::no_allocate.u16 %h1, [%p0+2];
    ld.global.u8 %h2, [%p0+1];
    cvt.u64.u16 %l2, %h1;
    cvt.u64.u16 %l3, %h2;
    mad.lo.s64 %l2, %l3, 65536, %l2;
    st.global.v2.u64 [%p1], {%l1, %l2};)"),
                   device, {device.add(bytes), device.add(out)}));
  for (int t = 0; t < 32; ++t) {
    const int8_t *from = bytes.data() + 4 * t;
    EXPECT_EQ(out[size_t(2 * t)], from[0] + from[1] + from[2] + from[3]);
    EXPECT_EQ(out[size_t(2 * t + 1)], uint8_t(from[1]) * 65536 +
                                          uint8_t(from[3]) * 256 +
                                          uint8_t(from[2]));
  }
}

TEST(PtxMemoryTest, ConstantsAndGlobalsOfTheModule) {
  auto out = runThreads(R"(
    and.b32 %r1, %thread, 3;
    mul.wide.u32 %l1, %r1, 4;
    mov.u64 %l2, numbers;
    add.s64 %l2, %l2, %l1;
    ld.const.u32 %r0, [%l2];
    ld.global.u32 %r2, [cell+4];
    add.s32 %r0, %r0, %r2;)",
                        32, 1,
                        ".const .align 4 .b32 numbers[4] = {7, 8, 9, -3};\n"
                        ".global .align 4 .u32 cell[2] = {1, 100};");
  static constexpr int numbers[] = {7, 8, 9, -3};
  expectThreads(out, [](uint32_t t) { return 100 + numbers[t % 4]; });
}

TEST(PtxMemoryTest, GenericAddresses) {
  auto out = runThreads(R"(
    mov.u64 %l1, words;
    cvta.shared.u64 %l2, %l1;
    add.s64 %l2, %l2, %off64;
    st.u32 [%l2], %thread;
    isspacep.shared %q1, %l2;
    isspacep.global %q2, %p0;
    ld.u32 %r0, [%l2];
    @%q1 add.s32 %r0, %r0, 100;
    @%q2 add.s32 %r0, %r0, 1000;
    cvta.to.shared.u64 %l3, %l2;
    sub.s64 %l3, %l3, %l1;
    cvt.u32.u64 %r1, %l3;
    add.s32 %r0, %r0, %r1;)",
                        32, 1, ".shared .align 4 .b8 words[128];");
  expectThreads(out, [](uint32_t t) { return t + 1100 + 4 * t; });
}

TEST(PtxMemoryTest, AsynchronousCopies) {
  std::vector<uint32_t> in(128);
  std::iota(in.begin(), in.end(), 5);
  std::vector<uint32_t> out(128);
  Device device;
  // The second group is of zeros beyond its first 4 bytes.
  expectOk(runText(makeKernel(2, R"(
    shl.b32 %r1, %thread, 4;
    mov.u32 %r2, words;
    add.s32 %r2, %r2, %r1;
    cvt.u64.u32 %l1, %r1;
    add.s64 %p0, %p0, %l1;
    add.s64 %p1, %p1, %l1;
    cp.async.cg.shared.global [%r2], [%p0], 16;
    cp.async.commit_group;
    mov.u32 %r3, 4;
    cp.async.cg.shared.global [%r2+512], [%p0], 16, %r3;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.v2.u32 {%r4, %r5}, [%r2];
    cp.async.wait_all;
    ld.shared.v2.u32 {%r6, %r7}, [%r2+512];
    st.global.v4.u32 [%p1], {%r4, %r5, %r6, %r7};)",
                              ".shared .align 16 .b8 words[1024];"),
                   device, {device.add(in), device.add(out)}));
  for (uint32_t t = 0; t < 32; ++t) {
    std::vector<uint32_t> got(out.begin() + 4 * t, out.begin() + 4 * t + 4);
    EXPECT_EQ(got, (std::vector<uint32_t>{4 * t + 5, 4 * t + 6, 4 * t + 5, 0}));
  }
}

} // namespace
