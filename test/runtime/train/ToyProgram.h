//===- ToyProgram.h - A training program small enough to do by hand -------===//
//
// The model: a table [vocab 13, width 4], padded to 16 rows. With x a token
// and t its target, the loss is the mean over all tokens that are not ignored,
// weighted as if none was, and over c of (table[x][c] - (t + c) / 8)^2. Plain
// gradient descent. The table is the middle third of the checkpoint tensor
// "transformer.toy.weight" [13, 12]; two more states are the other thirds.
//
// Mesh dp x tp: the batch is cut over dp, the table's rows over tp, the last
// third's rows over dp.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_TRAIN_TOYPROGRAM_H
#define CLEAVE_TEST_RUNTIME_TRAIN_TOYPROGRAM_H

#include "runtime/executor/Executor.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <cmath>

namespace cleave::test {

namespace toy {
inline constexpr uint64_t vocab = 13, paddedVocab = 16, width = 4, batch = 8,
                          seqLen = 4;
/// Weight of one element in the loss.
inline constexpr float weight = 1.0f / (batch * seqLen * width);
inline float getWanted(int64_t target, uint64_t c) {
  return float(target + int64_t(c)) / 8;
}

/// embedded [n, width], targets i32 [n], gradient [n, width], loss [1]; n in
/// sizes i32 [1]. The loss is summed over the micro-batches.
inline void computeLoss(void *const *buffers, const int64_t *params, int64_t,
                        int64_t) {
  auto *embedded = static_cast<const float *>(buffers[0]);
  auto *targets = static_cast<const int32_t *>(buffers[1]);
  auto *sizes = static_cast<const float *>(buffers[2]);
  auto *grad = static_cast<float *>(buffers[3]);
  auto *loss = static_cast<float *>(buffers[4]);
  if (params[1] == 0)
    *loss = 0;
  for (uint64_t i = 0; i < uint64_t(sizes[0]) * width; ++i) {
    int32_t target = targets[i / width];
    float error = target < 0 ? 0 : embedded[i] - getWanted(target, i % width);
    *loss += weight * error * error;
    grad[i] = 2 * weight * error;
  }
}

/// Schedule [5], factor [1], gradient [rows, width], table [rows, width].
inline void update(void *const *buffers, const int64_t *, int64_t begin,
                   int64_t end) {
  auto *schedule = static_cast<const float *>(buffers[0]);
  auto *factor = static_cast<const float *>(buffers[1]);
  auto *grad = static_cast<const float *>(buffers[2]);
  auto *table = static_cast<float *>(buffers[3]);
  if (*factor > 0)
    for (int64_t i = begin * int64_t(width); i < end * int64_t(width); ++i)
      table[i] -= schedule[0] * grad[i];
}

/// gradient [rows, width], square [1]; rows as for computeLoss.
inline void square(void *const *buffers, const int64_t *, int64_t, int64_t) {
  auto *grad = static_cast<const float *>(buffers[0]);
  auto *sizes = static_cast<const float *>(buffers[1]);
  auto *sum = static_cast<float *>(buffers[2]);
  *sum = 0;
  for (uint64_t i = 0; i < uint64_t(sizes[0]); ++i)
    *sum += grad[i] * grad[i];
}

inline void root(void *const *buffers, const int64_t *, int64_t, int64_t) {
  auto *value = static_cast<float *>(buffers[0]);
  *value = std::sqrt(*value);
}

/// schedule [5], norm [1], factor [1]: 1, or 0 where the norm is at its limit.
inline void guard(void *const *buffers, const int64_t *, int64_t, int64_t) {
  auto *limits = static_cast<const float *>(buffers[0]) + 3;
  auto *norm = static_cast<const float *>(buffers[1]);
  *static_cast<float *>(buffers[2]) = *norm < limits[1] ? 1 : 0;
}

inline constexpr CleaveKernelEntry kernels[] = {{"toy_loss", computeLoss},
                                                {"toy_update", update},
                                                {"toy_square", square},
                                                {"toy_guard", guard},
                                                {"toy_root", root}};
inline constexpr runtime::KernelTable kernelTable{kernels, 5};

/// What the batch and the config say.
inline void fillHeader(fb::ProgramT &p) {
  p.model = "{\"model_type\": \"toy\"}\n";
  p.vocab = vocab;
  p.seq_len = seqLen;
  p.global_batch = batch;
  p.batch_axes = {0};
  p.flops_per_step = 1e6;
}

/// A third of the checkpoint tensor, its rows over `axis`.
inline fb::Operand addThird(ProgramBuilder &b, const char *name, uint64_t third,
                            uint8_t axis, uint64_t shards) {
  fb::Operand operand = b.allocate(paddedVocab / shards * width * 4);
  fb::StateT &state = b.state(
      name, {paddedVocab, width},
      {shards > 1 ? std::vector<uint8_t>{axis} : std::vector<uint8_t>{}, {}},
      operand);
  state.logical = {vocab, width};
  state.source = "transformer.toy.weight";
  state.source_shape = {vocab, 3 * width};
  state.view = {vocab, 3, width};
  state.starts = {0, third, 0};
  state.drop = {1};
  state.init = fb::InitKind::Normal;
  state.init_scale = 0.5;
  state.tied = {"toy_head.weight"};
  return operand;
}

/// A size that the kernels read: a constant of value 1 times a frequency.
inline fb::Operand addSize(ProgramBuilder &b, const char *name, uint64_t size) {
  fb::Operand operand = b.allocate(4);
  fb::StateT &state = b.state(name, {1, 1}, {{}, {}}, operand);
  state.role = "constant";
  state.init = fb::InitKind::RopeCos; // cos(0) * scale
  state.init_scale = double(size);
  state.init_table = {1};
  return operand;
}
/// Writes whether there is an update.
inline void addGuard(ProgramBuilder &b, fb::Operand schedule, fb::Operand norm,
                     fb::Operand factor) {
  b.launch("toy_guard", 1, {schedule, norm, factor}).category = "optimizer";
}
} // namespace toy

/// dp divides 8 / microBatches and 16; tp divides 16.
inline ProgramBuilder makeToyProgram(uint64_t dp, uint64_t tp,
                                     uint64_t microBatches = 1) {
  using namespace toy;
  ProgramBuilder b({{"dp", dp}, {"tp", tp}}, microBatches);
  fb::StageT &s = *b.stage;
  fillHeader(b.program);
  const uint64_t rows = batch * seqLen / microBatches / dp; // of tokens
  const uint64_t tableRows = paddedVocab / tp;

  fb::Operand tokens = b.allocate(rows * 4 * microBatches);
  fb::Operand targets = b.allocate(rows * 4 * microBatches);
  s.tokens = std::make_unique<fb::Operand>(tokens);
  s.targets = std::make_unique<fb::Operand>(targets);
  fb::Operand microTokens = b.getSlices(tokens, microBatches);
  fb::Operand microTargets = b.getSlices(targets, microBatches);

  addThird(b, "first", 0, 0, 1);
  fb::Operand table = addThird(b, "table", 1, 1, tp);
  s.states.back()->role = "parameter";
  addThird(b, "last", 2, 0, dp);

  fb::Operand tokenRows = addSize(b, "token_rows", rows);
  fb::Operand gradSize = addSize(b, "grad_size", tableRows * width);

  fb::Operand schedule = b.allocate(20);
  fb::Operand embedded = b.allocate(rows * width * 4, microBatches);
  fb::Operand dembedded = b.allocate(rows * width * 4);
  fb::Operand loss = b.allocate(4), norm = b.allocate(4),
              factor = b.allocate(4);
  fb::Operand grad = b.allocate(tableRows * width * 4);

  const int64_t r = int64_t(rows), w = int64_t(width), t = int64_t(tableRows);
  auto category = [&](fb::InstructionT &instruction, const char *name) {
    instruction.category = name;
  };
  b.add(fb::ScheduleT{{}, fb::LRSchedule::Constant, 2, 0, 0, 8.0, 0, 0.9, 0.95},
        {schedule});
  b.add(fb::FillT(), {grad});
  b.start(ProgramBuilder::MicroBatch);
  b.add(fb::EmbeddingT{{}, r, w, t}, {microTokens, table, embedded}, {1});
  b.add(fb::AllReduceT{{}, r * w}, {embedded, embedded}, {1});
  b.launch("toy_loss", 1, {embedded, microTargets, tokenRows, dembedded, loss})
      .flops = 1000;
  b.program.kernels.back()->inputs = 3; // and two outputs
  category(b.add(fb::EmbeddingGradT{{},
                                    r,
                                    w,
                                    t,
                                    fb::DType::F32,
                                    fb::DType::F32,
                                    fb::Accumulate::Always},
                 {microTokens, dembedded, grad}, {1}),
           "backward");
  b.start(ProgramBuilder::After);
  category(b.add(fb::AllReduceT{{}, t * w}, {grad, grad}, {0}), "backward");
  category(b.launch("toy_square", 1, {grad, gradSize, norm}), "optimizer");
  category(b.add(fb::AllReduceT{{}, 1}, {norm, norm}, {1}), "optimizer");
  category(b.launch("toy_root", 1, {norm}), "optimizer");
  addGuard(b, schedule, norm, factor);
  b.start(ProgramBuilder::Update);
  category(b.launch("toy_update", tableRows, {schedule, factor, grad, table}),
           "optimizer");

  std::vector<uint8_t> overDp, overTp;
  if (dp > 1)
    overDp = {0};
  if (tp > 1)
    overTp = {1};
  b.output("loss", {}, {}, loss, overDp);
  b.output("grad_norm", {}, {}, norm);
  b.output("update_factor", {}, {}, factor);
  fb::OutputT &out =
      b.output("embedded", {batch * seqLen / microBatches, width}, {overDp, {}},
               embedded);
  out.operand = std::make_unique<fb::Operand>(embedded);
  fb::OutputT &dtable =
      b.output("grad.table", {paddedVocab, width}, {overTp, {}}, grad);
  dtable.state = "table";
  dtable.logical = {vocab, width};
  return b;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_TRAIN_TOYPROGRAM_H
