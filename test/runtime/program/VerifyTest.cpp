//===- VerifyTest.cpp - Which programs are refused, and how ---------------===//
#include "test/runtime/program/SamplePrograms.h"
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace cleave::test;
using cleave::runtime::Program;
using cleave::runtime::Status;

namespace {

TEST(Verify, AcceptsEveryOpcode) {
  ProgramBuilder builder = makeSample();
  Program program;
  Status status = builder.load(program);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(program.getWorldSize(), 4);
  EXPECT_EQ(program.getStage(0).getInstructionCount(), 16u);
  EXPECT_EQ(program.getStage(0)
                .getInstruction(SampleLaunch)
                .work_as_Launch()
                ->kernel(),
            0);
  EXPECT_NE(program.findState("rope.cos", "constant"), nullptr);
  EXPECT_EQ(program.findState("rope.cos"), nullptr);
  EXPECT_NE(program.findOutput("hidden"), nullptr);
  EXPECT_EQ(program.findOutput("loss"), nullptr);
}

TEST(Verify, AcceptsOneRankWithoutAxes) {
  ProgramBuilder builder({});
  builder.add(fb::FillT(), {builder.allocate(4)});
  Program program;
  Status status = builder.load(program);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(program.getWorldSize(), 1);
}

/// One way to break the sample, and words of the message it must give.
struct Broken {
  const char *words;
  std::function<void(fb::ProgramT &)> breakIt;
};

fb::Operand at(const fb::Operand &operand, uint64_t offset) {
  return {offset, operand.bytes(), operand.stride(), operand.places(), 0};
}
fb::Operand sized(const fb::Operand &operand, uint64_t bytes) {
  return {operand.offset(), bytes, operand.stride(), operand.places(), 0};
}

/// One that no table is of.
void setOpcode(fb::InstructionT &instruction, uint8_t code) {
  instruction.work.Reset();
  instruction.work.type = Opcode(code);
}

const double nan = std::numeric_limits<double>::quiet_NaN();

// Each lambda reads as: p is the program, s its stage; i(x) instruction x.
#define BREAK(words, ...)                                                      \
  Broken {                                                                     \
    words, [](fb::ProgramT &p) {                                               \
      [[maybe_unused]] fb::StageT &s = *p.stages[0];                           \
      [[maybe_unused]] auto i = [&](int x) -> fb::InstructionT & {             \
        return *s.instructions[x];                                             \
      };                                                                       \
      __VA_ARGS__;                                                             \
    }                                                                          \
  }

const Broken programs[] = {
    BREAK("version is 3, expects 9", p.version = 3),
    BREAK("threads is 0", p.threads = 0),
    BREAK("threads is 5000", p.threads = 5000),
    BREAK("isa is 9, expects 0 to 2", p.isa = fb::Isa(9)),
    BREAK("flops_per_step", p.flops_per_step = nan),
    BREAK("mesh axis 1 is \"dp\", expects a name of its own",
          p.axes[1]->name = "dp"),
    BREAK("mesh axis 0 is \"\"", p.axes[0]->name = ""),
    BREAK("mesh axis \"dp\" is 0", p.axes[0]->size = 0),
    BREAK("mesh axis \"tp\"", p.axes[1]->size = uint64_t(1) << 63),
    BREAK(
        "number of mesh axes is 17",
        for (int n = 0; n < 15; ++n) {
          p.axes.push_back(std::make_unique<fb::AxisT>());
          p.axes.back()->name = "a" + std::to_string(n);
          p.axes.back()->size = 1;
        }),
    BREAK("arena_bytes is 0", s.arena_bytes = 0),
    BREAK("arena_bytes", s.arena_bytes = ~uint64_t(0)),
    BREAK("lower_bound_bytes", s.lower_bound_bytes = s.arena_bytes + 1),
    BREAK("sum is", s.memory[0]->bytes -= 1),
    BREAK("\"everything\"",
          s.memory.push_back(std::make_unique<fb::CategoryT>(*s.memory[0]));
          s.memory[0]->bytes = ~uint64_t(0);
          s.memory[0]->name = "more", s.memory[1]->bytes = 10),
    BREAK("vocab is 0", p.vocab = 0),
    BREAK("seq_len is 0", p.seq_len = 0),
    BREAK("seq_len", p.seq_len = ~uint64_t(0)),
    BREAK("micro_batches is 0", p.micro_batches = 0),
    BREAK("global_batch is 0", p.global_batch = 0),
    BREAK("global_batch is 7, expects a multiple of the 4 parts",
          p.global_batch = 7),
    BREAK("batch_axes is axis 9", p.batch_axes = {9}),
    BREAK("batch_axes is axis 0", p.batch_axes = {0, 0}),
    BREAK("tokens operand is 64 bytes, expects 128", p.global_batch = 16),
    BREAK("targets operand is at offset",
          *s.targets = at(*s.targets, s.arena_bytes)),
    BREAK("tokens operand is at offset 4", *s.tokens = at(*s.tokens, 4)),
    BREAK("kernel 0 is unnamed", p.kernels[0]->symbol = ""),
    BREAK("kernel 0 \"square\" is of 0 rows", p.kernels[0]->rows = 0),
    BREAK("of 18446744073709551615 rows", p.kernels[0]->rows = ~uint64_t(0)),
    BREAK("grain 0", p.kernels[0]->grain = 0),
    BREAK("of 0 columns", p.kernels[0]->columns = 0),
    BREAK("of mode 3", p.kernels[0]->mode = fb::KernelMode(3)),
    BREAK("of 3 inputs, expects at most its 2 accesses",
          p.kernels[0]->inputs = 3),
    BREAK("of 0 inputs", p.kernels[0]->inputs = 0, p.kernels[0]->accesses = {}),
    BREAK("accumulate 3", p.kernels[0]->accumulate = fb::Accumulate(3)),
    BREAK("row_div 0",
          p.kernels[0]->accesses[0] = {0, 0, 0, 8, 1, fb::DType::F32}),
    BREAK("col_stride 2",
          p.kernels[0]->accesses[0] = {0, 1, 0, 8, 2, fb::DType::F32}),
    BREAK("type 3", p.kernels[0]->accesses[0] = {0, 1, 0, 8, 1, fb::DType(3)}),
    // Nothing would bound them.
    BREAK("of 8 rows and 8 columns, expects an access to another element",
          p.kernels[0]->accesses.assign(
              2, fb::Access(0, 2, 0, 8, 1, fb::DType::F32))),
    BREAK("of 8 rows and 8 columns, expects an access to another element",
          p.kernels[0]->accesses.assign(
              2, fb::Access(0, 1, 8, 8, 1, fb::DType::F32))),
    BREAK("of 8 rows and 8 columns, expects an access to another element",
          p.kernels[0]->accesses.assign(
              2, fb::Access(0, 1, 0, 8, 0, fb::DType::F32))),
};

const Broken states[] = {
    BREAK("state 0 has no name", s.states[0]->name = ""),
    BREAK("has role \"weight\"", s.states[0]->role = "weight"),
    BREAK("rope.cos\" is a copy of nothing", s.states[1]->role = "copy"),
    BREAK("rope.cos\" is of \"embedding.weight\", but is no copy",
          s.states[1]->of = "embedding.weight"),
    BREAK("is a copy of parameter \"rope.cos\", which does not exist",
          s.states[1]->role = "copy", s.states[1]->of = "rope.cos"),
    BREAK("is a copy of \"embedding.weight\", expects its shape and placement, "
          "and bf16 where that is f32",
          s.states[1]->role = "copy", s.states[1]->of = "embedding.weight"),
    BREAK("element type 7", s.states[0]->dtype = fb::DType(7)),
    BREAK("expects as many of each", s.states[0]->logical = {15}),
    BREAK("expects as many of each", s.states[0]->dims.pop_back()),
    BREAK("logical shape [17, 8]", s.states[0]->logical = {17, 8}),
    BREAK("logical shape [0, 8]", s.states[0]->logical = {0, 8}),
    BREAK("split by axis 4", s.states[0]->dims[0]->axes = {4}),
    BREAK("dim 1 split by axis 1", s.states[0]->dims[1]->axes = {1}),
    BREAK("dim 0 (size 15), expects a multiple of its 2",
          s.states[0]->shape = {15, 8}),
    BREAK("has 256 bytes on a rank, expects 512",
          s.states[0]->dims[0]->axes = {}),
    BREAK("fewer than 2^64", s.states[0]->shape = {uint64_t(1) << 63, 8},
          s.states[0]->logical = s.states[0]->shape),
    BREAK("has no operand", s.states[0]->operand = nullptr),
    BREAK("outside the arena", *s.states[0]->operand = at(*s.states[0]->operand,
                                                          s.arena_bytes - 64)),
    BREAK("offset 36", *s.states[0]->operand = at(*s.states[0]->operand, 36)),
    BREAK("has 2 places, expects 0",
          *s.states[0]->operand =
              fb::Operand(s.states[0]->operand->offset(), 256, 256, 2, 0)),
    BREAK("overlap in the arena",
          *s.states[1]->operand =
              at(*s.states[1]->operand, s.states[0]->operand->offset() + 64)),
    BREAK("is a second \"embedding.weight\"",
          s.states[1]->name = "embedding.weight",
          s.states[1]->role = "parameter"),
    BREAK("expects as many elements in both",
          s.states[0]->source_shape = {15, 8}),
    BREAK("expects as many elements in both",
          s.states[0]->view = {uint64_t(1) << 62, 4, 4}),
    BREAK("expects as many dims in both", s.states[0]->starts = {0, 2}),
    BREAK("drops dim 3", s.states[0]->drop = {3}),
    BREAK("drops dim 1", s.states[0]->drop = {1, 1}),
    BREAK("drops 0 dims", s.states[0]->drop = {}),
    BREAK("inside the view", s.states[0]->starts = {0, 3, 0}),
    BREAK("inside the view", s.states[0]->starts = {1, 0, 0}),
    BREAK("inside the view", s.states[0]->starts = {0, 0, ~uint64_t(0)}),
    BREAK("initialization 9", s.states[0]->init = fb::InitKind(9)),
    BREAK("initialization scale", s.states[0]->init_scale = nan),
    BREAK("no frequencies", s.states[1]->init_table = {}),
    BREAK("frequency that is not", s.states[1]->init_table[1] = float(nan)),
    BREAK("of integers", s.states[0]->dtype = fb::DType::I32),
    BREAK("output 0 is named \"\"", s.outputs[0]->name = ""),
    BREAK("output 1 is named \"hidden\"", s.outputs[1]->name = "hidden"),
    BREAK("partial over axis 1", s.outputs[1]->partial = {1}),
    BREAK("partial over axis 2", s.outputs[1]->partial = {2}),
    BREAK("element type that is a float", s.outputs[1]->dtype = fb::DType::I32),
    BREAK("state \"nowhere\"", s.outputs[1]->state = "nowhere"),
    BREAK("has 256 bytes on a rank", s.outputs[0]->shape = {64, 8}),
};

const Broken instructions[] = {
    BREAK("unknown opcode 17", setOpcode(i(SampleFill), 17)),
    BREAK("unknown opcode 255", setOpcode(i(SampleFill), 255)),
    BREAK("unknown opcode 0", i(SampleFill).work.Reset()),
    BREAK("FLOPs", i(SampleGemm).flops = -1),
    BREAK("FLOPs", i(SampleGemm).flops = nan),
    BREAK("without bytes",
          i(SampleFill).operands[0] = sized(i(SampleFill).operands[0], 0)),
    BREAK("expects a multiple of 64",
          i(SampleFill).operands[0] = {4, 64, 0, 0, 0}),
    BREAK("a stride of 255, expects at least the 256 bytes of a place",
          i(SampleGemm).operands[0] = {0, 256, 255, 2, 0}),
    BREAK("a stride of 256 and no places, expects a stride of 0",
          i(SampleGemm).operands[0] = {0, 256, 256, 0, 0}),
    BREAK("a stride of 260, expects a multiple of 64, or the 258 bytes",
          i(SampleGemm).operands[0] = {0, 258, 260, 2, 0}),
    BREAK("3 places, expects 0 to the 2 micro-batches",
          i(SampleGemm).operands[0] = {0, 256, 256, 3, 0}),
    BREAK("outside the arena",
          i(SampleFill).operands[0] = {s.arena_bytes, 64, 0, 0, 0}),
    BREAK("outside the arena",
          i(SampleFill).operands[0] = {0, s.arena_bytes + 1, 0, 0, 0}),
    BREAK("outside the arena",
          i(SampleFill).operands[0] = {~uint64_t(63), 128, 0, 0, 0}),
    BREAK("2 places, outside the arena",
          i(SampleGemm).operands[0] = {0, s.arena_bytes, s.arena_bytes, 2, 0}),
    BREAK("2 places, outside the arena",
          i(SampleGemm).operands[0] = {0, 256, s.arena_bytes - 192, 2, 0}),
    BREAK("2 places, outside the arena",
          i(SampleGemm).operands[0] = {0, 256, ~uint64_t(63), 2, 0}),
    BREAK("outside the arena",
          i(SampleGemm).operands[0] = {0, ~uint64_t(3), ~uint64_t(3), 2, 0}),
    BREAK("axis 2 in its group", i(SampleAllReduce).group = {2}),
    BREAK("axis 0 in its group", i(SampleAllReduce).group = {0, 0}),
    BREAK("kernel 1", i(SampleLaunch).work.AsLaunch()->kernel = 1),
    BREAK("kernel -1", i(SampleLaunch).work.AsLaunch()->kernel = -1),
    BREAK("no operands", i(SampleLaunch).operands = {}),
    BREAK("has 1 operands, expects 2", i(SampleLaunch).operands.pop_back()),
    BREAK("256 bytes of operand 0, expects at least 288 for the 9 rows and 8 "
          "columns of kernel \"square\"",
          p.kernels[0]->rows = 9),
    BREAK("expects at least 35184372088832 for",
          p.kernels[0]->rows = uint64_t(1) << 40),
    BREAK("expects at least 260", p.kernels[0]->columns = 9),
    BREAK("expects at least 260",
          p.kernels[0]->accesses[1] = {1, 1, 0, 8, 1, fb::DType::F32}),
    BREAK(
        "expects at least 2^64",
        p.kernels[0]->accesses[1] = {~uint64_t(0), 1, 0, 8, 1, fb::DType::F32}),
    BREAK(
        "expects at least 2^64",
        p.kernels[0]->accesses[1] = {0, 1, 0, ~uint64_t(0), 1, fb::DType::F32}),
    BREAK("in buffer 9999, expects one of 1 to ",
          i(SampleLaunch).operands[0] =
              ProgramBuilder::in(9999, i(SampleLaunch).operands[0])),
    BREAK("expects to lie in its buffer 1, which has 64 bytes at 0",
          s.buffers.push_back(std::make_unique<fb::BufferT>());
          s.buffers[0]->bytes = 64;
          i(SampleLaunch).operands[0] =
              ProgramBuilder::in(1, i(SampleLaunch).operands[0])),

    BREAK("has 3 operands, expects 4", i(SampleGemm).operands.pop_back()),
    BREAK("has 4 operands, expects 5",
          i(SampleGemm).work.AsGemm()->has_bias = 1),
    BREAK("m 0", i(SampleGemm).work.AsGemm()->m = 0),
    BREAK("n -8", i(SampleGemm).work.AsGemm()->n = -8),
    BREAK("k 9223372036854775807",
          i(SampleGemm).work.AsGemm()->k = std::numeric_limits<int64_t>::max()),
    BREAK("bytes of A, expects 512", i(SampleGemm).work.AsGemm()->m = 16),
    BREAK("bytes of B, expects 512", i(SampleGemm).work.AsGemm()->n = 16),
    BREAK("bytes of bias, expects 32", i(SampleBiasGemm).operands[2] = sized(
                                           i(SampleBiasGemm).operands[2], 64)),
    BREAK("bytes of A, expects 128",
          i(SampleGemm).work.AsGemm()->type_a = fb::DType(1)),
    BREAK("type_a 2", i(SampleGemm).work.AsGemm()->type_a = fb::DType(2)),
    BREAK("type_c 3", i(SampleGemm).work.AsGemm()->type_c = fb::DType(3)),
    BREAK("accumulate 3",
          i(SampleGemm).work.AsGemm()->accumulate = fb::Accumulate(3)),
    BREAK("bytes of workspace",
          i(SampleGemm).operands[3] = sized(i(SampleGemm).operands[3], 64)),
    BREAK("bytes of workspace", p.threads = 3),
    BREAK("operands 0 and 2 that overlap",
          i(SampleGemm).operands[2] = i(SampleGemm).operands[0]),
    BREAK("operands 1 and 2 that overlap",
          i(SampleGemm).operands[2] =
              at(i(SampleGemm).operands[1],
                 i(SampleGemm).operands[1].offset() - 64)),
    // Far apart in the first micro-batch only.
    BREAK("operands 0 and 2 that overlap",
          i(SampleGemm).operands[2] = fb::Operand(
              i(SampleGemm).operands[0].offset() + 256, 256, 0, 0, 0),
          i(SampleGemm).operands[0] =
              fb::Operand(i(SampleGemm).operands[0].offset(), 256, 256, 2, 0)),

    BREAK(
        "has 7 operands, expects 6",
        i(SampleAttention).operands.push_back(i(SampleAttention).operands[0])),
    BREAK("batch 0", i(SampleAttention).work.AsAttention()->batch = 0),
    BREAK("heads 2, expects a multiple of kv_heads 4",
          i(SampleAttention).work.AsAttention()->kv_heads = 4),
    BREAK("head_dim 100000",
          i(SampleAttention).work.AsAttention()->head_dim = 100000),
    BREAK("window -1", i(SampleAttention).work.AsAttention()->window = -1),
    BREAK("type 2", i(SampleAttention).work.AsAttention()->type = fb::DType(2)),
    BREAK("scale nan", i(SampleAttention).work.AsAttention()->scale = nan),
    BREAK("softcap -1", i(SampleAttention).work.AsAttention()->softcap = -1),
    BREAK("bytes of q, expects 512",
          i(SampleAttention).work.AsAttention()->seq = 8),
    BREAK("bytes of v", i(SampleAttention).operands[2] =
                            sized(i(SampleAttention).operands[2], 64)),
    BREAK("bytes of lse", i(SampleAttention).operands[4] =
                              sized(i(SampleAttention).operands[4], 32)),
    BREAK("bytes of workspace", i(SampleAttention).operands[5] =
                                    sized(i(SampleAttention).operands[5], 32)),
    BREAK("overlap",
          i(SampleAttention).operands[3] = i(SampleAttention).operands[0]),
    BREAK("overlap", i(SampleAttentionGrad).operands[8] =
                         i(SampleAttentionGrad).operands[7]),
    BREAK("overlap", i(SampleAttentionGrad).operands[6] =
                         i(SampleAttentionGrad).operands[5]),
    BREAK("bytes of dk", i(SampleAttentionGrad).operands[7] =
                             i(SampleAttentionGrad).operands[6]),
    BREAK("bytes of workspace", i(SampleAttentionGrad).operands[9] = sized(
                                    i(SampleAttentionGrad).operands[9], 64)),

    BREAK("rows 0", i(SampleEmbedding).work.AsEmbedding()->rows = 0),
    BREAK("bytes of ids, expects 64",
          i(SampleEmbedding).work.AsEmbedding()->rows = 16),
    BREAK("bytes of table, expects 512",
          i(SampleEmbedding).work.AsEmbedding()->table_rows = 16),
    BREAK("bytes of out, expects 128",
          i(SampleEmbedding).work.AsEmbedding()->type_out = fb::DType(1)),
    BREAK("type_table 2",
          i(SampleEmbedding).work.AsEmbedding()->type_table = fb::DType(2)),
    BREAK("table_rows",
          i(SampleEmbedding).work.AsEmbedding()->table_rows = int64_t(1) << 40),
    BREAK("bytes of dtable",
          i(SampleEmbeddingGrad).work.AsEmbeddingGrad()->table_rows = 4),
    BREAK("accumulate 3",
          i(SampleEmbeddingGrad).work.AsEmbeddingGrad()->accumulate =
              fb::Accumulate(3)),
    BREAK("overlap", i(SampleEmbeddingGrad).operands[2] =
                         i(SampleEmbeddingGrad).operands[1]),

    BREAK("has 2 operands, expects 1",
          i(SampleFill).operands.push_back(i(SampleFill).operands[0])),
    BREAK("bytes of output",
          i(SampleCopy).operands[1] = sized(i(SampleCopy).operands[1], 64)),
    BREAK("overlap", i(SampleCopy).operands[1] =
                         at(i(SampleCopy).operands[1],
                            i(SampleCopy).operands[0].offset() + 64)),

    BREAK("elements 0", i(SampleAllReduce).work.AsAllReduce()->elements = 0),
    BREAK("elements -1", i(SampleAllReduce).work.AsAllReduce()->elements = -1),
    BREAK("type 3", i(SampleAllReduce).work.AsAllReduce()->type = fb::DType(3)),
    BREAK("reduction 2",
          i(SampleAllReduce).work.AsAllReduce()->reduction = fb::Reduction(2)),
    BREAK("bytes of input, expects 260",
          i(SampleAllReduce).work.AsAllReduce()->elements = 65),
    BREAK("overlap", i(SampleAllReduce).operands[1] =
                         at(i(SampleAllReduce).operands[1],
                            i(SampleAllReduce).operands[1].offset() - 64)),
    BREAK("bytes of output", i(SampleAllGather).group = {}),
    BREAK("bytes of output, expects 1024", i(SampleAllGather).group = {0, 1}),
    BREAK("inner 0", i(SampleAllGather).work.AsAllGather()->inner = 0),
    BREAK("outer 0", i(SampleAllGather).work.AsAllGather()->outer = 0),
    BREAK("bytes of output",
          i(SampleAllGather).work.AsAllGather()->inner = int64_t(1) << 45),
    BREAK("overlap", i(SampleAllGather).operands[0] =
                         at(i(SampleAllGather).operands[0],
                            i(SampleAllGather).operands[1].offset())),
    BREAK("reduction 255",
          i(SampleReduceScatter).work.AsReduceScatter()->reduction =
              fb::Reduction(-1)),
    BREAK("bytes of input", i(SampleReduceScatter).group = {}),
    BREAK("bytes of output, expects 128",
          i(SampleReduceScatter).work.AsReduceScatter()->type = fb::DType(1),
          i(SampleReduceScatter).operands[0] =
              sized(i(SampleReduceScatter).operands[0], 256)),
    BREAK("mid 0", i(SampleAllToAll).work.AsAllToAll()->mid = 0),
    BREAK("b -4", i(SampleAllToAll).work.AsAllToAll()->b = -4),
    BREAK("bytes of input, expects 1024",
          i(SampleAllToAll).work.AsAllToAll()->inner = 4),
    BREAK("overlap",
          i(SampleAllToAll).operands[1] = i(SampleAllToAll).operands[0]),
    BREAK("bytes of input", i(SampleSlice).group = {}),

    BREAK("kind 4",
          i(SampleSchedule).work.AsSchedule()->kind = fb::LRSchedule(4)),
    BREAK("warmup_steps -1",
          i(SampleSchedule).work.AsSchedule()->warmup_steps = -1),
    BREAK("decay_steps -1",
          i(SampleSchedule).work.AsSchedule()->decay_steps = -1),
    BREAK("stable_steps -1",
          i(SampleSchedule).work.AsSchedule()->stable_steps = -1),
    BREAK("lr nan", i(SampleSchedule).work.AsSchedule()->lr = nan),
    BREAK("min_lr -1", i(SampleSchedule).work.AsSchedule()->min_lr = -1),
    BREAK("beta1 1", i(SampleSchedule).work.AsSchedule()->beta1 = 1),
    BREAK("beta2 nan", i(SampleSchedule).work.AsSchedule()->beta2 = nan),
    BREAK("bytes of output", i(SampleSchedule).operands[0] =
                                 sized(i(SampleSchedule).operands[0], 12)),

    BREAK("segment 1 \"micro_batch\" has instructions 3 to 8, expects some "
          "from 2 on, of the program's 16",
          s.segments[1]->begin = 3),
    BREAK("has instructions 2 to 2", s.segments[1]->end = 2),
    BREAK("has instructions 15 to 17", s.segments.back()->end = 17),
    BREAK("instruction 15 is in no segment", s.segments.pop_back();
          s.runs.pop_back()),
    BREAK("run 1 is of segment 4, expects one of the 4",
          s.runs[1] = fb::Run(4, 0, true)),
    BREAK("run 2 is for micro-batch 2, expects one of the 2",
          s.runs[2] = fb::Run(1, 2, false)),
    BREAK("segment 3 is never run", s.runs.pop_back()),
    BREAK("run 6 begins the update, and does not exist", s.update_run = 6),
};

void expectAllRefused(std::span<const Broken> list) {
  for (const Broken &broken : list) {
    ProgramBuilder builder = makeSample();
    broken.breakIt(builder.program);
    Program program;
    Status status = builder.load(program);
    if (status.ok()) {
      ADD_FAILURE() << "accepted, should say: " << broken.words;
      continue;
    }
    EXPECT_NE(status.message().find(broken.words), std::string::npos)
        << "says:       " << status.message()
        << "\nshould say: " << broken.words;
    EXPECT_EQ(status.message().find("test: "), 0u) << status.message();
  }
}

TEST(Verify, RefusesBrokenHeaders) { expectAllRefused(programs); }
TEST(Verify, RefusesBrokenStatesAndOutputs) { expectAllRefused(states); }
TEST(Verify, RefusesBrokenInstructions) { expectAllRefused(instructions); }

TEST(Verify, NamesTheInstruction) {
  ProgramBuilder builder = makeSample();
  builder.stage->instructions[SampleGemm]->name = "gemm \"q\"\n";
  builder.stage->instructions[SampleGemm]->work.AsGemm()->m = 0;
  Program program;
  EXPECT_EQ(builder.load(program).message(),
            "test: instruction 3 (Gemm \"gemm \\\"q\\\"\\x0a\") has m 0, "
            "expects 1 to 1099511627776");
}

} // namespace
