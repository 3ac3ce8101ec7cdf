//===- CudaDevice.h - Instructions on a GPU -------------------------------===//
//
// The rank's thread hands instructions to CUDA streams, one for each stream of
// the program, in the serial order; what waits for what is events. Generated
// kernels are in the executable, products are cuBLASLt's, attention is cuDNN's
// where it can be, and the rest is the runtime's own kernels (kernels/).
//
// A step is the same every time but for the values of the schedule, which lie
// in pinned memory that a copy reads when it comes to its turn. So the second
// step is captured as a CUDA graph, and from then on each is one launch. The
// GPU judges for itself whether there is an update (the op xf.guard); what it
// judges by is copied to the host beside the update, in a stream of its own, so
// that the host can hand over the next step before the GPU is done with this.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_CUDADEVICE_H
#define CLEAVE_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/comm/Communicator.h"
#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/CudnnAttention.h"
#include "runtime/cuda/Kernel.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/device/Device.h"
#include <map>
#include <memory>
#include <vector>

namespace cleave::runtime::cuda {

/// What cuBLASLt may use beside the arena, of each stream: as its makers advise
/// for Hopper.
constexpr uint64_t matmulWorkspace = uint64_t(32) << 20;

/// What an attention's choice leaves of the GPU to what is allocated after it:
/// the workspaces of other streams, and code that is yet to be loaded.
constexpr uint64_t scratchReserve = uint64_t(256) << 20;

/// Whether this machine has a GPU that a CUDA driver knows; `absence`: why not.
/// Fails where there is a driver that cannot be used.
Status findDevices(bool &hasGpu, std::string &absence);

class CudaDevice final : public Device {
public:
  /// Takes a GPU, allocates the arena, loads the code and chooses algorithms of
  /// products; collective. All arguments but the options outlive the device.
  static Status create(const Program &program, Communicator &communicator,
                       std::span<const BoundInstruction> instructions,
                       const CleaveCudaCode &code, const DeviceOptions &options,
                       std::unique_ptr<Device> &device);
  ~CudaDevice() override;

  /// With who computes attention, where the program has any.
  std::string getName() const override;
  std::optional<double> getPeakFlops(program::DType type) const override {
    return peakFlops[type == program::DType::BF16];
  }
  Status run(const StepInputs &inputs,
             const std::function<Status()> &enqueueAll,
             const std::function<void()> &meanwhile) override;
  Status finish() override;
  void giveUp() override;
  Status enqueue(const BoundInstruction &first,
                 const RunContext &context) override;
  Status beginUpdate() override;
  Status read(uint64_t offset, uint64_t bytes, const Reader &body) override;
  Status write(uint64_t offset, uint64_t bytes, const Writer &body) override;
  Status clear(uint64_t offset, uint64_t bytes) override;
  Status allocateStaging(uint64_t bytes, std::span<std::byte> &memory) override;
  Status writeStaged(uint64_t offset,
                     std::span<const std::byte> staged) override;
  void setObserver(InstructionObserver *newObserver) override {
    observer = newObserver;
  }
  bool observesFreely() const override { return false; }

private:
  /// What a GPU needs to know of an instruction.
  struct CudaInstruction : BoundInstruction {
    std::vector<Kernel> kernels = {}; ///< launched one after the other
    /// Does several launches of this one's kernel at once; no function: there
    /// is none.
    Kernel multi = {};
    Address table = 0; ///< of the launches that this one does; 0: its own
    Matmul *matmul = nullptr;
    const CudnnAttention *attention = nullptr; ///< in place of the kernels
    const Group *group = nullptr;              ///< collectives
    uint64_t scratchBytes = 0;                 ///< that it uses of its stream's
    uint64_t joinedBytes = 0;         ///< likewise, where its blocks meet
    ScheduleValues *values = nullptr; ///< pinned
  };
  /// One beside a program's stream.
  struct Side {
    Handle handle;
    Handle end; ///< event: joined by the stream
  };
  /// A program's stream.
  struct Stream {
    Handle handle;
    std::vector<Side> sides; ///< lanes from 1 on
    Handle forked;           ///< event: what lanes begin behind
    DeviceMemory scratch;
    DeviceMemory joined; ///< CleaveCudaKernel's scratch, nothing else's
    Handle begin, end;   ///< events: forked from, joined by stream 0
    std::unique_ptr<GpuCommunicator> communicator; ///< null: of one rank
  };
  /// An instruction that was observed: events around it.
  struct Timed {
    size_t index;
    uint64_t microBatch;
    size_t stream;
    Handle begin, end;
  };
  /// What products are timed with.
  struct Trials {
    DeviceMemory workspace;
    Handle begin, end; ///< events
  };
  /// A scalar that a step is judged by, such as its loss: copied to the host
  /// with the step, so that nobody stops the device for it.
  struct Brought {
    uint64_t offset, bytes; ///< in the arena
    std::byte *place;       ///< pinned
  };
  /// How scalars come to the host beside the update, and how it knows that they
  /// are there: the step's number, which goes to the device with the step,
  /// comes back behind them, and an event is done. The event alone would not
  /// do: an event that a graph records may be that of the step before until the
  /// graph comes to it. Nor would the number, as CUDA promises of events alone
  /// that the host sees what is before them: where the event is late, the end
  /// of the step is waited for instead.
  struct Bringer {
    Handle stream;
    Handle begin, end; ///< events: forked from, joined by stream 0
    Handle done;       ///< event: which the host asks for
    PinnedMemory host; ///< the scalars, then the numbers sent and come back
    DeviceMemory number;
    uint64_t *sent = nullptr, *returned = nullptr;
    std::vector<Brought> scalars;
    bool isEventLate = false; ///< it was that of the step before, once
    bool isDone = false;      ///< all of this step is enqueued
    bool isCurrent = false;   ///< they are as in the arena now
  };

