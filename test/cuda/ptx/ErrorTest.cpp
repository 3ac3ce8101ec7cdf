//===- ErrorTest.cpp - What the interpreter refuses -----------------------===//
#include "Testing.h"

using namespace cleave;
using namespace cleave::ptx;

namespace {

/// Two warps, unless it says otherwise, of which one parameter has 64 words.
Status runBody(const std::string &body, const std::string &outside = "",
               uint32_t threads = 64, const Options &options = {}) {
  std::vector<uint32_t> words(64);
  Device device;
  return runText(makeKernel(1, body, outside), device, {device.add(words)},
                 {threads, 1, 1}, {1, 1, 1}, 0, options);
}

const char *const words = ".shared .align 16 .b8 words[1024];";

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

TEST(PtxErrorTest, UnalignedAddress) {
  expectError(runBody("add.s64 %p0, %p0, %off64;\n"
                      "setp.eq.u32 %q1, %thread, 37;\n"
                      "@%q1 add.s64 %p0, %p0, 2;\n"
                      "ld.global.u32 %r1, [%p0];"),
              {"kernel k, block (0, 0, 0), thread (37, 0, 0)", "0x7f0000000196",
               "no multiple of 4", "ld.global.u32 %r1, [%p0];"});
  expectError(runBody("mov.u32 %r1, words;\nadd.s32 %r1, %r1, 4;\n"
                      "mov.u64 %l1, 0;\nst.shared.u64 [%r1], %l1;",
                      words),
              {"thread (0, 0, 0)", "no multiple of 8"});
  expectError(runBody("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%p0+8];"),
              {"no multiple of 16"});
}

TEST(PtxErrorTest, GlobalMemoryOutOfBounds) {
  // The last word of thread 63 is the first behind the allocation.
  expectError(runBody("add.s64 %p0, %p0, %off64;\n"
                      "ld.global.u32 %r1, [%p0+4];"),
              {"thread (63, 0, 0)", "4 bytes at address 0x7f0000000200",
               "256 bytes at 0x7f0000000100", "this is byte 256"});
  expectError(runBody("st.global.u32 [%p0+-4], %thread;"),
              {"4 bytes at address 0x7f00000000fc"});
  expectError(runBody("ld.global.v2.u64 {%l1, %l2}, [%p0+256];"),
              {"16 bytes at address"});
  expectError(runBody("mov.u64 %l1, 0;\nld.global.u8 %h1, [%l1];"),
              {"1 bytes at address 0x0"});
  expectError(runBody("atom.global.add.u32 %r1, [%p0+256], 1;"),
              {"4 bytes at address"});
}

TEST(PtxErrorTest, OtherMemoryOutOfBounds) {
  expectError(runBody("mov.u32 %r1, words;\nadd.s32 %r1, %r1, 1024;\n"
                      "st.shared.u32 [%r1], %r1;",
                      words),
              {"4 bytes at shared address", "outside of its 1024 bytes"});
  expectError(runBody("mov.u32 %r1, 0;\nst.shared.u32 [%r1], %r1;", words),
              {"shared address 0x0"});
  expectError(runBody(".local .align 4 .b8 mine[8];\n"
                      "st.local.u32 [mine+8], %thread;"),
              {"local address", "outside of its 8 bytes"});
  expectError(runBody("ld.param.u64 %l1, [p0+8];"), {"parameter address"});
}

TEST(PtxErrorTest, ReadOnlyMemory) {
  std::vector<uint32_t> values(8);
  Device device;
  uint64_t address = device.add(values.data(), 32, false);
  expectOk(
      runText(makeKernel(1, "ld.global.u32 %r1, [%p0];"), device, {address}));
  expectError(runText(makeKernel(1, "st.global.u32 [%p0], %thread;"), device,
                      {address}),
              {"writes to read-only memory at address"});
  expectError(runBody("st.global.u32 [table], %thread;",
                      ".const .align 4 .b32 table[2] = {1, 2};"),
              {"read-only"});
}

//===----------------------------------------------------------------------===//
// What nothing wrote
//===----------------------------------------------------------------------===//

TEST(PtxErrorTest, UnwrittenRegister) {
  expectError(runBody("add.s32 %r1, %r2, 1;"),
              {"thread (0, 0, 0)", "a register that nothing wrote",
               "add.s32 %r1, %r2, 1;"});
  expectError(runBody("@%q5 bra end;\nend:"), {"register that nothing wrote"});
  // Written by some lanes only, in one of two ways.
  const char *body = "setp.lt.u32 %q1, %thread, 40;\n"
                     "@!%q1 bra skip;\nmov.u32 %r1, 5;\nskip:\n"
                     "mov.u32 %r2, %r1;\n";
  expectOk(runBody(body));
  expectOk(runBody(std::string(body) + "@%q1 add.s32 %r3, %r2, 1;"));
  expectError(runBody(std::string(body) + "add.s32 %r3, %r2, 1;"),
              {"thread (40, 0, 0)", "register that nothing wrote"});
  // One half is as good as both, none is none.
  const char *halves = "mov.u32 %r1, 7;\nmov.b32 {%h1, _}, %r1;\n";
  expectOk(runBody(std::string(halves) +
                   "mov.b32 %r2, {%h1, %h2};\nshl.b32 %r3, %r2, 16;"));
  expectError(runBody(std::string(halves) +
                      "mov.b32 %r2, {%h3, %h2};\nshl.b32 %r3, %r2, 16;"),
              {"a register that nothing wrote", "shl.b32 %r3, %r2, 16;"});
  Options options;
  options.checksRegisters = false;
  expectOk(
      runBody(std::string(body) + "add.s32 %r3, %r2, 1;", "", 64, options));
}

TEST(PtxErrorTest, UnwrittenLocalMemory) {
  const char *body = ".local .align 4 .b8 mine[8];\n"
                     "st.local.u8 [mine], 1;\nld.local.u32 %r1, [mine];";
  expectError(runBody(body), {"reads local memory at 0x101"});
}

TEST(PtxErrorTest, UnwrittenSharedMemory) {
  expectError(runBody("mov.u32 %r1, words;\nadd.s32 %r2, %r1, %off;\n"
                      "st.shared.u16 [%r2], 7;\nbar.sync 0;\n"
                      "ld.shared.u32 %r3, [%r2];",
                      words),
              {"reads shared address", "(byte ", "which nothing wrote"});
}

//===----------------------------------------------------------------------===//
// Races
//===----------------------------------------------------------------------===//

/// Each thread writes its word, and reads that of the other warp after
/// `between`.
Status exchange(const std::string &between, const Options &options = {}) {
  return runBody("mov.u32 %r1, words;\nadd.s32 %r2, %r1, %off;\n"
                 "st.shared.u32 [%r2], %thread;\n" +
                     between +
                     "\nxor.b32 %r3, %off, 128;\nadd.s32 %r3, %r1, %r3;\n"
                     "ld.shared.u32 %r4, [%r3];",
                 words, 64, options);
}

TEST(PtxErrorTest, ReadWithoutBarrier) {
  expectOk(exchange("bar.sync 0;"));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Options options;
    options.seed = seed;
    Status status = exchange("bar.warp.sync -1;", options);
    // The one that comes first reads what is not there as yet.
    EXPECT_TRUE(status.message().find("race: ") != std::string::npos ||
                status.message().find("nothing wrote") != std::string::npos)
        << status.message();
  }
}

