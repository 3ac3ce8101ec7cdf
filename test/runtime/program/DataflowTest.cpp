//===- DataflowTest.cpp - No instruction reads what nothing wrote ---------===//
#include "runtime/program/Verify.h"
#include "test/runtime/program/Load.h"
#include "test/runtime/program/SamplePrograms.h"
#include <chrono>
#include <gtest/gtest.h>

using namespace cleave::test;
using cleave::runtime::Program;
using cleave::runtime::Status;

namespace {

/// Without an instruction that writes what a later one reads, the sample is
/// refused.
TEST(Dataflow, ADroppedInstructionIsMissed) {
  for (SampleIndex dropped : {SampleFill, SampleEmbedding, SampleAttention,
                              SampleAttentionGrad, SampleAllGather}) {
    ProgramBuilder b = makeSample();
    b.stage->instructions.erase(b.stage->instructions.begin() + dropped);
    b.stage->segments.clear();
    b.stage->runs.clear();
    EXPECT_REFUSED(b, "which nothing wrote") << " without " << dropped;
  }
}

/// b = a; d = c, where b and c lie in one place, one after the other.
ProgramBuilder makeReuse() {
  ProgramBuilder b({});
  fb::Operand x = b.allocate(64), shared = b.allocate(64), y = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.add(fb::CopyT(), {x, b.in(2, shared)});
  b.add(fb::CopyT(), {b.in(2, shared), y});
  b.add(fb::CopyT(), {x, b.in(4, shared)});
  b.add(fb::CopyT(), {b.in(4, shared), y});
  return b;
}

TEST(Dataflow, StaleBytesOfAnotherBufferAreNoValue) {
  EXPECT_ACCEPTED(makeReuse());
  ProgramBuilder b = makeReuse();
  b.stage->instructions.erase(b.stage->instructions.begin() + 2);
  EXPECT_REFUSED(b,
                 "instruction 2 (Copy \"test Copy\") reads operand 0 (buffer "
                 "4) at byte 64 of the arena, which buffer 2 has written");
}

TEST(Dataflow, APartlyOverwrittenBufferIsNotRead) {
  ProgramBuilder b = makeReuse();
  b.stage->instructions[2]->operands = {{0, 4, 0, 0, 0}, {64, 4, 0, 0, 4}};
  fb::Operand &read = b.stage->instructions[3]->operands[0];
  read = b.in(2, read);
  EXPECT_REFUSED(b, "at byte 64 of the arena, which buffer 4 has written");
}

TEST(Dataflow, StateIsNotOverwrittenByAnotherBuffer) {
  ProgramBuilder b({});
  fb::Operand x = b.allocate(64);
  b.state("x", {16}, {{}}, x).role = "parameter";
  b.addUpdate();
  EXPECT_ACCEPTED(b);
  fb::Operand &written = b.stage->instructions[0]->operands[0];
  written = b.in(7, written);
  EXPECT_REFUSED(b, "state \"x\" (buffer 1) is something else at the end of a "
                    "step, at byte 0 of the arena, which buffer 7 has written");
}

/// y = x; then z, the parameter, is filled.
ProgramBuilder makeUpdate() {
  ProgramBuilder b({});
  fb::Operand x = b.allocate(64), y = b.allocate(64), z = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.state("z", {16}, {{}}, z).role = "parameter";
  b.add(fb::CopyT(), {x, y});
  b.addUpdate();
  return b;
}

TEST(Dataflow, EachTrainedStateIsUpdatedOnce) {
  EXPECT_ACCEPTED(makeUpdate());
  ProgramBuilder dropped = makeUpdate();
  dropped.stage->instructions.pop_back();
  EXPECT_REFUSED(dropped, "no instruction updates byte 128 of the arena, of "
                          "parameter \"z\"");
  ProgramBuilder part = makeUpdate();
  part.stage->instructions.back()->operands = {{128, 32, 0, 0, 0}};
  EXPECT_REFUSED(part, "no instruction updates byte 160 of the arena");
  ProgramBuilder twice = makeUpdate();
  twice.add(fb::FillT(), {{128, 32, 0, 0, 0}});
  EXPECT_REFUSED(twice, "instruction 2 (Fill \"test Fill\") updates parameter "
                        "\"z\" a second time");
  ProgramBuilder constant = makeUpdate();
  constant.add(fb::FillT(), {{0, 64, 0, 0, 0}});
  EXPECT_REFUSED(constant, "writes constant \"x\", which no step changes");
}

TEST(Dataflow, StatesWithoutAStepAreUpdatedByNothing) {
  ProgramBuilder b = makeUpdate();
  b.stage->instructions.clear();
  EXPECT_ACCEPTED(b);
}

TEST(Dataflow, NoStateIsWrittenBeforeTheUpdate) {
  ProgramBuilder b = makeUpdate();
  b.cutSegments();
  b.stage->update_run = 2;
  EXPECT_REFUSED(b,
                 "instruction 1 (Fill \"test Fill\") writes parameter \"z\" in "
                 "run 1, before the update begins with run 2");
}

TEST(Dataflow, OutputsAreWritten) {
  ProgramBuilder b({});
  fb::Operand x = b.allocate(64);
  b.output("x", {16}, {{}}, x);
  EXPECT_REFUSED(b, "output \"x\" (buffer 1) is something else at the end of a "
                    "step, at byte 0 of the arena, which nothing wrote");
  b.add(fb::FillT(), {x});
  EXPECT_ACCEPTED(b);
}

/// A sum over micro-batches: the product is read by itself after the first.
/// `isLost`: in each micro-batch something else takes its place before.
ProgramBuilder makeSum(fb::Accumulate accumulate, uint64_t microBatches,
                       bool isLost = false) {
  ProgramBuilder b({}, microBatches);
  fb::Operand x = b.allocate(64), y = b.allocate(64), sum = b.allocate(64);
  b.state("x", {4, 4}, {{}, {}}, x);
  b.state("y", {4, 4}, {{}, {}}, y);
  b.start(ProgramBuilder::MicroBatch);
  if (isLost)
    b.add(fb::FillT(), {b.in(99, sum)});
  b.gemm(4, 4, 4, x, y, sum, accumulate);
  b.output("sum", {4, 4}, {{}, {}}, sum);
  return b;
}

TEST(Dataflow, SumsStartSomewhere) {
  EXPECT_ACCEPTED(makeSum(fb::Accumulate::Never, 2));
  EXPECT_ACCEPTED(makeSum(fb::Accumulate::AfterFirst, 1));
  EXPECT_ACCEPTED(makeSum(fb::Accumulate::AfterFirst, 3));
  EXPECT_REFUSED(makeSum(fb::Accumulate::Always, 2),
                 "reads operand 2 (buffer 3) at byte 128");
  EXPECT_REFUSED(makeSum(fb::Accumulate::AfterFirst, 2, /*isLost=*/true),
                 "which buffer 99 has written for micro-batch 1");
}

/// Each sum has a part of each micro-batch, and is begun once; the update
/// begins where a state is first written.
TEST(Dataflow, SumsHaveAllMicroBatchesOnce) {
  auto make = [] {
    ProgramBuilder b({}, 3);
    fb::Operand w = b.allocate(64), sum = b.allocate(64);
    b.state("w", {4, 4}, {{}, {}}, w).role = "parameter";
    b.gemm(4, 4, 4, w, w, sum, fb::Accumulate::AfterFirst);
    b.add(fb::CopyT(), {sum, w});
    for (uint64_t begin : {0, 1}) {
      b.stage->segments.push_back(std::make_unique<fb::SegmentT>());
      b.stage->segments.back()->begin = begin;
      b.stage->segments.back()->end = begin + 1;
    }
    for (uint32_t m = 0; m < 3; ++m)
      b.stage->runs.emplace_back(0, m, m == 0);
    b.stage->runs.emplace_back(1, 0, true);
    b.stage->update_run = 3;
    return b;
  };
  EXPECT_ACCEPTED(make());
  auto change = [&](auto how) {
    ProgramBuilder b = make();
    how(*b.stage);
    return b;
  };
  EXPECT_REFUSED(change([](fb::StageT &stage) {
                   stage.runs.erase(stage.runs.begin() + 1);
                   --stage.update_run;
                 }),
                 "the sum over micro-batches at byte 64 of the arena has 0 "
                 "parts of micro-batch 1 when the update begins, and 1 of "
                 "micro-batch 0");
  EXPECT_REFUSED(change([](fb::StageT &stage) {
                   fb::Run again = stage.runs[2];
                   stage.runs.insert(stage.runs.begin() + 2, again);
                   ++stage.update_run;
                 }),
                 "has 2 parts of micro-batch 2");
  EXPECT_REFUSED(change([](fb::StageT &stage) {
                   stage.runs[2] = {stage.runs[2].segment(), 2, true};
                 }),
                 "begins the sum in operand 2 (buffer 2) a second time");
  EXPECT_REFUSED(change([](fb::StageT &stage) { stage.update_run = 2; }),
                 "is the first to write a state, in run 3, and the update "
                 "begins with run 2");
}

/// Such as the norm of a gradient, which nothing else holds against the rest.
TEST(Dataflow, WhatRunsOnceReadsWholeSums) {
  auto make = [](size_t early) {
    ProgramBuilder b({}, 3);
    fb::Operand w = b.allocate(64), sum = b.allocate(64), norm = b.allocate(64);
    b.state("w", {4, 4}, {{}, {}}, w).role = "parameter";
    b.output("norm", {4, 4}, {{}, {}}, norm);
    b.gemm(4, 4, 4, w, w, sum, fb::Accumulate::AfterFirst);
    b.add(fb::CopyT(), {sum, norm});
    b.add(fb::CopyT(), {sum, w});
    for (uint64_t begin : {0, 1, 2}) {
      b.stage->segments.push_back(std::make_unique<fb::SegmentT>());
      b.stage->segments.back()->begin = begin;
      b.stage->segments.back()->end = begin + 1;
    }
    for (uint32_t m = 0; m < 3; ++m)
      b.stage->runs.emplace_back(0, m, m == 0);
    b.stage->runs.insert(b.stage->runs.begin() + long(3 - early),
                         fb::Run(1, 0, true));
    b.stage->runs.emplace_back(2, 0, true);
    b.stage->update_run = 4;
    return b;
  };
  EXPECT_ACCEPTED(make(0));
  for (size_t early : {1, 2})
    EXPECT_REFUSED(make(early),
                   "instruction 1 (Copy \"test Copy\") reads operand 0 (buffer "
                   "2), a sum over micro-batches, before run 3 adds to it");
}

/// Tokens are their micro-batch's.
TEST(Dataflow, TokensOfAnotherMicroBatchAreNotRead) {
  auto make = [](uint32_t places, uint64_t from) {
    ProgramBuilder b({}, 3);
    b.program.seq_len = 16;
    fb::Operand tokens = b.allocate(192), y = b.allocate(64);
    b.stage->tokens = std::make_unique<fb::Operand>(tokens);
    b.start(ProgramBuilder::MicroBatch);
    b.add(fb::CopyT(),
          {fb::Operand(tokens.offset() + from, 64, 64, places, 0), y});
    return b;
  };
  EXPECT_ACCEPTED(make(3, 0));
  EXPECT_REFUSED(make(2, 0), "for micro-batch 2");
  EXPECT_REFUSED(make(2, 64), "for micro-batch 0");
}

/// A copy into a place for each micro-batch, and of all of them.
ProgramBuilder makeWhole(ProgramBuilder::Part part) {
  ProgramBuilder b({}, 3);
  fb::Operand x = b.allocate(64, 3), y = b.allocate(64), z = b.allocate(192);
  b.state("y", {16}, {{}}, y);
  b.start(ProgramBuilder::MicroBatch);
  b.add(fb::CopyT(), {y, x});
  b.start(part);
  b.add(fb::CopyT(), {fb::Operand(x.offset(), 192, 0, 0, 0), z});
  return b;
}

TEST(Dataflow, AllPlacesOfAWholeAreWritten) {
  EXPECT_ACCEPTED(makeWhole(ProgramBuilder::After));
  // While the micro-batches run, they are not all there yet.
  EXPECT_REFUSED(makeWhole(ProgramBuilder::MicroBatch),
                 "reads operand 0 (buffer 1) at byte 64 of the arena, which "
                 "nothing wrote for micro-batch 0");
}

/// Micro-batches that go forward, and back after `ahead` others went forward,
/// and keep a value in `places` meanwhile: a pipeline's stage.
ProgramBuilder makePipeline(uint32_t microBatches, uint32_t ahead,
                            uint64_t places) {
  ProgramBuilder b({}, microBatches);
  fb::Operand x = b.allocate(64), kept = b.allocate(64, places),
              sum = b.allocate(64), scratch = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.add(fb::CopyT(), {x, kept});
  b.add(fb::CopyT(), {x, scratch});
  b.add(fb::CopyT(), {kept, scratch});
  b.add(fb::CopyT(), {scratch, sum});
  b.output("sum", {16}, {{}}, sum);
  fb::StageT &p = *b.stage;
  for (uint64_t begin : {0, 2}) {
    p.segments.push_back(std::make_unique<fb::SegmentT>());
    p.segments.back()->begin = begin;
    p.segments.back()->end = begin + 2;
  }
  for (uint32_t m = 0; m < microBatches + ahead; ++m) {
    if (m < microBatches)
      p.runs.emplace_back(0, m, m == 0);
    if (m >= ahead)
      p.runs.emplace_back(1, m - ahead, m == ahead);
  }
  p.update_run = p.runs.size();
  return b;
}

TEST(Dataflow, AsManyPlacesAsMicroBatchesInFlight) {
  for (uint32_t microBatches : {1, 2, 5, 40, 41})
    for (uint32_t ahead : {0, 1, 3, 4})
      // None: the buffer is as good as one place.
      for (uint64_t places = 0; places <= std::min(microBatches, 7u);
           ++places) {
        SCOPED_TRACE(std::to_string(microBatches) + " micro-batches, " +
                     std::to_string(ahead) + " ahead, " +
                     std::to_string(places) + " places");
        ProgramBuilder b = makePipeline(microBatches, ahead, places);
        uint64_t inFlight = std::min<uint64_t>(microBatches, ahead + 1);
        if (std::max<uint64_t>(places, 1) >= inFlight)
          EXPECT_ACCEPTED(b);
        else
          EXPECT_REFUSED(b, "reads operand 0 (buffer 2) at byte ");
      }
}

/// Runs that are skipped because they repeat are as if they were gone through:
/// one that differs, wherever it is, is found.
TEST(Dataflow, AWrongRunIsFound) {
  for (size_t wrong = 0; wrong < 40; ++wrong) {
    ProgramBuilder swapped = makePipeline(20, 2, 3);
    std::swap(swapped.stage->runs[wrong],
              swapped.stage->runs[(wrong + 11) % 40]);
    EXPECT_FALSE(load(swapped).ok()) << wrong;
    ProgramBuilder other = makePipeline(20, 2, 3);
    fb::Run &run = other.stage->runs[wrong];
    run = fb::Run(run.segment(), (run.micro_batch() + 7) % 20, run.first());
    EXPECT_FALSE(load(other).ok()) << wrong;
  }
}

/// A kernel that writes the halves of each row through two accesses.
ProgramBuilder makeHalves() {
  ProgramBuilder b({});
  fb::Operand x = b.allocate(128), y = b.allocate(128), z = b.allocate(128);
  b.state("x", {4, 8}, {{}, {}}, x);
  b.launch("halves", 4, {x, y, y});
  fb::KernelT &kernel = *b.program.kernels[0];
  kernel.columns = 4;
  kernel.inputs = 1;
  kernel.accesses = {{0, 1, 0, 8, 1, fb::DType::F32},
                     {0, 1, 0, 8, 1, fb::DType::F32},
                     {4, 1, 0, 8, 1, fb::DType::F32}};
  b.add(fb::CopyT(), {y, z});
  return b;
}

TEST(Dataflow, HalvesMakeAWhole) {
  EXPECT_ACCEPTED(makeHalves());
  ProgramBuilder b = makeHalves();
  // Some channels of each row are left out.
  b.program.kernels[0]->columns = 3;
  EXPECT_REFUSED(b, "writes a part of operand 1 (buffer 3), of which the rest "
                    "is something at byte 128 of the arena, which nothing "
                    "wrote");
  auto fill = std::make_unique<fb::InstructionT>();
  fill->work.Set(fb::FillT());
  fill->operands = {b.stage->instructions[0]->operands[1]};
  b.stage->instructions.insert(b.stage->instructions.begin(), std::move(fill));
  EXPECT_ACCEPTED(b);
}

TEST(Dataflow, AnAccumulatingKernelReadsItsOutputs) {
  ProgramBuilder b({});
  fb::Operand x = b.allocate(64), y = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.launch("add", 16, {x, y});
  EXPECT_ACCEPTED(b);
  b.program.kernels[0]->accumulate = fb::Accumulate::Always;
  EXPECT_REFUSED(b, "reads operand 1 (buffer 2)");
  b.program.kernels[0]->accumulate = fb::Accumulate::AfterFirst;
  EXPECT_ACCEPTED(b);
}

/// As many instructions as the largest model has, in a small part of a second.
TEST(Dataflow, IsFast) {
  ProgramBuilder b({}, 8);
  fb::Operand x = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  std::vector<fb::Operand> buffers;
  for (int i = 0; i < 2000; ++i)
    buffers.push_back(b.allocate(64));
  b.start(ProgramBuilder::MicroBatch);
  const int count = 30000;
  fb::Operand last = x;
  for (int i = 0; i < count; ++i) {
    fb::Operand next = buffers[size_t(i) * 997 % buffers.size()];
    b.add(fb::CopyT(), {last, next});
    last = next;
  }
  std::vector<uint8_t> bytes = b.pack();
  const fb::Program *program = fb::GetProgram(bytes.data());
  auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(cleave::runtime::verifyDataflow({*program, 0}).ok());
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  std::printf("%d instructions, 8 micro-batches: %.1f ms\n", count,
              seconds * 1e3);
  EXPECT_LT(seconds, 1.0);
}

} // namespace
