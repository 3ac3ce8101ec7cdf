//===- StagePrograms.h - One step of training, cut into stages ------------===//
//
// Four layers h -> h w on the mesh pp x dp, cut into as many stages as pp has
// ranks; micro-batches go through them as in 1F1B. Every rank of a stage sums
// the gradients of its weights over micro-batches and dp; the norm is of all
// stages'. Each number is computed in the same way however many stages there
// are, so that results are equal bit for bit. On the first and on the last
// stage is the parameter "shared".
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_PROGRAM_STAGEPROGRAMS_H
#define CLEAVE_TEST_RUNTIME_PROGRAM_STAGEPROGRAMS_H

#include "runtime/executor/Executor.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <cmath>

namespace cleave::test {

namespace staged {
inline constexpr uint64_t layers = 4, width = 4, rows = 4;
inline constexpr uint64_t matrix = width * width * 4; ///< bytes

/// gradient, its square's sum.
inline void square(void *const *buffers, const int64_t *, int64_t, int64_t) {
  auto *grad = static_cast<const float *>(buffers[0]);
  float sum = 0;
  for (uint64_t i = 0; i < width * width; ++i)
    sum += grad[i] * grad[i];
  *static_cast<float *>(buffers[1]) = sum;
}

/// Sums of all layers, 64 bytes apart; their norm.
inline void norm(void *const *buffers, const int64_t *, int64_t, int64_t) {
  auto *squares = static_cast<const float *>(buffers[0]);
  float sum = 0;
  for (uint64_t layer = 0; layer < layers; ++layer)
    sum += squares[layer * 16];
  *static_cast<float *>(buffers[1]) = std::sqrt(sum);
}

/// norm, gradient, parameter of as many elements.
inline void update(void *const *buffers, const int64_t *, int64_t, int64_t) {
  float norm = *static_cast<const float *>(buffers[0]);
  auto *grad = static_cast<const float *>(buffers[1]);
  auto *value = static_cast<float *>(buffers[2]);
  for (uint64_t i = 0; i < width * width; ++i)
    value[i] -= 0.1f * grad[i] / norm;
}

/// norm, parameter.
inline void shrink(void *const *buffers, const int64_t *, int64_t, int64_t) {
  float norm = *static_cast<const float *>(buffers[0]);
  auto *value = static_cast<float *>(buffers[1]);
  for (uint64_t i = 0; i < width * width; ++i)
    value[i] /= 1 + norm;
}

inline constexpr CleaveKernelEntry kernels[] = {
    {"square", square}, {"norm", norm}, {"update", update}, {"shrink", shrink}};
inline constexpr runtime::KernelTable kernelTable{kernels, 4};

inline void addStage(ProgramBuilder &b, uint64_t number, uint64_t stages,
                     uint64_t dp) {
  const uint64_t microBatches = b.program.micro_batches;
  const uint64_t count = layers / stages, first = number * count;
  const bool isFirst = number == 0, isLast = number + 1 == stages;
  const uint64_t ahead = stages - 1 - number; ///< micro-batches in flight
  const uint64_t places = std::min(microBatches, ahead + 1);
  fb::StageT &s = *b.stage;
  std::vector<fb::Operand> weights, grads, kept;
  std::vector<uint32_t> keptBuffers;
  auto addParameter = [&](const std::string &name, const char *role,
                          uint64_t shards) {
    fb::Operand operand = b.allocate(matrix / shards);
    std::vector<uint8_t> axes;
    if (shards > 1)
      axes = {1};
    fb::StateT &state = b.state(name, {width, width}, {axes, {}}, operand);
    state.role = role;
    state.source = role == std::string("parameter") ? "model." + name : "";
    if (!state.source.empty()) {
      state.source_shape = state.view = {width, width};
      state.starts = {0, 0};
    }
    state.init = fb::InitKind::Normal;
    state.init_scale = 0.7;
    return operand;
  };
  std::vector<fb::Operand> moments;
  for (uint64_t layer = first; layer < first + count; ++layer) {
    std::string name = "layer." + std::to_string(layer);
    weights.push_back(addParameter(name, "parameter", 1));
    moments.push_back(addParameter(name, "moment1", dp));
    grads.push_back(b.allocate(matrix));
  }
  fb::Operand shared, norms = b.allocate(layers * 64), total = b.allocate(4);
  if (isFirst || isLast)
    shared = addParameter("shared", "parameter", 1);

  // What enters each layer, of each micro-batch in flight; the last is what
  // leaves the stage.
  for (uint64_t i = 0; i <= count; ++i)
    kept.push_back(b.allocate(rows * width * 4, places));
  if (isFirst) {
    fb::Operand x = b.allocate(microBatches * rows * width * 4);
    fb::StateT &state = b.state(
        "x", {dp * microBatches * rows, width},
        {dp > 1 ? std::vector<uint8_t>{1} : std::vector<uint8_t>{}, {}}, x);
    state.init = fb::InitKind::Normal;
    state.init_scale = 1;
    b.add(fb::CopyT(), {b.getSlices(x, microBatches), kept[0]});
  } else {
    b.add(fb::RecvT{{}, int64_t(number) - 1, int64_t(number) - 1}, {kept[0]});
  }
  for (uint64_t i = 0; i < count; ++i)
    b.gemm(rows, width, width, kept[i], weights[i], kept[i + 1]);
  if (!isLast)
    b.add(fb::SendT{{}, int64_t(number) + 1, int64_t(number)}, {kept[count]});
  b.cutSegment("forward");

  // The loss is half the sum of squares: its gradient is what comes out.
  const int64_t back = int64_t(stages + number); ///< channel to the one before
  fb::Operand gradients[2] = {b.allocate(rows * width * 4),
                              b.allocate(rows * width * 4)};
  if (isLast)
    b.add(fb::CopyT(), {kept[count], gradients[count % 2]});
  else
    b.add(fb::RecvT{{}, int64_t(number) + 1, back + 1}, {gradients[count % 2]});
  auto multiply = [&](fb::Operand a, fb::Operand c, fb::Operand out,
                      bool transA, bool transB, fb::Accumulate accumulate) {
    fb::Operand workspace = b.allocate(cpu::gemmWorkspaceBytes(
        4, 4, 4, transA, transB, 0, 0, 0, b.program.threads));
    b.add(fb::GemmT{{},
                    4,
                    4,
                    4,
                    transA,
                    transB,
                    fb::DType::F32,
                    fb::DType::F32,
                    fb::DType::F32,
                    accumulate},
          {a, c, out, workspace});
  };
  for (uint64_t i = count; i-- > 0;) {
    multiply(kept[i], gradients[(i + 1) % 2], grads[i], true, false,
             fb::Accumulate::AfterFirst);
    multiply(gradients[(i + 1) % 2], weights[i], gradients[i % 2], false, true,
             fb::Accumulate::Never);
  }
  if (!isFirst)
    b.add(fb::SendT{{}, int64_t(number) - 1, back}, {gradients[0]});
  b.cutSegment("backward");

  b.add(fb::FillT(), {norms});
  for (uint64_t i = 0; i < count; ++i) {
    b.add(fb::AllReduceT{{}, 16}, {grads[i], grads[i]}, {1});
    fb::Operand part(norms.offset() + (first + i) * 64, 4, 0, 0, 0);
    uint32_t buffer = ProgramBuilder::getBuffer(norms.offset());
    b.launch("square", 1, {grads[i], b.in(buffer, part)});
  }
  b.add(fb::AllReduceT{{}, layers * 16}, {norms, norms}, {0});
  b.launch("norm", 1, {norms, total});
  b.cutSegment("norm");
  for (uint64_t i = 0; i < count; ++i) {
    b.launch("update", 1, {total, grads[i], weights[i]});
    b.add(fb::SliceT{{}, 1, int64_t(16 / dp)}, {grads[i], moments[i]}, {1});
  }
  if (isFirst || isLast)
    b.launch("shrink", 1, {total, shared});
  b.cutSegment("update");
  b.output("norm", {}, {}, total);

  // Forward as far ahead as the pipeline is long; then one of each.
  for (uint64_t m = 0; m < microBatches + ahead; ++m) {
    if (m < microBatches)
      s.runs.emplace_back(0, uint32_t(m), m == 0);
    if (m >= ahead)
      s.runs.emplace_back(1, uint32_t(m - ahead), m == ahead);
  }
  s.runs.emplace_back(2, 0, true);
  s.update_run = s.runs.size();
  s.runs.emplace_back(3, 0, true);
}
} // namespace staged

/// `stages` divides 4, `dp` 4.
inline ProgramBuilder makeStages(uint64_t stages, uint64_t microBatches,
                                 uint64_t dp = 1) {
  ProgramBuilder b({{"pp", stages}, {"dp", dp}}, microBatches);
  b.program.stage_axis = 0;
  b.program.model = "{}";
  b.program.global_batch = microBatches * dp;
  b.program.batch_axes = {1};
  for (uint64_t number = 0; number < stages; ++number) {
    if (number > 0)
      b.beginStage();
    staged::addStage(b, number, stages, dp);
  }
  return b;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_PROGRAM_STAGEPROGRAMS_H
