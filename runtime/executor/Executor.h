//===- Executor.h - Runs a program on one rank ----------------------------===//
//
// Thin by design: all offsets, sizes, groups, streams and the order are in the
// program. What depends on the rank is its stage and its coordinates on mesh
// axes. The executor goes through the runs of a step and hands their
// instructions to a device, which executes them and has the arena.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
#define CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/device/Device.h"
#include "runtime/program/Program.h"
#include <memory>
#include <span>
#include <vector>

namespace cleave::runtime {

/// Where a program runs: Auto is a GPU where the executable has code for one
/// and the machine has one, else CPUs.
enum class DeviceKind { Auto, Cpu, Cuda };

struct ExecutorOptions : DeviceOptions {
  /// Threads 0: the program's, which is also the most, since it sizes the
  /// workspaces.
  ExecutorOptions() { threads = 0; }

  DeviceKind device = DeviceKind::Auto;
  ScheduleOverrides schedule;
};

class Executor {
public:
  /// Makes the device, with the arena, the kernels and the groups; collective.
  /// The program, the kernels and the communicator outlive the executor.
  static Status create(const Program &program, Communicator &communicator,
                       KernelTable kernels, const ExecutorOptions &options,
                       std::unique_ptr<Executor> &executor);

  /// Runs all instructions, and returns once those before the update are done;
  /// the device may do the update while the host goes on, but for the first
  /// time. `meanwhile`: what the host does while the device computes.
  Status runStep(
      const StepInputs &inputs, const std::function<void()> &meanwhile = [] {});
  /// The same where every step so far changed the state, and no limits.
  Status runStep(int64_t step) { return runStep({step, step}); }

  /// See Device.
  Status finish() { return device->finish(); }
  void giveUp() { device->giveUp(); }
  double takeHostSeconds() { return device->takeHostSeconds(); }

  /// Null for none; then instructions are not timed. Between steps.
  void setObserver(InstructionObserver *observer) {
    device->setObserver(observer);
  }

  const Program &getProgram() const { return program; }
  /// This rank's.
  const Stage &getStage() const { return stage; }
  Communicator &getCommunicator() const { return communicator; }
  const Device &getDevice() const { return *device; }
  /// For work of the host.
  cpu::ThreadPool &getThreadPool() { return pool; }

  /// Shows `body` the bytes that an operand covers for micro-batch 0, such as
  /// this rank's shard of a state; or what it writes there, which must be all
  /// of them. Between steps.
  Status read(const program::Operand &operand, const Device::Reader &body);
  Status write(const program::Operand &operand, const Device::Writer &body);
  Status clear(const program::Operand &operand);
  /// The same of a device's staging memory: see Device.
  Status allocateStaging(uint64_t bytes, std::span<std::byte> &memory) {
    return device->allocateStaging(bytes, memory);
  }
  Status writeStaged(const program::Operand &operand,
                     std::span<const std::byte> staged);

  /// Learning rate of a step; 0 where the stage has no Schedule.
  double getLearningRate(int64_t step) const;

  uint64_t getArenaBytes() const { return stage->arena_bytes(); }
  /// Highest end of an operand that was used so far.
  uint64_t getHighWaterBytes() const { return highWater; }

private:
  Executor(const Program &program, Communicator &communicator, int threads);
  Status bind(const ExecutorOptions &options);

  Status enqueueStep(const StepInputs &inputs);
  Status enqueueRun(size_t run, const StepInputs &inputs);
  void noteUse(const program::Operand &operand, uint64_t microBatch);

  const Program &program;
  Communicator &communicator;
  Stage stage;
  cpu::ThreadPool pool;
  std::vector<BoundInstruction> instructions;
  uint64_t highWater = 0;
  bool hasRun = false;
  std::unique_ptr<Device> device; ///< last: it uses all of them
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
