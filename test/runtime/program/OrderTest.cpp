//===- OrderTest.cpp - Streams that share bytes wait for each other -------===//
//
// The check of a loaded program and that of the compiler (lib/Streams) are two
// pieces of code with one meaning. Both are compared with a third: all
// executions of instructions as a graph, and whether there is a path between
// two of them.
//
//===----------------------------------------------------------------------===//
#include "cleave/Streams/Order.h"
#include "runtime/program/Verify.h"
#include "test/runtime/program/EveryPair.h"
#include "test/runtime/program/Load.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <gtest/gtest.h>
#include <random>

using namespace cleave::test;
using cleave::runtime::Stage;
using cleave::runtime::Status;

namespace {

/// A program of copies as lib/Streams has it.
cleave::StreamProgram makeModel(const ProgramBuilder &builder) {
  const fb::StageT &stage = *builder.stage;
  cleave::StreamProgram model;
  for (const auto &instruction : stage.instructions) {
    cleave::StreamOp &op = model.ops.emplace_back();
    op.stream = instruction->stream;
    op.event = instruction->event;
    op.waits.assign(instruction->waits.begin(), instruction->waits.end());
    for (size_t o = 0; o < 2; ++o) {
      const fb::Operand &operand = instruction->operands[o];
      op.accesses.push_back(
          {int64_t(operand.offset()), int64_t(operand.bytes()),
           int64_t(operand.places()), int64_t(operand.stride()), o > 0});
    }
  }
  for (const fb::Run &run : stage.runs)
    model.runs.push_back({int64_t(stage.segments[run.segment()]->begin),
                          int64_t(stage.segments[run.segment()]->end),
                          run.micro_batch()});
  model.updateRun = int64_t(stage.update_run);
  return model;
}

/// A program of copies, and the same as lib/Streams has it.
struct Case {
  explicit Case(ProgramBuilder made)
      : builder(std::move(made)), model(makeModel(builder)) {}

  ProgramBuilder builder;
  cleave::StreamProgram model;

  Status verify() const {
    std::vector<uint8_t> bytes = builder.pack();
    return cleave::runtime::verifyOrder({*fb::GetProgram(bytes.data()), 0});
  }
};

/// By every pair of accesses.
bool hasRace(const ProgramBuilder &builder) {
  std::vector<uint8_t> bytes = builder.pack();
  return cleave::test::hasRace(Stage(*fb::GetProgram(bytes.data()), 0));
}

class RandomPrograms {
public:
  explicit RandomPrograms(uint64_t seed) : random(seed) {}

  Case make();

private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }

  std::mt19937_64 random;
};

Case RandomPrograms::make() {
  uint64_t microBatches = uint64_t(pick(1, 14));
  ProgramBuilder b({}, microBatches);
  // Buffers, some of which share bytes. A place for each micro-batch is no one
  // else's, as in programs of the compiler.
  std::vector<fb::Operand> buffers;
  for (int64_t i = pick(3, 8); i > 0; --i) {
    uint64_t bytes = 64 * uint64_t(pick(1, 3));
    int64_t kind = pick(0, 5);
    if (kind == 0) {
      buffers.push_back(b.allocate(bytes, microBatches));
      continue;
    }
    uint64_t places = kind == 1 ? std::min<uint64_t>(2, microBatches) : 0;
    if (pick(0, 1) && !buffers.empty() &&
        buffers.back().places() < microBatches)
      buffers.emplace_back(buffers.back().offset(), 64, 0, 0, 0);
    else
      buffers.push_back(
          b.allocate(bytes, places, 64 * uint64_t(places ? pick(0, 1) : 0)));
  }
  int64_t streams = pick(1, 3), segments = pick(1, 3);
  uint32_t events = 0;
  for (int64_t s = 0; s < segments; ++s) {
    for (int64_t i = pick(1, 6); i > 0; --i) {
      const fb::Operand
          &in = buffers[size_t(pick(0, int64_t(buffers.size()) - 1))],
          &out = buffers[size_t(pick(0, int64_t(buffers.size()) - 1))];
      fb::InstructionT &copy = b.add(fb::CopyT(), {in, out});
      copy.stream = uint8_t(pick(0, streams - 1));
      copy.event = ++events;
    }
    b.cutSegment("segment " + std::to_string(s));
  }
  for (auto &instruction : b.stage->instructions)
    for (uint32_t event = 1; event <= events; ++event)
      if (pick(0, int64_t(events)) < 3)
        instruction->waits.push_back(event);
  // Each segment for all micro-batches, or all segments for each; once as the
  // orders of pipelines have it.
  std::vector<fb::Run> runs;
  int64_t order = pick(0, 2);
  for (uint64_t m = 0; m < microBatches; ++m)
    for (int64_t s = 0; s < segments; ++s)
      runs.emplace_back(uint32_t(s), uint32_t(m), m == 0);
  auto getKey = [&](const fb::Run &run) {
    uint32_t m = run.micro_batch(), s = run.segment();
    uint32_t first = order == 0 ? m : order == 1 ? s : m + 2 * s;
    return std::tuple(first, m, s);
  };
  std::sort(runs.begin(), runs.end(), [&](const fb::Run &x, const fb::Run &y) {
    return getKey(x) < getKey(y);
  });
  b.stage->runs = runs;
  b.stage->update_run = uint64_t(pick(0, 3) ? int64_t(runs.size())
                                            : pick(0, int64_t(runs.size())));
  return Case(std::move(b));
}

