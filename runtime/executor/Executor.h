//===- Executor.h - Runs a program on one rank ----------------------------===//
//
// Thin by design: all offsets, sizes, groups, streams and the order are in the
// program. What depends on the rank is its stage and its coordinates on mesh
// axes. The rank's thread goes through the runs; streams beside its own have
// threads (Stream.h).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
#define CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/base/Status.h"
#include "runtime/executor/Arena.h"
#include "runtime/executor/Stream.h"
#include "runtime/program/Program.h"
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace cleave::runtime {

/// One execution of one instruction. Times are of CLOCK_MONOTONIC.
struct InstructionTime {
  size_t index;        ///< in the rank's stage
  uint64_t microBatch; ///< of its run
  size_t stream;       ///< that it ran in: 0 is the rank's thread
  uint64_t beginNs, endNs;
};

/// Told of every instruction right after it ran, one call at a time, on the
/// thread of its stream. For traces and phase times.
class InstructionObserver {
public:
  virtual ~InstructionObserver() = default;
  virtual void onInstruction(const InstructionTime &time) = 0;
  /// The rank's thread waited for another stream, before its instruction
  /// `index`.
  virtual void onWait(size_t index, uint64_t beginNs, uint64_t endNs) {
    (void)index, (void)beginNs, (void)endNs;
  }
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
  /// All streams on the rank's thread, in list order.
  bool serial = false;
  /// Not 0: streams sleep at random, from this seed.
  uint64_t delaySeed = 0;
  std::vector<EmulatedLink> links = {};
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

  /// Null for none; then instructions are not timed. Between steps.
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
  uint64_t getHighWaterBytes() const;

private:
  Executor(const Program &program, Communicator &communicator, Arena arena,
           const ExecutorOptions &options, int threads);
  Status startStreams(const ExecutorOptions &options);
  /// The communicator of an instruction's stream.
  Communicator &getCommunicator(const program::Instruction &instruction);
  Status makeGroups();
  Status prepare(KernelTable kernels, const ExecutorOptions &options);
  Status prepareLaunch(KernelTable kernels, BoundInstruction &bound) const;
  void findBuckets(const ExecutorOptions &options);

  Status runRange(size_t begin, size_t end);
  Status runSegment(size_t run);
  Status runInstruction(size_t index, const RunContext &context);
  Status execute(Stream &stream, const BoundInstruction &bound,
                 const RunContext &context);
  void observe(size_t number, const BoundInstruction &first,
               const RunContext &context, uint64_t begin, uint64_t end);
  std::vector<StreamPoint> findWaits(std::span<const BoundInstruction> bucket);
  Status waitFor(StreamPoint point);
  Status joinStreams();
  std::span<int32_t> getIds(const program::Operand *operand);

  const Program &program;
  Communicator &communicator;
  Stage stage;
  cpu::ThreadPool pool;
  Arena arena;
  std::vector<BoundInstruction> instructions;
  InstructionObserver *observer = nullptr;
  std::mutex observing;
  uint64_t highWater = 0; ///< of what getBytes() gave
  int64_t currentStep = 0, currentUpdates = 0;
  RandomDelays delays; ///< of the rank's thread

  /// The instructions of each stream so far, of those handed over too, and of
  /// each event the last that records it, in this step.
  std::vector<uint64_t> issued;
  std::vector<StreamPoint> recorded;
  Progress progress;
  LinkClock links;
  Stream ownStream;
  /// By their number; none of 0, and none where all run on the rank's thread.
  /// Last: their threads use all of the above.
  std::vector<std::unique_ptr<StreamThread>> threads;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