TEST(PtxErrorTest, WriteOverWhatOthersRead) {
  std::string body = "mov.u32 %r1, words;\nadd.s32 %r2, %r1, %off;\n"
                     "st.shared.u32 [%r2], %thread;\nbar.sync 0;\n"
                     "ld.shared.u32 %r4, [%r1];\n";
  expectOk(runBody(body + "bar.sync 0;\nst.shared.u32 [%r2], %r4;", words));
  expectError(runBody(body + "st.shared.u32 [%r2], %r4;", words),
              {"race: ", "shared address 0x400 (byte 0)", "which thread (",
               "without a barrier between"});
}

TEST(PtxErrorTest, TwoWarpsWriteOnePlace) {
  expectError(runBody("mov.u32 %r1, words;\nst.shared.u32 [%r1], 7;", words),
              {"race: writes shared address 0x400", "wrote without a barrier"});
}

TEST(PtxErrorTest, LanesOfOneWarp) {
  // In step or not, lanes know of each other by a barrier of the warp only.
  auto exchangeWithin = [](const std::string &between) {
    return runBody("mov.u32 %r1, words;\nadd.s32 %r2, %r1, %off;\n"
                   "st.shared.u32 [%r2], %thread;\n" +
                       between +
                       "\nxor.b32 %r3, %off, 4;\nadd.s32 %r3, %r1, %r3;\n"
                       "ld.shared.u32 %r4, [%r3];",
                   words, 32);
  };
  expectOk(exchangeWithin("bar.warp.sync -1;"));
  expectOk(exchangeWithin("bar.sync 0;"));
  expectError(exchangeWithin(""),
              {"race: reads shared address 0x404 (byte 4), which thread "
               "(1, 0, 0) wrote without a barrier between"});
}