  CudaDevice(const Program &program, Communicator &communicator);
  Status openAll(std::span<const BoundInstruction> instructions,
                 const CleaveCudaCode &code, const DeviceOptions &options);
  /// The GPU and its libraries, with which ranks meet later.
  Status openAlone(const CleaveCudaCode &code, const DeviceOptions &options);
  Status open(const DeviceOptions &options);
  Status connect();
  Status prepare(std::span<const BoundInstruction> instructions,
                 const CleaveCudaCode &code);
  Status prepare(CudaInstruction &each, const CleaveCudaCode &code);
  Status findOwnKernels(CudaInstruction &each);
  Status prepareLaunch(CudaInstruction &each, const CleaveCudaCode &code);
  Status prepareMatmul(CudaInstruction &each);
  Status prepareAttention(CudaInstruction &each);
  Status agreeOnAttention();
  Status prepareLanes(std::span<const BoundInstruction> bound);
  Status prepareTables();
  /// The first instruction of each product, in the order of the program.
  using Products = std::vector<const CudaInstruction *>;
  Products getProducts() const;
  int getFirstRank(size_t stageNumber) const;
  Status chooseAlgorithms();
  Status findAlgorithms(const Products &products);
  Status shareAlgorithms(const Products &products);
  Status takeAlgorithms(const Products &products, std::string_view text,
                        int first);
  Status prepareTrials(Trials &trials) const;
  Status findFastest(const CudaInstruction &product, const Trials &trials);
  Status warmUp();
  Status prepareBringer();

  Status enqueueAlone(const CudaInstruction &each, const RunContext &context,
                      Stream &stream);
  /// All kernels of an instruction, each with the same structure.
  template <typename Params>
  Status launch(const CudaInstruction &each, Params params,
                Stream &stream) const {
    void *parameters[] = {&params};
    for (const Kernel &kernel : each.kernels)
      CLEAVE_RETURN_IF_ERROR(
          kernel.launch(*driver, parameters, stream.handle.get()));
    return Status();
  }
  Status enqueueKernel(const CudaInstruction &each, const RunContext &context,
                       Stream &stream);
  Status launchKernel(const CudaInstruction &each, const RunContext &context,
                      const Stream &stream, const Handle &where) const;
  Status forkLanes(const Lane &lane, Stream &stream);
  Status joinLanes(const Lane &lane, Stream &stream);
  Status enqueueMatmul(const CudaInstruction &each, const RunContext &context,
                       Stream &stream);
  Status enqueueAttention(const CudaInstruction &each,
                          const RunContext &context, Stream &stream);
  Status enqueueAttentionGrad(const CudaInstruction &each,
                              const RunContext &context, Stream &stream);
  Status enqueueCollective(std::span<const CudaInstruction> bucket,
                           const RunContext &context, Stream &stream);
  Address get(const CudaInstruction &each, size_t operand,
              const RunContext &context) const;
  template <typename T>
  T *point(const CudaInstruction &each, size_t operand,
           const RunContext &context) const {
    return toPointer<T>(get(each, operand, context));
  }
  Address getScratch(const Stream &stream, uint64_t offset = 0) const;

  Status attempt(const std::function<Status()> &body);
  Status handOver(const StepInputs &inputs,
                  const std::function<Status()> &enqueueAll);
  Status launchStep(const std::function<Status()> &enqueueAll);
  Status enqueueStep(const std::function<Status()> &enqueueAll);
  Status captureStep(const std::function<Status()> &enqueueAll);
  Status bring();
  bool hasReturned() const;
  Status waitForBrought();
  bool canBeCaptured() const;
  Status fork();
  Status join();
  Status poll(const Handle &event, bool &isDone);
  bool isUsable() const;
  Status synchronize();
  Status measureHost();
  void fail(const Status &status);
  Status reportTimes();

  const Program &program;
  Communicator &communicator;
  Stage stage;
  const Driver *driver = nullptr;
  const CublasLt *cublasLt = nullptr;
  double peakFlops[2] = {}; ///< CleaveCudaCode's
  bool isSerial = false;
  bool sharesGpu = false; ///< with the other ranks, threads of this process
  std::unique_ptr<Context> context;
  DeviceMemory arena;
  Handle generated; ///< the module of generated kernels
  OwnKernels ownKernels;
  void *matmulHandle = nullptr;
  std::map<MatmulShape, std::unique_ptr<Matmul>> matmuls;
  CudnnAttentions attentions;
  uint64_t attentionScratch = 0; ///< bytes that it may take on every rank
  std::vector<CudaInstruction> instructions;
  std::vector<Lane> lanes; ///< of each
  DeviceMemory tables;     ///< of launches that are one
  std::vector<Stream> streams;
  std::vector<Handle> events;   ///< by their number; none of 0
  std::vector<bool> isRecorded; ///< in this step
  PinnedMemory schedules;
  std::vector<CudaInstruction *> scheduled; ///< those with values there
  std::vector<PinnedMemory> staging;
  Bringer bringer;
  bool hasRun = false; ///< a step that nobody observed
  Handle graph;        ///< cuGraphExec: a step
  /// Of events that the host asks for.
  unsigned recordFlags = eventRecordDefault;
  /// Events: of the step, and the end of the one before it.
  Handle stepBegin, stepEnd, lastEnd;
  bool isRunning = false; ///< the host has not waited for the step's end

  InstructionObserver *observer = nullptr;
  std::vector<Timed> timed;
  Handle timeOrigin;
  uint64_t originNs = 0;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CUDADEVICE_H
