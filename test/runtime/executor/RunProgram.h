//===- RunProgram.h - Runs hand-built programs on local ranks -------------===//
#ifndef CLEAVE_TEST_RUNTIME_EXECUTOR_RUNPROGRAM_H
#define CLEAVE_TEST_RUNTIME_EXECUTOR_RUNPROGRAM_H

#include "runtime/comm/World.h"
#include "runtime/executor/Executor.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <functional>

namespace cleave::test {

/// Threads 0: the program's.
inline runtime::ExecutorOptions makeOptions(int threads, bool poison = true) {
  runtime::ExecutorOptions options;
  options.threads = threads;
  options.poison = poison;
  return options;
}

/// Loads the program and calls `body` with an executor on every rank.
inline runtime::Status
runProgram(const ProgramBuilder &builder,
           const std::function<runtime::Status(runtime::Executor &)> &body,
           runtime::KernelTable kernels = {},
           runtime::ExecutorOptions options = {}) {
  runtime::Program program;
  CLEAVE_RETURN_IF_ERROR(builder.load(program));
  return runtime::runRanks(
      program.getMesh(), {},
      [&](runtime::Communicator &communicator) -> runtime::Status {
        std::unique_ptr<runtime::Executor> executor;
        CLEAVE_RETURN_IF_ERROR(runtime::Executor::create(
            program, communicator, kernels, options, executor));
        return body(*executor);
      });
}

/// Where an operand's bytes lie on a CPU, whose memory is the host's.
inline std::span<std::byte> getBytes(runtime::Executor &executor,
                                     const program::Operand &operand) {
  std::span<std::byte> bytes;
  (void)executor.write(operand, [&](std::span<std::byte> given) {
    bytes = given;
    return runtime::Status();
  });
  return bytes;
}
inline std::span<std::byte> getBytes(runtime::Executor &executor,
                                     const program::State &state) {
  return getBytes(executor, *state.operand());
}
inline std::span<std::byte> getBytes(runtime::Executor &executor,
                                     const program::Output &output) {
  return getBytes(executor, *output.operand());
}

inline std::span<float> toFloatSpan(std::span<std::byte> bytes) {
  return {reinterpret_cast<float *>(bytes.data()), bytes.size() / 4};
}

/// Writes this rank's shard of a global f32 tensor whose element with indices
/// (i0, i1, ...) is `value(indices)`; written by the definition of placements.
inline void
fillShard(runtime::Executor &executor, const program::State &state,
          const std::function<float(const std::vector<uint64_t> &)> &value) {
  std::span<float> shard = toFloatSpan(getBytes(executor, state));
  const runtime::Mesh &mesh = executor.getProgram().getMesh();
  int rank = executor.getCommunicator().getRank();
  std::vector<uint64_t> local, starts;
  for (size_t d = 0; d < runtime::getSize(state.shape()); ++d) {
    uint64_t count = 1, index = 0;
    for (uint8_t axis : runtime::toSpan(state.dims()->Get(d)->axes())) {
      count *= uint64_t(mesh.getSizes()[axis]);
      index = index * uint64_t(mesh.getSizes()[axis]) +
              uint64_t(mesh.getCoordinate(rank, axis));
    }
    local.push_back(state.shape()->Get(d) / count);
    starts.push_back(index * local.back());
  }
  for (uint64_t i = 0; i < shard.size(); ++i) {
    std::vector<uint64_t> indices(local.size());
    uint64_t rest = i;
    for (size_t d = local.size(); d-- > 0; rest /= local[d])
      indices[d] = starts[d] + rest % local[d];
    shard[i] = value(indices);
  }
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_EXECUTOR_RUNPROGRAM_H