TEST(PtxErrorTest, TwoLanesWriteOnePlace) {
  expectOk(runBody("mov.u32 %r1, words;\nst.shared.u32 [%r1], 7;", words, 32));
  expectError(
      runBody("mov.u32 %r1, words;\nst.shared.u32 [%r1], %thread;", words, 32),
      {"so does another lane with another value"});
}

TEST(PtxErrorTest, CopyThatNothingWaitedFor) {
  std::string body = "mov.u32 %r1, words;\nshl.b32 %r2, %thread, 2;\n"
                     "add.s32 %r2, %r1, %r2;\nadd.s64 %p0, %p0, %off64;\n"
                     "cp.async.ca.shared.global [%r2], [%p0], 4;\n"
                     "cp.async.commit_group;\n";
  expectOk(runBody(body + "cp.async.wait_group 0;\nld.shared.u32 %r3, [%r2];",
                   words));
  expectError(runBody(body + "ld.shared.u32 %r3, [%r2];", words),
              {"copies asynchronously without having waited"});
  expectError(
      runBody(body + "cp.async.wait_group 1;\nld.shared.u32 %r3, [%r2];",
              words),
      {"copies asynchronously"});
  // To wait for one's own copies is not to know of another's.
  expectError(runBody(body + "cp.async.wait_all;\nxor.b32 %r4, %off, 128;\n"
                             "add.s32 %r4, %r1, %r4;\nld.shared.u32 %r3, "
                             "[%r4];",
                      words),
              {"shared address"});
}

//===----------------------------------------------------------------------===//
// Barriers and members
//===----------------------------------------------------------------------===//

TEST(PtxErrorTest, DivergentBarrier) {
  expectError(runBody("setp.lt.u32 %q1, %thread, 5;\n@%q1 bra some;\n"
                      "bra.uni end;\nsome:\nbar.sync 0;\nend:"),
              {"the barrier is reached by lanes 0x1f", "a branch separates"});
}

TEST(PtxErrorTest, BarrierThatSomeWarpsMiss) {
  expectError(runBody("setp.lt.u32 %q1, %thread, 32;\n@%q1 bra one;\n"
                      "bar.sync 2;\nbra.uni end;\none:\nbar.sync 1;\nend:"),
              {"deadlock: warp 0 waits at barrier 1 (line ",
               "warp 1 waits at barrier 2 (line "});
  expectError(runBody("setp.ge.u32 %q1, %thread, 32;\n@%q1 ret;\n"
                      "bar.sync 1, 64;"),
              {"deadlock: warp 0 waits at barrier 1"});
}

TEST(PtxErrorTest, BarrierOfOtherCounts) {
  expectError(runBody("setp.lt.u32 %q1, %thread, 32;\n@%q1 bra one;\n"
                      "bar.sync 1, 64;\nbra.uni end;\n"
                      "one:\nbar.sync 1, 96;\nend:"),
              {"barrier 1 is for", "64 threads", "96 threads"});
  expectError(runBody("bar.sync 1, 40;"), {"a multiple of 32 threads, got 40"});
  expectError(runBody("bar.sync 16;"), {"there is no barrier 16"});
}

TEST(PtxErrorTest, MembersThatAreNotThere) {
  expectError(runBody("setp.lt.u32 %q1, %thread, 8;\n@!%q1 bra end;\n"
                      "shfl.sync.bfly.b32 %r1, %thread, 1, 31, -1;\nend:"),
              {"mask of members 0xffffffff names lane 8, which is not here"});
  expectError(runBody("bar.warp.sync 1;"),
              {"mask of members 0x1 is without the lane itself"});
  expectError(runBody("setp.lt.u32 %q1, %thread, 8;\n@!%q1 bra end;\n"
                      "shfl.sync.idx.b32 %r1, %thread, 9, 31, 255;\nend:"),
              {"reads from lane 9, which is not active"});
  expectError(runBody("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                      "{%f1, %f2, %f3, %f4}, {%thread, %thread}, {%thread}, "
                      "{%off, %off, %off, %off};",
                      "", 20),
              {"expects all lanes of the warp, got 0xfffff"});
}

