//===- StreamsTest.cpp - Several streams on 1 to 4 ranks ------------------===//
#include "runtime/executor/Executor.h"
#include "test/runtime/executor/RunProgram.h"
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// y = 2 x + 1, a row of 16 at a time.
void twice(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  const auto *x = static_cast<const float *>(buffers[0]);
  auto *y = static_cast<float *>(buffers[1]);
  for (int64_t i = begin * 16; i < end * 16; ++i)
    y[i] = 2 * x[i] + 1;
}
const CleaveKernelEntry entries[] = {{"twice", twice}};
const KernelTable kernels{entries, 1};

constexpr uint64_t elements = 64;

/// Layers of h = 2 h + 1, each followed by the mean of h over the ranks, in
/// stream 1, added up in stream 0; and a second sum in stream 2.
ProgramBuilder makeProgram(uint64_t ranks, uint64_t microBatches) {
  ProgramBuilder b({{"dp", ranks}}, microBatches);
  fb::Operand x = b.allocate(elements * 4);
  b.state("x", {ranks * elements}, {{0}}, x);
  fb::Operand hidden[] = {b.allocate(elements * 4), b.allocate(elements * 4)};
  fb::Operand reduced[] = {b.allocate(elements * 4), b.allocate(elements * 4)};
  fb::Operand gathered = b.allocate(elements * 4 * ranks);
  fb::Operand last = b.allocate(elements * 4),
              all = b.allocate(elements * 4 * ranks);
  b.start(ProgramBuilder::MicroBatch);
  auto add = [&](fb::InstructionT &instruction, uint8_t stream, uint32_t event,
                 std::vector<uint32_t> waits) {
    instruction.stream = stream;
    instruction.event = event;
    instruction.waits = std::move(waits);
  };
  add(b.launch("twice", 4, {x, hidden[0]}), 0, 1, {2, 4});
  add(b.add(fb::AllReduceT{{}, elements}, {hidden[0], reduced[0]}, {0}), 1, 2,
      {1, 6});
  add(b.launch("twice", 4, {hidden[0], hidden[1]}), 0, 3, {5});
  add(b.add(fb::AllGatherT{{}, 1, elements}, {hidden[0], gathered}, {0}), 2, 4,
      {1, 7});
  add(b.add(fb::AllReduceT{{}, elements}, {hidden[1], reduced[1]}, {0}), 1, 5,
      {3, 6});
  add(b.add(fb::CopyT(), {reduced[1], last}), 0, 6, {2, 5});
  add(b.add(fb::CopyT(), {gathered, all}), 0, 7, {4});
  b.output("reduced", {elements}, {{}}, last);
  b.output("first", {elements}, {{}}, reduced[0]);
  b.output("all", {ranks * elements}, {{}}, all);
  return b;
}

float xAt(const std::vector<uint64_t> &i) { return float(i[0] % 7) - 3; }

