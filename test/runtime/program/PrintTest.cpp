//===- PrintTest.cpp - Programs as text -----------------------------------===//
#include "runtime/program/Print.h"
#include "test/runtime/program/SamplePrograms.h"
#include <gtest/gtest.h>

using namespace cleave::test;
using namespace cleave::runtime;

namespace {

class Print : public testing::Test {
protected:
  Print() {
    Status status = makeSample().load(program);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Program program;
};

TEST_F(Print, InstructionsNameTheirFields) {
  auto print = [&](SampleIndex index) {
    std::string line = printInstruction(program.getStage(0), index);
    // Offsets depend on the sizes of the workspaces.
    size_t open = line.find(" ("), close = line.find(')');
    return open == std::string::npos
               ? line
               : line.substr(0, open) + line.substr(close + 1);
  };
  EXPECT_EQ(print(SampleSchedule),
            "forward Schedule \"test Schedule\" kind=cosine, warmup_steps=2, "
            "decay_steps=10, stable_steps=0, lr=0.001, min_lr=0.0001, "
            "beta1=0.9, beta2=0.95");
  EXPECT_EQ(print(SampleGemm),
            "forward Gemm \"test Gemm\" m=8, n=8, k=8, trans_a=0, trans_b=0, "
            "type_a=f32, type_b=f32, type_c=f32, accumulate=never, has_bias=0");
  EXPECT_EQ(print(SampleAllReduce),
            "forward AllReduce \"test AllReduce\" elements=64, type=f32, "
            "reduction=sum over {dp}");
  EXPECT_EQ(print(SampleLaunch),
            "forward Launch square \"test Launch\" over {tp}");
  EXPECT_EQ(printInstruction(program.getStage(0), SampleEmbedding),
            "forward Embedding \"test Embedding\" (0+32*2, 128+256, 512+256) "
            "rows=8, width=8, table_rows=8, type_table=f32, type_out=f32 over "
            "{tp}");
}

TEST_F(Print, SaysEverythingAsked) {
  std::string text = printProgram(program);
  for (const char *words :
       {"program of format version 9\n", "dp=2 x tp=2, 4 ranks of 2 threads\n",
        "CPU           x86-64-v3, with Avx2\n",
        "8 sequences of 4 tokens, 2 micro-batches, split over {dp}\n",
        "\nmemory at the peak\n", "100.0%  everything\n",
        "parameter embedding.weight 15(16)x8 [{tp}, {}]\n",
        "constant rope.cos 4x4 [{}, {}]\n", "hidden 32x8 [{dp, tp}, {}]\n",
        "grad.embedding.weight 16x8 [{tp}, {}] partial {dp}\n",
        "             8         8         1         1  square\n",
        "\nruns\n     0  before\n     1  micro_batch, micro-batches 0 to 1\n"
        "     3  after\n     4  update, begins the update\n",
        "        micro_batch:\n     2    forward Embedding"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_EQ(text.find("\nplan\n"), std::string::npos);
  PrintOptions options;
  options.plan = true;
  options.instructions = false;
  text = printProgram(program, options);
  EXPECT_NE(text.find("\nplan\n{}\n"), std::string::npos);
  EXPECT_EQ(text.find("\ninstructions\n"), std::string::npos);
}

TEST_F(Print, SaysHowFarApartPlacesAre) {
  ProgramBuilder builder({}, 2);
  builder.start(ProgramBuilder::MicroBatch);
  builder.add(fb::FillT(), {builder.allocate(60, 2, 4)});
  ASSERT_TRUE(builder.load(program).ok());
  EXPECT_EQ(printInstruction(program.getStage(0), 0),
            "forward Fill \"test Fill\" (0+60*2/64)");
}

TEST_F(Print, EscapesNames) {
  ProgramBuilder builder({});
  builder.add(fb::FillT(), {builder.allocate(64)}).name = "\x1b[31m%s\n";
  ASSERT_TRUE(builder.load(program).ok());
  EXPECT_EQ(printInstruction(program.getStage(0), 0),
            "forward Fill \"\\x1b[31m%s\\x0a\" (0+64)");
}

} // namespace