TEST(Order, TwoChecksAndEveryPairAgree) {
  int races = 0, clean = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Case one = RandomPrograms(seed).make();
    bool expected = hasRace(one.builder);
    (expected ? races : clean) += 1;
    Status status = one.verify();
    EXPECT_EQ(!status.ok(), expected) << "seed " << seed << status.message();
    EXPECT_EQ(cleave::findRace(one.model).has_value(), expected)
        << "seed " << seed;
  }
  EXPECT_GT(races, 200);
  EXPECT_GT(clean, 200);
}

/// A copy in the last stream, before runs in which each stream but that waits,
/// behind an instruction whose event the stream before it waits for, for what
/// the next stream did in the micro-batch before. So the first stream knows of
/// the copy after two runs for each stream on the way, and not earlier; then it
/// writes what the copy reads.
Case makeChain(int64_t streams, uint64_t microBatches) {
  ProgramBuilder b({}, microBatches);
  auto add = [&](int64_t stream, fb::Operand in, fb::Operand out) -> auto & {
    fb::InstructionT &copy = b.add(fb::CopyT(), {in, out});
    copy.stream = uint8_t(stream);
    return copy;
  };
  fb::Operand read = b.allocate(64);
  add(streams - 1, read, b.allocate(64));
  b.cutSegment("before");
  for (int64_t s = 0; s < streams; ++s) {
    add(s, b.allocate(64), b.allocate(64)).event = uint32_t(s + 1);
    if (s + 1 < streams)
      add(s, b.allocate(64), b.allocate(64)).waits = {uint32_t(s + 2)};
  }
  b.cutSegment("inside");
  add(0, b.allocate(64), read);
  b.cutSegment("behind");
  b.stage->runs = {{0, 0, true}};
  for (uint32_t m = 0; m < microBatches; ++m)
    b.stage->runs.emplace_back(1, m, m == 0);
  b.stage->runs.emplace_back(2, 0, true);
  b.stage->update_run = b.stage->runs.size();
  return Case(std::move(b));
}

TEST(Order, WhatComesAcrossManyRunsIsKnown) {
  for (int64_t streams = 2; streams <= cleave::maxStreams; ++streams) {
    int64_t enough = 2 * (streams - 1);
    for (int64_t runs :
         {enough - 1, enough, enough + 1, 2 * enough + 9, int64_t(99)}) {
      Case one = makeChain(streams, uint64_t(runs));
      bool expected = runs < enough;
      EXPECT_EQ(hasRace(one.builder), expected) << streams << " " << runs;
      EXPECT_EQ(!one.verify().ok(), expected) << streams << " " << runs;
      EXPECT_EQ(cleave::findRace(one.model).has_value(), expected)
          << streams << " " << runs;
    }
  }
}

/// What addWaits adds is enough, and nothing is added to what is enough.
TEST(Order, AddedWaitsOrderAll) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Case one = RandomPrograms(seed).make();
    bool raced = hasRace(one.builder);
    for (auto &op : one.model.ops)
      op.event = op.waits.empty() ? op.event : 0; // some have none yet
    for (auto &op : one.model.ops)
      op.waits.clear();
    cleave::addWaits(one.model);
    size_t waits = 0;
    for (size_t i = 0; i < one.model.ops.size(); ++i) {
      fb::InstructionT &instruction = *one.builder.stage->instructions[i];
      instruction.event = uint32_t(one.model.ops[i].event);
      instruction.waits.assign(one.model.ops[i].waits.begin(),
                               one.model.ops[i].waits.end());
      waits += instruction.waits.size();
    }
    EXPECT_FALSE(hasRace(one.builder)) << "seed " << seed;
    EXPECT_TRUE(one.verify().ok()) << one.verify().message();
    cleave::StreamProgram again = one.model;
    cleave::addWaits(again);
    for (size_t i = 0; i < again.ops.size(); ++i)
      EXPECT_EQ(again.ops[i].waits, one.model.ops[i].waits);
    if (raced)
      EXPECT_GT(waits, 0u) << "seed " << seed;
  }
}

