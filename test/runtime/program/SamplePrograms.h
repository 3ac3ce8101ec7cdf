//===- SamplePrograms.h - One program with every opcode -------------------===//
#ifndef CLEAVE_TEST_RUNTIME_PROGRAM_SAMPLEPROGRAMS_H
#define CLEAVE_TEST_RUNTIME_PROGRAM_SAMPLEPROGRAMS_H

#include "test/runtime/program/ProgramBuilder.h"

namespace cleave::test {

/// Where makeSample puts each opcode.
enum SampleIndex {
  SampleSchedule,
  SampleFill,
  SampleEmbedding,
  SampleGemm,
  SampleBiasGemm,
  SampleAttention,
  SampleAttentionGrad,
  SampleEmbeddingGrad,
  SampleAllReduce,
  SampleAllGather,
  SampleReduceScatter,
  SampleAllToAll,
  SampleSlice,
  SampleCopy,
  SampleLaunch,
  SampleUpdate,
};

/// On the mesh dp=2, tp=2, with 2 micro-batches; legal in every way.
inline ProgramBuilder makeSample() {
  ProgramBuilder b({{"dp", 2}, {"tp", 2}}, /*microBatches=*/2);
  fb::ProgramT &p = b.program;
  fb::StageT &s = *b.stage;
  p.model = "{\"model_type\": \"test\"}";
  p.plan = "{}";
  p.global_batch = 8;
  p.batch_axes = {0};
  p.flops_per_step = 1000;
  const int64_t rows = 8, width = 8, table = 8; // rows: 2 samples of 4 tokens
  fb::Operand tokens = b.allocate(rows * 4, 2), targets = b.allocate(64);
  s.tokens =
      std::make_unique<fb::Operand>(tokens.offset(), 2 * rows * 4, 0, 0, 0);
  s.targets = std::make_unique<fb::Operand>(targets.offset(), 64, 0, 0, 0);

  fb::Operand weight = b.allocate(table * width * 4);
  fb::StateT &state = b.state("embedding.weight", {16, 8}, {{1}, {}}, weight);
  state.role = "parameter";
  state.logical = {15, 8};
  state.source = "model.embed.weight";
  state.source_shape = {15, 3, 8};
  state.view = {15, 3, 8};
  state.starts = {0, 2, 0};
  state.drop = {1};
  state.init = fb::InitKind::Normal;
  state.init_scale = 0.02;
  state.tied = {"head.weight"};
  fb::Operand table2 = b.allocate(4 * 4 * 4);
  fb::StateT &rope = b.state("rope.cos", {4, 4}, {{}, {}}, table2);
  rope.init = fb::InitKind::RopeCos;
  rope.init_scale = 1;
  rope.init_table = {1, 0.1f, 0.01f, 0.001f};

  fb::Operand schedule = b.allocate(20);
  fb::Operand hidden = b.allocate(rows * width * 4);
  fb::Operand projected = b.allocate(rows * width * 4);
  fb::Operand projection = b.allocate(width * width * 4);
  fb::Operand bias = b.allocate(width * 4);
  fb::Operand grad = b.allocate(table * width * 4);
  fb::Operand lse = b.allocate(2 * 2 * 4 * 4);
  fb::Operand out = b.allocate(rows * width * 4);
  fb::Operand dq = b.allocate(rows * width * 4);
  fb::Operand dk = b.allocate(rows * width * 2),
              dv = b.allocate(rows * width * 2);
  fb::Operand k = b.allocate(rows * width * 2),
              v = b.allocate(rows * width * 2);
  fb::Operand wide = b.allocate(2 * rows * width * 4);
  b.state("projection.weight", {8, 8}, {{}, {}}, projection);
  b.state("projection.bias", {8}, {{}}, bias);
  b.state("keys", {8, 4}, {{}, {}}, k);
  b.state("values", {8, 4}, {{}, {}}, v);

  b.add(
      fb::ScheduleT{
          {}, fb::LRSchedule::Cosine, 2, 10, 0, 1e-3, 1e-4, 0.9, 0.95},
      {schedule});
  b.add(fb::FillT(), {grad});
  b.start(ProgramBuilder::MicroBatch);
  b.add(fb::EmbeddingT{{}, rows, width, table}, {tokens, weight, hidden}, {1});
  b.gemm(rows, width, width, hidden, projection, projected);
  fb::Operand workspace = b.allocate(cpu::gemmWorkspaceBytes(
      rows, width, width, false, true, 0, 0, 0, p.threads));
  b.add(fb::GemmT{{},
                  rows,
                  width,
                  width,
                  false,
                  true,
                  fb::DType::F32,
                  fb::DType::F32,
                  fb::DType::F32,
                  fb::Accumulate::AfterFirst,
                  true},
        {hidden, projection, bias, projected, workspace});
  // batch 2, seq 4, heads 2, kvHeads 1, headDim 4.
  fb::Operand scratch =
      b.allocate(cpu::attentionWorkspaceBytes(2, 4, 2, 1, 4, 0, p.threads));
  b.add(fb::AttentionT{{}, 2, 4, 2, 1, 4, 0, fb::DType::F32, 0.5},
        {projected, k, v, out, lse, scratch});
  fb::Operand gradScratch =
      b.allocate(cpu::attentionGradWorkspaceBytes(2, 4, 2, 1, 4, 0, p.threads));
  b.add(fb::AttentionGradT{{}, 2, 4, 2, 1, 4, 0, fb::DType::F32, 0.5},
        {projected, k, v, out, lse, hidden, dq, dk, dv, gradScratch});
  b.add(fb::EmbeddingGradT{{},
                           rows,
                           width,
                           table,
                           fb::DType::F32,
                           fb::DType::F32,
                           fb::Accumulate::Always},
        {tokens, dq, grad}, {1});
  b.start(ProgramBuilder::After);
  b.add(fb::AllReduceT{{}, table * width}, {grad, grad}, {0});
  b.add(fb::AllGatherT{{}, table, width}, {grad, wide}, {1});
  b.add(fb::ReduceScatterT{{}, rows, width}, {wide, hidden}, {0});
  fb::Operand wide2 = b.allocate(2 * rows * width * 4);
  b.add(fb::AllToAllT{{}, 2, 2, 2, 4, 2, fb::DType::F32, true}, {wide, wide2},
        {1});
  b.add(fb::SliceT{{}, rows, width}, {wide, hidden}, {1});
  b.add(fb::CopyT(), {hidden, projected});
  b.launch("square", rows, {projected, out}, {1});
  b.addUpdate();
  b.cutSegments();
  b.output("hidden", {32, 8}, {{0, 1}, {}}, hidden);
  b.output("grad.embedding.weight", {16, 8}, {{1}, {}}, grad, {0}).state =
      "embedding.weight";
  auto category = std::make_unique<fb::CategoryT>();
  category->name = "everything";
  category->bytes = s.arena_bytes;
  s.memory.push_back(std::move(category));
  s.lower_bound_bytes = s.arena_bytes;
  return b;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_PROGRAM_SAMPLEPROGRAMS_H
