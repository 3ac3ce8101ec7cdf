//===- BucketsTest.cpp - Collectives that begin together ------------------===//
#include "test/runtime/program/ProgramBuilder.h"
#include <functional>
#include <gtest/gtest.h>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// Three AllReduces in one bucket, of 64 bytes each.
ProgramBuilder makeBucket() {
  ProgramBuilder b({{"dp", 2}, {"tp", 2}});
  for (int i = 0; i < 3; ++i) {
    fb::Operand x = b.allocate(64), y = b.allocate(64);
    b.state("x" + std::to_string(i), {16}, {{}}, x);
    fb::InstructionT &reduce = b.add(fb::AllReduceT{{}, 16}, {x, y}, {0});
    reduce.stream = 1;
    reduce.with_next = i < 2;
  }
  return b;
}

std::string getError(const ProgramBuilder &builder) {
  Program program;
  Status status = builder.load(program);
  return status.ok() ? "" : status.message();
}

TEST(Buckets, AreLoaded) { EXPECT_EQ(getError(makeBucket()), ""); }

TEST(Buckets, WhatCannotBeginTogetherIsRefused) {
  using Instructions = std::vector<std::unique_ptr<fb::InstructionT>>;
  const std::pair<const char *, std::function<void(Instructions &)>> cases[] = {
      {"instruction 2 (AllReduce \"test AllReduce\") begins together with the "
       "next one, expects one behind it in its segment",
       [](Instructions &all) { all[2]->with_next = true; }},
      {"instruction 1 (AllReduce \"test AllReduce\") begins together with "
       "instruction 0 (AllReduce \"test AllReduce\"), expects its opcode, "
       "group "
       "and stream",
       [](Instructions &all) { all[1]->group = {1}; }},
      {"expects its opcode, group and stream",
       [](Instructions &all) { all[2]->stream = 2; }},
      {"expects its opcode, group and stream",
       [](Instructions &all) {
         all[1]->work.Set(fb::ReduceScatterT{{}, 1, 16});
         all[1]->group = {};
       }},
      {"begins together with the next one, expects AllReduce, AllGather or "
       "ReduceScatter",
       [](Instructions &all) {
         all[0]->work.Set(fb::CopyT());
         all[0]->group = {};
       }},
      {"instruction 2 (AllReduce \"test AllReduce\") begins together with "
       "instruction 0 (AllReduce \"test AllReduce\"), and one writes what the "
       "other accesses",
       [](Instructions &all) { all[2]->operands[1] = all[0]->operands[1]; }},
      {"and one writes what the other accesses",
       [](Instructions &all) { all[1]->operands[0] = all[0]->operands[1]; }},
  };
  for (const auto &[message, change] : cases) {
    ProgramBuilder builder = makeBucket();
    change(builder.stage->instructions);
    std::string error = getError(builder);
    EXPECT_NE(error.find(message), std::string::npos) << error;
  }
}

TEST(Buckets, HaveALimit) {
  ProgramBuilder b({{"dp", 2}});
  fb::Operand x = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  for (uint64_t i = 0; i <= limits::bucket; ++i)
    b.add(fb::AllReduceT{{}, 16}, {x, b.allocate(64)}, {0}).with_next =
        i < limits::bucket;
  EXPECT_NE(getError(b).find("begins together with more than 63 others"),
            std::string::npos);
}

TEST(Buckets, AreOfOneStage) {
  ProgramBuilder b({{"pp", 2}, {"dp", 1}});
  b.program.stage_axis = 0;
  for (int stage = 0; stage < 2; ++stage) {
    if (stage > 0)
      b.beginStage();
    fb::Operand x = b.allocate(64);
    b.state("x", {16}, {{}}, x);
    for (int i = 0; i < 2; ++i)
      b.add(fb::AllReduceT{{}, 16}, {x, b.allocate(64)}, {0}).with_next =
          i == 0;
  }
  EXPECT_NE(getError(b).find("other stages are in its group"),
            std::string::npos);
}

} // namespace
