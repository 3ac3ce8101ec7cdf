//===- Weights.cpp --------------------------------------------------------===//
#include "runtime/train/Weights.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/StateBox.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/train/Random.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// What a state starts with, element by element of its source tensor.
class Initializer {
public:
  Initializer(const fb::State &state, uint64_t seed)
      : state(state), scale(float(state.init_scale())) {
    std::string_view source = toView(state.source());
    key = getRandomKey(seed, source.empty() ? toView(state.name()) : source);
  }

  /// Elements first + i * stride, i < count.
  void fill(uint64_t first, uint64_t stride, uint64_t count, float *out) const {
    switch (state.init()) {
    case fb::InitKind::Zeros:
      std::fill_n(out, count, 0.0f);
      break;
    case fb::InitKind::Ones:
      std::fill_n(out, count, 1.0f);
      break;
    case fb::InitKind::Normal:
      fillNormal(key, first, stride, count, scale, out);
      break;
    case fb::InitKind::RopeCos:
    case fb::InitKind::RopeSin:
      for (uint64_t i = 0; i < count; ++i)
        out[i] = computeRope(first + i * stride);
      break;
    }
  }

private:
  /// Element [s, i] of a table [seq, frequencies]. The angle is a product of
  /// f32, as in HuggingFace, and rounds as there.
  float computeRope(uint64_t index) const {
    auto frequencies = toSpan(state.init_table());
    uint64_t position = index / frequencies.size();
    float angle = float(position) * frequencies[index % frequencies.size()];
    double value = state.init() == fb::InitKind::RopeCos
                       ? std::cos(double(angle))
                       : std::sin(double(angle));
    return float(value) * scale;
  }

  const fb::State &state;
  float scale;
  uint64_t key;
};

} // namespace

Status cleave::runtime::fillState(const fb::State &state, const Mesh &mesh,
                                  int rank,
                                  const HuggingFaceWeights::Entry *entry,
                                  uint64_t seed, cpu::ThreadPool &pool,
                                  std::span<std::byte> local) {
  auto fail = [&](const std::string &how) {
    return Status::error("state " + quote(toView(state.name())) + " " + how);
  };
  if (state.dtype() == fb::DType::I32) {
    if (entry || state.init() != fb::InitKind::Zeros)
      return fail("is of integers, expects to start as zeros");
    std::memset(local.data(), 0, local.size());
    return {};
  }
  bool isRope = state.init() == fb::InitKind::RopeCos ||
                state.init() == fb::InitKind::RopeSin;
  auto logical = toSpan(state.logical());
  if (!entry && isRope &&
      (logical.size() != 2 || logical[1] != getSize(state.init_table())))
    return fail("has logical shape " + formatList(logical) +
                ", expects [positions, " +
                std::to_string(getSize(state.init_table())) +
                "] as it has so many frequencies");

  StateBox box(state, mesh, rank);
  if (box.getSize() < box.getLocalSize())
    std::memset(local.data(), 0, local.size());
  Initializer initializer(state, seed);
  auto read = [&](uint64_t source, uint64_t stride, uint64_t count,
                  float *out) {
    if (entry)
      readAsFloat(entry->getData(), entry->tensor->dtype, source, stride, count,
                  out);
    else
      initializer.fill(source, stride, count, out);
  };
  pool.parallelFor(
      0, int64_t(box.getSize()), 1 << 14, [&](int64_t begin, int64_t end, int) {
        std::vector<float> values;
        box.forEachRun(
            uint64_t(begin), uint64_t(end),
            [&](uint64_t first, uint64_t source, uint64_t stride,
                uint64_t count) {
              if (state.dtype() == fb::DType::F32) {
                read(source, stride, count,
                     reinterpret_cast<float *>(local.data()) + first);
                return;
              }
              values.resize(count);
              read(source, stride, count, values.data());
              auto *out = reinterpret_cast<uint16_t *>(local.data()) + first;
              for (uint64_t i = 0; i < count; ++i)
                out[i] = cpu::toBf16(values[i]);
            });
      });
  return {};
}

/// As fillState() in the executor's memory; no weights: `entry` is null.
static Status initialize(Executor &executor, const fb::State &state,
                         const HuggingFaceWeights::Entry *entry,
                         uint64_t seed) {
  // Moments, most of what there is.
  if (!entry && state.init() == fb::InitKind::Zeros)
    return executor.clear(*state.operand());
  return executor.write(*state.operand(), [&](std::span<std::byte> local) {
    return fillState(state, executor.getProgram().getMesh(),
                     executor.getCommunicator().getRank(), entry, seed,
                     executor.getThreadPool(), local);
  });
}

/// Rounds parameters to what their copies on this rank hold.
static Status fillCopies(Executor &executor) {
  for (const fb::State *copy : toList(executor.getStage()->states())) {
    if (!isCopy(*copy))
      continue;
    const fb::State *parameter =
        executor.getStage().findState(toView(copy->of()), "parameter");
    auto write = [&](std::span<const std::byte> values) {
      return executor.write(
          *copy->operand(), [&](std::span<std::byte> local) -> Status {
            auto *in = reinterpret_cast<const float *>(values.data());
            auto *out = reinterpret_cast<uint16_t *>(local.data());
            executor.getThreadPool().parallelFor(
                0, int64_t(local.size() / sizeof(uint16_t)), 1 << 14,
                [&](int64_t begin, int64_t end, int) {
                  std::transform(in + begin, in + end, out + begin,
                                 cleave::cpu::toBf16);
                });
            return {};
          });
    };
    CLEAVE_RETURN_IF_ERROR(executor.read(*parameter->operand(), write));
  }
  return {};
}

Status cleave::runtime::initializeStates(Executor &executor,
                                         const HuggingFaceWeights *weights,
                                         uint64_t seed,
                                         std::vector<std::string> &notes) {
  const Program &program = executor.getProgram();
  int rank = executor.getCommunicator().getRank();
  WeightMatch match;
  if (weights) {
    // Tied tensors are read whole, by one rank.
    CLEAVE_RETURN_IF_ERROR(matchWeights(program, *weights, rank == 0, match));
    notes = match.notes;
  }
  for (const fb::State *each : toList(executor.getStage()->states())) {
    const fb::State &state = *each;
    const HuggingFaceWeights::Entry *entry = nullptr;
    if (weights && isWeight(state))
      entry = &match.sources.find(toView(state.source()))->second;
    CLEAVE_RETURN_IF_ERROR(initialize(executor, state, entry, seed));
  }
  CLEAVE_RETURN_IF_ERROR(fillCopies(executor));
  return weights ? weights->check() : Status();
}

Status cleave::runtime::initializeUnsavedStates(Executor &executor) {
  for (const fb::State *state : toList(executor.getStage()->states()))
    if (!isSaved(*state))
      CLEAVE_RETURN_IF_ERROR(
          initialize(executor, *state, /*entry=*/nullptr, /*seed=*/0));
  return fillCopies(executor);
}
