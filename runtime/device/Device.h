//===- Device.h - What executes a rank's instructions ---------------------===//
//
// The executor goes through the runs of a step; a device does what their
// instructions say, and knows where their operands lie. All else in the runtime
// asks for bytes of an operand, and never learns whose memory they are in.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_DEVICE_DEVICE_H
#define CLEAVE_RUNTIME_DEVICE_DEVICE_H

#include "runtime/abi/Kernel.h"
#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Link.h"
#include "runtime/device/Schedule.h"
#include "runtime/program/Program.h"
#include "runtime/program/Work.h"
#include <cfloat>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// One execution of one instruction. Times are of CLOCK_MONOTONIC.
struct InstructionTime {
  size_t index;        ///< in the rank's stage
  uint64_t microBatch; ///< of its run
  size_t stream;       ///< that it ran in: 0 is the rank's own
  uint64_t beginNs, endNs;
};

/// Told of every instruction after it ran, one call at a time. For traces and
/// phase times.
class InstructionObserver {
public:
  virtual ~InstructionObserver() = default;
  virtual void onInstruction(const InstructionTime &time) = 0;
  /// The rank's own stream waited for another one, before its instruction
  /// `index`.
  virtual void onWait(size_t index, uint64_t beginNs, uint64_t endNs) {
    (void)index, (void)beginNs, (void)endNs;
  }
};

/// What the linked object file brings, or a test's own functions.
struct KernelTable {
  const CleaveKernelEntry *entries = nullptr;
  uint64_t count = 0;
  /// The same kernels for GPUs; null: none.
  const CleaveCudaCode *cuda = nullptr;
};

/// An instruction, resolved for this rank.
struct BoundInstruction {
  const program::Instruction *instruction;
  size_t index; ///< in the rank's stage
  program::Opcode opcode;
  std::span<const program::Operand> operands;
  int peer = 0, channel = 0; ///< messages: the other rank
  int64_t shardIndex = 0;    ///< on the group's axes
  uint64_t shardCount = 1;
  /// How many begin together with it, itself included, which are those behind
  /// it; 0: it begins with one before it.
  size_t bucket = 1;
  Schedule schedule;
};

/// A step changes the state if its loss and gradient norm are below these;
/// otherwise it leaves all as it is (the op xf.guard).
struct StepLimits {
  float loss = FLT_MAX, gradNorm = FLT_MAX;
};

/// What a step depends on beside the state and its batch.
struct StepInputs {
  int64_t step = 0;    ///< counted from 0; the learning rate depends on it
  int64_t updates = 0; ///< steps so far that changed the state
  StepLimits limits = {};
};

/// What an instruction's execution depends on beside its rank.
struct RunContext {
  uint32_t run = 0;
  uint64_t microBatch = 0;
  bool isFirst = true;
  StepInputs inputs = {};
};

/// The values of a Schedule instruction: learning rate, bias corrections and
/// limits.
struct ScheduleValues {
  float values[scheduleValues];
};
ScheduleValues getScheduleValues(const BoundInstruction &bound,
                                 const StepInputs &inputs);

/// What a collective instruction does, but for where its operands lie.
CollectiveWork describeCollective(const program::Instruction &instruction);

/// Makes the groups of all stages' collectives, each by the communicator of its
/// instruction, in the order of the program: to make one is collective over the
/// world.
Status
makeGroups(const Program &program,
           const std::function<Communicator &(const program::Instruction &)>
               &getCommunicator);

struct DeviceOptions {
  /// Compute threads of a rank on CPUs.
  int threads = 1;
  /// Fills the arena with NaN at first, to show reads of what nothing wrote.
  bool poison = false;
  /// All streams as one, in list order.
  bool serial = false;
  /// Not 0: streams sleep at random, from this seed.
  uint64_t delaySeed = 0;
  std::vector<EmulatedLink> links = {};
};

class Device {
public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  /// "4 threads", "NVIDIA H200".
  virtual std::string getName() const = 0;
  /// FLOP/s in products of `type` (F32 or BF16) of a rank's own hardware, 0
  /// where that is not known; none where ranks share cores.
  virtual std::optional<double> getPeakFlops(program::DType type) const {
    (void)type;
    return std::nullopt;
  }

  /// Executes the runs of a step, which `enqueueAll` hands over by enqueue()
  /// and beginUpdate(). A device that has seen a step may repeat it without
  /// being told. `meanwhile` is what the host does once all is handed over,
  /// before it waits.
  ///
  /// It returns once all is done that comes before the update. The host need
  /// not wait for that: it is done before what the device is given next, and
  /// before anyone writes the arena or reads what it changes. A failure of it
  /// may come out only then.
  virtual Status run(const StepInputs &inputs,
                     const std::function<Status()> &enqueueAll,
                     const std::function<void()> &meanwhile) = 0;
  /// Returns when all is done that was begun.
  virtual Status finish() { return Status(); }

  /// Ends what this rank may share with others that wait for it, since it goes
  /// no further; they know by then. Nothing is run after it.
  virtual void giveUp() {}

  /// Executes the instruction, and those that begin together with it, or hands
  /// them to their stream. Before it begins, of each event that it waits for
  /// the latest record in this step is done.
  virtual Status enqueue(const BoundInstruction &first,
                         const RunContext &context) = 0;
  /// What comes next is the update: it begins when all streams have done what
  /// they were given.
  virtual Status beginUpdate() = 0;

  /// Shows `body` bytes [offset, offset + bytes) of the arena, or what it
  /// writes there, which must be all of them. Between steps.
  using Reader = std::function<Status(std::span<const std::byte>)>;
  using Writer = std::function<Status(std::span<std::byte>)>;
  virtual Status read(uint64_t offset, uint64_t bytes, const Reader &body) = 0;
  virtual Status write(uint64_t offset, uint64_t bytes, const Writer &body) = 0;
  /// Makes them zeros, where they are.
  virtual Status clear(uint64_t offset, uint64_t bytes) = 0;

  /// Memory of the host that writeStaged() copies from. The device owns it.
  virtual Status allocateStaging(uint64_t bytes,
                                 std::span<std::byte> &memory) = 0;
  /// Copies such memory to the arena, before the next step. The host need not
  /// wait for it: until that step's run() has returned, the memory must stay as
  /// it is.
  virtual Status writeStaged(uint64_t offset,
                             std::span<const std::byte> staged) = 0;

  /// Seconds since the last call between the end of a step and the begin of the
  /// next one, where the host kept the device waiting. Between steps.
  double takeHostSeconds() { return std::exchange(hostSeconds, 0); }

  /// Null for none; then instructions are not timed. Between steps.
  virtual void setObserver(InstructionObserver *observer) = 0;
  /// Whether observing instructions leaves a step as fast as it is.
  virtual bool observesFreely() const = 0;

protected:
  double hostSeconds = 0; ///< for takeHostSeconds()
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICE_H
