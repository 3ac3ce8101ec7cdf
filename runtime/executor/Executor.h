//===- Executor.h - Runs a program on one rank ----------------------------===//
//
// Thin by design: all offsets, sizes, groups and the order are in the program.
// What depends on the rank is its stage and its coordinates on mesh axes.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
#define CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/abi/Kernel.h"
#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/executor/Arena.h"
#include "runtime/executor/Schedule.h"
#include "runtime/program/Program.h"
#include <memory>
#include <span>
#include <vector>

namespace cleave::runtime {

/// One execution of one instruction. Times are of CLOCK_MONOTONIC.
struct InstructionTime {
  size_t index;        ///< in the rank's stage
  uint64_t microBatch; ///< of its run
  uint64_t beginNs, endNs;
};

/// Told of every instruction right after it ran, on the rank's thread. For
/// traces and phase times.
class InstructionObserver {
public:
  virtual ~InstructionObserver() = default;
  virtual void onInstruction(const InstructionTime &time) = 0;
};

/// What the linked object file brings, or a test's own functions.
struct KernelTable {
  const CleaveKernelEntry *entries = nullptr;
  uint64_t count = 0;
};

struct ExecutorOptions {
  /// Compute threads; 0: the program's, which is also the most, since it sizes
  /// the workspaces.
  int threads = 0;
  ScheduleOverrides schedule;
  /// Fills the arena with NaN at first, to show reads of what nothing wrote.
  bool poison = false;
};

class Executor {
public:
  /// Allocates the arena, finds the kernels and makes the groups; collective.
  /// The program and the communicator outlive the executor.
  static Status create(const Program &program, Communicator &communicator,
                       KernelTable kernels, const ExecutorOptions &options,
                       std::unique_ptr<Executor> &executor);

  /// Runs all instructions. `step` counts from 0; the schedule depends on it.
  Status runStep(int64_t step);
  /// The same in two halves, so that the second may be left out: all up to the
  /// first run that changes a parameter or a moment, and the rest.
  /// `updates`: steps so far whose second half ran, for the optimizer's bias
  /// corrections.
  Status computeGradients(int64_t step, int64_t updates);
  Status applyUpdate();
  /// Ends a step without its second half.
  void skipUpdate();

  /// Null for none; then instructions are not timed.
  void setObserver(InstructionObserver *newObserver) { observer = newObserver; }

  const Program &getProgram() const { return program; }
  /// This rank's.
  const Stage &getStage() const { return stage; }
  Communicator &getCommunicator() const { return communicator; }
  cpu::ThreadPool &getThreadPool() { return pool; }

  /// This rank's shard of what its stage has; what the operand covers, for
  /// micro-batch 0.
  std::span<std::byte> getBytes(const program::Operand &operand);
  std::span<std::byte> getBytes(const program::State &state) {
    return getBytes(*state.operand());
  }
  std::span<std::byte> getBytes(const program::Output &output) {
    return getBytes(*output.operand());
  }
  /// i32 [micro_batches, local batch, seq_len]; empty where the stage has none.
  std::span<int32_t> getTokens() { return getIds(stage->tokens()); }
  std::span<int32_t> getTargets() { return getIds(stage->targets()); }

  /// Learning rate of a step; 0 where the stage has no Schedule.
  double getLearningRate(int64_t step) const;

  uint64_t getArenaBytes() const { return arena.getSize(); }
  /// Highest end of an operand that was used so far.
  uint64_t getHighWaterBytes() const { return highWater; }

private:
  /// An instruction, resolved for this rank.
  struct Step {
    const program::Instruction *instruction;
    program::Opcode opcode;
    std::span<const program::Operand> operands;
    std::span<const int64_t> ints;
    std::span<const double> floats;
    const Group *group = nullptr; ///< collectives
    int peer = 0, channel = 0;    ///< messages: the other rank
    int64_t shardIndex = 0;       ///< on the group's axes
    uint64_t shardCount = 1;
    CleaveKernelFn kernel = nullptr;
    int64_t rows = 0, grain = 0;
    Schedule schedule;
  };

  Executor(const Program &program, Communicator &communicator, int threads);
  Status allocate();
  Status makeGroups();
  Status prepare(KernelTable kernels, const ScheduleOverrides &overrides);
  Status prepareLaunch(KernelTable kernels, Step &step) const;

  Status runRange(size_t begin, size_t end);
  Status runSegment(size_t run);
  Status execute(const Step &step);
  Status executeTimed(const Step &step, size_t index);
  void launch(const Step &step);
  void gemm(const Step &step);
  void attention(const Step &step);
  void attentionGrad(const Step &step);
  void embedding(const Step &step);
  void embeddingGrad(const Step &step);
  void slice(const Step &step);
  void schedule(const Step &step);
  Status collective(const Step &step);

  /// Operand i of the current micro-batch.
  std::byte *get(const Step &step, size_t i);
  template <typename T>
  T *getAs(const Step &step, size_t i) {
    return reinterpret_cast<T *>(get(step, i));
  }
  /// Whether an output of `mode` is added to.
  bool accumulates(int64_t mode) const {
    return mode == 1 || (mode == 2 && !isFirst);
  }
  std::span<int32_t> getIds(const program::Operand *operand);

  const Program &program;
  Communicator &communicator;
  Stage stage;
  cpu::ThreadPool pool;
  Arena arena;
  std::vector<Step> steps;
  std::vector<void *> buffers; ///< of the current launch
  InstructionObserver *observer = nullptr;
  uint64_t highWater = 0;
  // Of the current run.
  uint64_t microBatch = 0;
  bool isFirst = true;
  int64_t currentStep = 0, currentUpdates = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
