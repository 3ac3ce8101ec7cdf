//===- CpuDevice.h - Instructions on the cores of a machine ---------------===//
#ifndef CLEAVE_RUNTIME_DEVICE_CPUDEVICE_H
#define CLEAVE_RUNTIME_DEVICE_CPUDEVICE_H

#include "runtime/device/Arena.h"
#include "runtime/device/Stream.h"
#include <memory>
#include <mutex>

namespace cleave::runtime {

/// The rank's thread executes its own stream; streams beside it have threads
/// (Stream.h). Collectives are the communicator's.
class CpuDevice final : public Device {
public:
  /// Allocates the arena, finds the kernels and makes the groups; collective.
  /// All arguments but the options outlive the device.
  static Status create(const Program &program, Communicator &communicator,
                       std::span<const BoundInstruction> instructions,
                       KernelTable kernels, const DeviceOptions &options,
                       cpu::ThreadPool &pool, std::unique_ptr<Device> &device);

  std::string getName() const override;
  Status run(const StepInputs &inputs,
             const std::function<Status()> &enqueueAll,
             const std::function<void()> &meanwhile) override;
  Status enqueue(const BoundInstruction &first,
                 const RunContext &context) override;
  Status beginUpdate() override { return joinStreams(); }
  Status read(uint64_t offset, uint64_t bytes, const Reader &body) override;
  Status write(uint64_t offset, uint64_t bytes, const Writer &body) override;
  Status clear(uint64_t offset, uint64_t bytes) override;
  Status allocateStaging(uint64_t bytes, std::span<std::byte> &memory) override;
  Status writeStaged(uint64_t offset,
                     std::span<const std::byte> staged) override;
  void setObserver(InstructionObserver *newObserver) override {
    observer = newObserver;
  }
  bool observesFreely() const override { return true; }

private:
  CpuDevice(const Program &program, Communicator &communicator, Arena arena,
            const DeviceOptions &options, cpu::ThreadPool &pool);
  Status startStreams(const DeviceOptions &options);
  /// The communicator of an instruction's stream.
  Communicator &getCommunicator(const program::Instruction &instruction);
  Status prepare(std::span<const BoundInstruction> bound, KernelTable kernels,
                 const DeviceOptions &options);
  Status prepareLaunch(KernelTable kernels, CpuInstruction &bound) const;

  Status execute(Stream &stream, const CpuInstruction &bound,
                 const RunContext &context);
  void observe(size_t number, const CpuInstruction &first,
               const RunContext &context, uint64_t begin, uint64_t end);
  std::vector<StreamPoint> findWaits(std::span<const CpuInstruction> bucket);
  Status waitFor(StreamPoint point);
  Status joinStreams();

  const Program &program;
  Communicator &communicator;
  Stage stage;
  cpu::ThreadPool &pool;
  Arena arena;
  std::vector<std::unique_ptr<std::byte[]>> staging;
  std::vector<CpuInstruction> instructions;
  uint64_t lastEndNs = 0; ///< of a step; 0: there was none
  InstructionObserver *observer = nullptr;
  std::mutex observing;
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

#endif // CLEAVE_RUNTIME_DEVICE_CPUDEVICE_H
