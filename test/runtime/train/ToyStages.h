//===- ToyStages.h - The toy as a pipeline of two stages ------------------===//
//
// The same model and mesh as ToyProgram.h's, and as last axis two stages: the
// first looks tokens up in the table, the second knows targets and the loss.
// All micro-batches go forward before the first comes back. The first third of
// the checkpoint tensor is on both.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_TRAIN_TOYSTAGES_H
#define CLEAVE_TEST_RUNTIME_TRAIN_TOYSTAGES_H

#include "test/runtime/train/ToyProgram.h"

namespace cleave::test {

namespace toy {
enum Axis : uint8_t { overDp, overTp, overStages };
enum Channel : int64_t { embeddedChannel, gradChannel };

/// Sums over the stages what one of them has and the others have as zeros.
inline void shareScalar(ProgramBuilder &b, fb::Operand scalar) {
  b.add(fb::AllReduceT{{}, 1}, {scalar, scalar}, {overStages});
}

/// Runs a segment for each micro-batch, or once.
inline void runSegment(ProgramBuilder &b, const char *name, uint64_t times) {
  b.cutSegment(name);
  for (uint64_t m = 0; m < times; ++m)
    b.stage->runs.emplace_back(uint32_t(b.stage->segments.size()) - 1,
                               uint32_t(m), m == 0);
}

inline fb::Operand addSchedule(ProgramBuilder &b) {
  fb::Operand schedule = b.allocate(20);
  b.add(fb::ScheduleT{{}, fb::LRSchedule::Constant, 2, 0, 0, 8.0, 0, 0.9, 0.95},
        {schedule});
  return schedule;
}

inline void addOutputs(ProgramBuilder &b, fb::Operand loss, fb::Operand norm,
                       fb::Operand factor, uint64_t dp) {
  std::vector<uint8_t> partial;
  if (dp > 1)
    partial = {overDp};
  b.output("loss", {}, {}, loss, partial);
  b.output("grad_norm", {}, {}, norm);
  b.output("update_factor", {}, {}, factor);
}

inline void addTableStage(ProgramBuilder &b, uint64_t dp, uint64_t tp) {
  const uint64_t microBatches = b.program.micro_batches;
  const uint64_t rows = batch * seqLen / microBatches / dp;
  const uint64_t tableRows = paddedVocab / tp;
  const int64_t r = int64_t(rows), w = int64_t(width), t = int64_t(tableRows);
  fb::Operand tokens = b.allocate(rows * 4 * microBatches);
  b.stage->tokens = std::make_unique<fb::Operand>(tokens);
  fb::Operand microTokens = b.getSlices(tokens, microBatches);
  addThird(b, "first", 0, 0, 1);
  fb::Operand table = addThird(b, "table", 1, overTp, tp);
  b.stage->states.back()->role = "parameter";
  fb::Operand gradSize = addSize(b, "grad_size", tableRows * width);
  fb::Operand embedded = b.allocate(rows * width * 4, microBatches);
  fb::Operand dembedded = b.allocate(rows * width * 4);
  fb::Operand loss = b.allocate(4), norm = b.allocate(4),
              factor = b.allocate(4);
  fb::Operand grad = b.allocate(tableRows * width * 4);

  fb::Operand schedule = addSchedule(b);
  b.add(fb::FillT(), {grad});
  b.add(fb::FillT(), {loss});
  runSegment(b, "before", 1);
  b.add(fb::EmbeddingT{{}, r, w, t}, {microTokens, table, embedded}, {overTp});
  b.add(fb::AllReduceT{{}, r * w}, {embedded, embedded}, {overTp});
  b.add(fb::SendT{{}, 1, embeddedChannel}, {embedded});
  runSegment(b, "forward", microBatches);
  b.add(fb::RecvT{{}, 1, gradChannel}, {dembedded}).category = "backward";
  b.add(
       fb::EmbeddingGradT{
           {}, r, w, t, fb::DType::F32, fb::DType::F32, fb::Accumulate::Always},
       {microTokens, dembedded, grad}, {overTp})
      .category = "backward";
  runSegment(b, "backward", microBatches);
  b.add(fb::AllReduceT{{}, t * w}, {grad, grad}, {overDp});
  b.launch("toy_square", 1, {grad, gradSize, norm});
  b.add(fb::AllReduceT{{}, 1}, {norm, norm}, {overTp});
  shareScalar(b, loss);
  shareScalar(b, norm);
  b.launch("toy_root", 1, {norm}).category = "optimizer";
  addGuard(b, schedule, norm, factor);
  runSegment(b, "after", 1);
  b.stage->update_run = b.stage->runs.size();
  b.launch("toy_update", tableRows, {schedule, factor, grad, table});
  runSegment(b, "update", 1);

  addOutputs(b, loss, norm, factor, dp);
  auto over = [](Axis axis, uint64_t size) {
    return size > 1 ? std::vector<uint8_t>{axis} : std::vector<uint8_t>{};
  };
  b.output("embedded", {batch * seqLen / microBatches, width},
           {over(overDp, dp), {}}, embedded);
  fb::OutputT &dtable = b.output("grad.table", {paddedVocab, width},
                                 {over(overTp, tp), {}}, grad);
  dtable.state = "table";
  dtable.logical = {vocab, width};
}

inline void addLossStage(ProgramBuilder &b, uint64_t dp) {
  const uint64_t microBatches = b.program.micro_batches;
  const uint64_t rows = batch * seqLen / microBatches / dp;
  fb::Operand targets = b.allocate(rows * 4 * microBatches);
  b.stage->targets = std::make_unique<fb::Operand>(targets);
  fb::Operand microTargets = b.getSlices(targets, microBatches);
  addThird(b, "last", 2, overDp, dp);
  addThird(b, "first", 0, 0, 1);
  fb::Operand tokenRows = addSize(b, "token_rows", rows);
  fb::Operand embedded = b.allocate(rows * width * 4);
  fb::Operand dembedded = b.allocate(rows * width * 4);
  fb::Operand loss = b.allocate(4), norm = b.allocate(4),
              factor = b.allocate(4);

  fb::Operand schedule = addSchedule(b);
  b.add(fb::FillT(), {norm});
  runSegment(b, "before", 1);
  b.add(fb::RecvT{{}, 0, embeddedChannel}, {embedded});
  b.launch("toy_loss", 1, {embedded, microTargets, tokenRows, dembedded, loss});
  b.program.kernels.back()->inputs = 3; // and two outputs
  b.add(fb::SendT{{}, 0, gradChannel}, {dembedded});
  runSegment(b, "micro_batch", microBatches);
  shareScalar(b, loss);
  shareScalar(b, norm);
  b.launch("toy_root", 1, {norm}).category = "optimizer";
  addGuard(b, schedule, norm, factor);
  runSegment(b, "after", 1);
  b.stage->update_run = b.stage->runs.size();
  addOutputs(b, loss, norm, factor, dp);
}
} // namespace toy

/// As makeToyProgram, on twice the ranks.
inline ProgramBuilder makeToyStages(uint64_t dp, uint64_t tp,
                                    uint64_t microBatches = 1) {
  ProgramBuilder b({{"dp", dp}, {"tp", tp}, {"pp", 2}}, microBatches);
  b.program.stage_axis = toy::overStages;
  toy::fillHeader(b.program);
  toy::addTableStage(b, dp, tp);
  b.beginStage();
  toy::addLossStage(b, dp);
  return b;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_TRAIN_TOYSTAGES_H