//===----------------------------------------------------------------------===//
// Launches and endings
//===----------------------------------------------------------------------===//

TEST(PtxErrorTest, Launches) {
  std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 a, .param .u32 b)\n.maxntid 64\n{ ret; }\n"
      ".visible .entry exact()\n.reqntid 32, 2, 1\n{ ret; }\n";
  Module module;
  expectOk(Module::parse(text, module));
  EXPECT_EQ(module.getKernels(), (std::vector<std::string>{"k", "exact"}));
  Memory memory;
  Launch launch;
  launch.kernel = "k";
  launch.parameters.resize(12);
  expectOk(run(module, launch, memory));
  launch.parameters.resize(16);
  expectError(run(module, launch, memory),
              {"kernel k: expects 12 bytes of parameters, got 16"});
  launch.parameters.resize(12);
  launch.block = {65, 1, 1};
  expectError(run(module, launch, memory),
              {"expects at most 64 threads in a block, got 65"});
  launch.block = {64, 0, 1};
  expectError(run(module, launch, memory), {"a block has 0 threads"});
  launch.block = {64, 1, 1};
  launch.grid = {1, 65536, 1};
  expectError(run(module, launch, memory), {"the grid has 65536 blocks"});
  launch.grid = {1, 1, 1};
  launch.sharedBytes = (227 << 10) + 1;
  expectError(run(module, launch, memory), {"bytes of shared memory"});
  launch.sharedBytes = 0;
  launch.kernel = "none";
  expectError(run(module, launch, memory), {"has no such kernel"});
  launch.kernel = "exact";
  launch.parameters.clear();
  launch.block = {32, 2, 1};
  expectOk(run(module, launch, memory));
  launch.block = {64, 1, 1};
  expectError(run(module, launch, memory), {"expects 32 threads along"});
}

TEST(PtxErrorTest, Endings) {
  expectError(runBody("setp.eq.u32 %q1, %thread, 33;\n@%q1 trap;"),
              {"thread (33, 0, 0): traps"});
  Options options;
  options.maxInstructions = 10000;
  expectError(runBody("loop:\nbra.uni loop;", "", 64, options),
              {"has not come to an end after"});
  expectError(runBody("call.uni other;", ".func other();\n"),
              {"calls \"other\", which is not defined"});
  expectError(runBody("{ call.uni again; }",
                      ".func again()\n{ call.uni again; ret; }\n"),
              {"nested more than 64 deep"});
  expectError(runBody("targets: .branchtargets end;\nmov.u32 %r1, 1;\n"
                      "brx.idx %r1, targets;\nend:"),
              {"branches to target 1 of 1"});
}

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

TEST(PtxErrorTest, Texts) {
  // The body begins at line 17.
  expectError(runBody("wobble.u32 %r1, %r2;"),
              {"PTX, line 17: unknown instruction \"wobble.u32\""});
  expectError(runBody("add.s32 %r1, %r2;"), {"expects more operands"});
  expectError(runBody("add.s32 %r1, %l2, %r1;"),
              {"\"%l2\" has 64 bits, expects 32"});
  expectError(runBody("mov.u32 %r1, %r99;"), {"unknown operand \"%r99\""});
  expectError(runBody("bra nowhere;"), {"unknown label \"nowhere\""});
  expectError(runBody("@%r1 bra end;\nend:"), {"expects a predicate"});
  expectError(runBody("ld.global.u32 %r1, %l1;"), {"address in brackets"});
  expectError(runBody("ld.global.wide.u32 %r1, [%l1];"),
              {"unknown modifier \".wide\""});
  expectError(runBody("mov.u32 %r1 %r2;"), {"expects \",\""});
  expectError(runBody("end:\nend:"), {"\"end\" is declared twice"});
  expectError(runBody("bar.sync 0"), {"line 18", "expects \",\""});
  expectError(runBody("", ".texref t;"), {"unknown directive \".texref\""});
}

} // namespace