/// A program whose waits are enough, with one wait dropped, one instruction in
/// another stream, one event recorded elsewhere or one run moved, is refused
/// exactly where two accesses race then.
TEST(Order, MutatedOrdersAreRefused) {
  std::mt19937_64 random(1);
  auto pick = [&](size_t count) { return size_t(random() % count); };
  int mutants = 0, refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Case one = RandomPrograms(seed).make();
    if (hasRace(one.builder)) {
      cleave::addWaits(one.model);
      for (size_t i = 0; i < one.model.ops.size(); ++i)
        one.builder.stage->instructions[i]->waits.assign(
            one.model.ops[i].waits.begin(), one.model.ops[i].waits.end());
    }
    auto check = [&] {
      ++mutants;
      bool races = hasRace(one.builder);
      refused += races;
      EXPECT_EQ(!one.verify().ok(), races) << "seed " << seed;
    };
    auto &instructions = one.builder.stage->instructions;
    for (auto &instruction : instructions)
      for (size_t i = 0; i < instruction->waits.size(); ++i) {
        std::vector<uint32_t> old = instruction->waits;
        instruction->waits.erase(instruction->waits.begin() + long(i));
        check();
        instruction->waits = old;
      }
    for (int i = 0; i < 3; ++i) {
      auto &instruction = instructions[pick(instructions.size())];
      std::swap(instruction->event, instructions[0]->event);
      check();
      std::swap(instruction->event, instructions[0]->event);
      uint8_t old = std::exchange(instruction->stream, uint8_t(pick(3)));
      check();
      instruction->stream = old;
      auto &runs = one.builder.stage->runs;
      size_t a = pick(runs.size()), b = pick(runs.size());
      std::swap(runs[a], runs[b]);
      check();
      std::swap(runs[a], runs[b]);
    }
  }
  std::printf("%d mutants, %d of them race and are refused\n", mutants,
              refused);
  EXPECT_GT(refused, 1000);
}

/// a = x in stream 1; y = a in stream 0, which waits.
ProgramBuilder makeHandOver() {
  ProgramBuilder b({}, 2);
  fb::Operand x = b.allocate(64), a = b.allocate(64), y = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.start(ProgramBuilder::MicroBatch);
  fb::InstructionT &first = b.add(fb::CopyT(), {x, a});
  first.stream = 1;
  first.event = 1;
  first.waits = {2};
  fb::InstructionT &second = b.add(fb::CopyT(), {a, y});
  second.event = 2;
  second.waits = {1};
  return b;
}

TEST(Order, ADroppedWaitIsRefused) {
  EXPECT_TRUE(load(makeHandOver()).ok()) << load(makeHandOver()).message();
  ProgramBuilder b = makeHandOver();
  b.stage->instructions[1]->waits.clear();
  EXPECT_REFUSED(b, "instruction 1 (Copy \"test Copy\") of stream 0 reads byte "
                    "64 of the arena for micro-batch 0 and does not wait for "
                    "instruction 0 (Copy \"test Copy\") of stream 1, which "
                    "writes it before");
  ProgramBuilder second = makeHandOver();
  second.stage->instructions[0]->waits.clear();
  EXPECT_REFUSED(second,
                 "instruction 0 (Copy \"test Copy\") of stream 1 writes byte "
                 "64 of the arena for micro-batch 1 and does not wait for "
                 "instruction 1 (Copy \"test Copy\") of stream 0, which "
                 "reads it before");
}

TEST(Order, EventsAndStreamsAreThere) {
  ProgramBuilder b = makeHandOver();
  b.stage->instructions[0]->stream = 8;
  EXPECT_REFUSED(b, "is of stream 8, expects one below 8");
  ProgramBuilder second = makeHandOver();
  second.stage->instructions[0]->event = 2;
  EXPECT_REFUSED(second,
                 "instruction 1 (Copy \"test Copy\") records event 2, as "
                 "does instruction 0 (Copy \"test Copy\")");
  ProgramBuilder third = makeHandOver();
  third.stage->instructions[0]->event = 3;
  EXPECT_REFUSED(third, "records event 3, expects at most as many as the 2 "
                        "instructions");
  ProgramBuilder fourth = makeHandOver();
  fourth.stage->instructions[1]->event = 0;
  EXPECT_REFUSED(fourth,
                 "instruction 0 (Copy \"test Copy\") waits for event 2, "
                 "which no instruction records");
}

} // namespace