std::vector<std::byte> run(const ProgramBuilder &b, ExecutorOptions options,
                           size_t rank) {
  std::vector<std::byte> result;
  Status status = runProgram(
      b,
      [&](Executor &executor) -> Status {
        fillShard(executor, *executor.getProgram().findState("x", "constant"),
                  xAt);
        for (int64_t step = 0; step < 3; ++step)
          CLEAVE_RETURN_IF_ERROR(executor.runStep(step));
        if (size_t(executor.getCommunicator().getRank()) != rank)
          return {};
        for (const char *name : {"reduced", "first", "all"})
          for (std::byte byte :
               getBytes(executor, *executor.getProgram().findOutput(name)))
            result.push_back(byte);
        return {};
      },
      kernels, options);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

TEST(Streams, SameBitsAsOneAfterTheOther) {
  for (uint64_t ranks : {1, 2, 4})
    for (uint64_t microBatches : {1, 5}) {
      ProgramBuilder b = makeProgram(ranks, microBatches);
      ExecutorOptions serial;
      serial.serial = true;
      std::vector<std::byte> expected = run(b, serial, ranks - 1);
      ASSERT_FALSE(expected.empty());
      float first;
      std::memcpy(&first, expected.data() + elements * 4, 4);
      float sum = 0;
      for (uint64_t r = 0; r < ranks; ++r)
        sum += 2 * xAt({r * elements}) + 1;
      EXPECT_EQ(first, sum);
      for (uint64_t seed = 0; seed < 20; ++seed) {
        ExecutorOptions options;
        options.delaySeed = seed;
        options.poison = true;
        EXPECT_EQ(run(b, options, ranks - 1), expected) << seed;
      }
    }
}

TEST(Streams, LinksTakeTimeBesideCompute) {
  ProgramBuilder b = makeProgram(2, 1);
  ExecutorOptions options;
  options.links = {{"dp", 1e12, 0.05}};
  auto measure = [&](bool serial) {
    options.serial = serial;
    auto begin = std::chrono::steady_clock::now();
    run(b, options, 0);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
        .count();
  };
  // Three steps of three collectives, over one link whatever their streams.
  EXPECT_GE(measure(true), 3 * 3 * 0.05);
  EXPECT_GE(measure(false), 3 * 3 * 0.05);
}

/// Collectives that begin together pay for one start, and compute what they do
/// one after the other.
TEST(Streams, ABucketStartsOnce) {
  constexpr uint64_t each = 16, count = 4;
  ProgramBuilder b({{"dp", 2}});
  fb::Operand x = b.allocate(count * each * 4 * 2);
  b.state("x", {count * each * 2}, {{}}, x);
  auto part = [&](uint64_t i) {
    return fb::Operand(x.offset() + i * each * 8, each * 8, 0, 0, 0);
  };
  for (uint64_t i = 0; i < count; ++i) {
    fb::Operand sum = b.allocate(each * 4);
    fb::InstructionT &scatter =
        b.add(fb::ReduceScatterT{{}, 1, int64_t(each)},
              {ProgramBuilder::in(1, part(i)), sum}, {0});
    scatter.stream = 1;
    scatter.with_next = i + 1 < count;
    b.output("sum" + std::to_string(i), {each * 2}, {{0}}, sum);
  }
  for (bool serial : {false, true}) {
    ExecutorOptions options;
    options.serial = serial;
    options.links = {{"dp", 1e12, 0.1}};
    double seconds = 0;
    Status status = runProgram(
        b,
        [&](Executor &executor) -> Status {
          fillShard(executor, *executor.getProgram().findState("x", "constant"),
                    xAt);
          auto begin = std::chrono::steady_clock::now();
          CLEAVE_RETURN_IF_ERROR(executor.runStep(0));
          uint64_t rank = uint64_t(executor.getCommunicator().getRank());
          if (rank == 0)
            seconds = std::chrono::duration<double>(
                          std::chrono::steady_clock::now() - begin)
                          .count();
          for (uint64_t i = 0; i < count; ++i) {
            std::span<std::byte> bytes = getBytes(
                executor,
                *executor.getProgram().findOutput("sum" + std::to_string(i)));
            const auto *got = reinterpret_cast<const float *>(bytes.data());
            for (uint64_t k = 0; k < each; ++k)
              EXPECT_EQ(got[k], 2 * xAt({(2 * i + rank) * each + k}))
                  << i << " " << k;
          }
          return {};
        },
        {}, options);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_GE(seconds, serial ? 0.4 : 0.1);
    if (!serial)
      EXPECT_LT(seconds, 0.4);
  }
}

/// Two axes are two links.
TEST(Streams, LinksOfSeveralAxesAreApart) {
  ProgramBuilder b({{"a", 2}, {"b", 2}});
  fb::Operand x = b.allocate(64), y = b.allocate(64), z = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.add(fb::AllReduceT{{}, 16}, {x, y}, {0}).stream = 1;
  b.add(fb::AllReduceT{{}, 16}, {x, z}, {1}).stream = 2;
  ExecutorOptions options;
  options.links = {{"a", 1e12, 0.1}, {"b", 1e12, 0.1}};
  double seconds = 0;
  Status status = runProgram(
      b,
      [&](Executor &executor) -> Status {
        auto begin = std::chrono::steady_clock::now();
        CLEAVE_RETURN_IF_ERROR(executor.runStep(0));
        if (executor.getCommunicator().getRank() == 0)
          seconds = std::chrono::duration<double>(
                        std::chrono::steady_clock::now() - begin)
                        .count();
        return {};
      },
      {}, options);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GE(seconds, 0.1);
  EXPECT_LT(seconds, 0.2);
}

/// A stream that fails ends the ranks that wait for it, with its message.
TEST(Streams, AFailureInAStreamEndsAllRanks) {
  ProgramBuilder b = makeProgram(2, 1);
  std::atomic<int> failed{0};
  Status status = runProgram(
      b,
      [&](Executor &executor) -> Status {
        if (executor.getCommunicator().getRank() == 1)
          return Status::error("rank 1 gives up");
        Status status = executor.runStep(0);
        failed += !status.ok();
        return status;
      },
      kernels);
  EXPECT_EQ(failed, 1);
  EXPECT_NE(status.message().find("rank 1 gives up"), std::string::npos)
      << status.message();
}

/// A rank whose own thread fails in a step ends, though a stream of it waits
/// for a rank that does not come.
TEST(Streams, AFailureBesideAStreamEndsTheRank) {
  ProgramBuilder b({{"dp", 2}});
  fb::Operand x = b.allocate(64), y = b.allocate(64), z = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.add(fb::AllReduceT{{}, 16}, {x, y}, {0}).stream = 1;
  b.launch("twice", 1, {x, z});
  const CleaveKernelEntry failing[] = {
      {"twice", [](void *const *, const int64_t *, int64_t, int64_t) {
         throw std::runtime_error("no memory");
       }}};
  std::atomic<int> arrived{0};
  Status status = runProgram(b,
                             [&](Executor &executor) -> Status {
                               // The second comes once the first has failed.
                               if (executor.getCommunicator().getRank() == 1)
                                 while (!executor.getCommunicator().isAborted())
                                   std::this_thread::yield();
                               ++arrived;
                               return executor.runStep(0);
                             },
                             {failing, 1});
  EXPECT_EQ(arrived, 2);
  EXPECT_NE(status.message().find("no memory"), std::string::npos)
      << status.message();
}

TEST(Streams, UnknownLinksAreNamed) {
  ProgramBuilder b = makeProgram(2, 1);
  ExecutorOptions options;
  options.links = {{"tp", 1e9, 0}};
  Status status =
      runProgram(b, [](Executor &) { return Status(); }, kernels, options);
  // Of whichever rank is the first to say so.
  EXPECT_NE(status.message().find(
                ": --emulate-link: the program has no axis \"tp\"; it has dp"),
            std::string::npos)
      << status.message();
  EmulatedLink link;
  EXPECT_TRUE(parseLink("dp=1e9,2e-5", link).ok());
  EXPECT_EQ(link, (EmulatedLink{"dp", 1e9, 2e-5}));
  for (const char *text : {"", "dp", "=1,2", "dp=1", "dp=0,1", "dp=x,1",
                           "dp=1,-1", "dp=1,61", "dp,1=2"})
    EXPECT_FALSE(parseLink(text, link).ok()) << text;
}

} // namespace
