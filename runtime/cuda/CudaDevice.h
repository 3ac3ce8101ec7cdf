//===- CudaDevice.h - Instructions on a GPU -------------------------------===//
//
// The rank's thread hands instructions to CUDA streams, one for each stream of
// the program, in the serial order; what waits for what is events. Generated
// kernels are in the executable, products are cuBLASLt's, attention is cuDNN's
// where it can be, and the rest is the runtime's own kernels (kernels/).
//
// A range of runs is the same in every step but for the values of the schedule,
// which lie in pinned memory that a copy reads when it comes to its turn. So
// the second time that a range is run it is captured as a CUDA graph, and from
// then on is one launch. What is begun is in the streams before the host is
// asked for more: the update of a step is done while the host goes on to the
// next one.
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
  Status run(const RunRange &range, const std::function<Status()> &enqueueAll,
             const std::function<void()> &meanwhile) override;
  Status begin(const RunRange &range,
               const std::function<Status()> &enqueueAll) override;
  Status finish() override;
  void giveUp() override;
  Status enqueue(const BoundInstruction &first,
                 const RunContext &context) override;
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
  /// with the range that computes it, so that nobody stops the device for it.
  struct Brought {
    uint64_t offset, bytes; ///< in the arena
    std::byte *place;       ///< pinned
  };
  /// What a range has from one time that it is run to the next.
  struct Range {
    int timesRun = 0;                         ///< unobserved
    std::vector<CudaInstruction *> schedules; ///< of this range alone
    /// Events. It may be run again before anyone has asked when it ended, but
    /// not twice.
    Handle begin, ends[2];
    Handle graph; ///< cuGraphExec, which records them
  };
  /// One time that a range was run: its events.
  struct Ran {
    void *begin = nullptr, *end = nullptr;
  };

  CudaDevice(const Program &program, Communicator &communicator);
  Status openAll(std::span<const BoundInstruction> instructions,
                 const CleaveCudaCode &code, const DeviceOptions &options);
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
  Status prepareBrought();

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
  Status handOver(const RunRange &range,
                  const std::function<Status()> &enqueueAll);
  Status prepareRange(const RunRange &range, Range &own);
  Status launchRange(const RunRange &range,
                     const std::function<Status()> &enqueueAll, Range &own);
  Status enqueueRange(const RunRange &range,
                      const std::function<Status()> &enqueueAll,
                      const Range &own, unsigned beginFlags);
  Status captureRange(const RunRange &range,
                      const std::function<Status()> &enqueueAll, Range &own);
  Status waitForRanges();
  bool isJudged(const RunRange &range) const;
  bool canBeCaptured() const;
  Status fork();
  Status join();
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
  std::vector<bool> isRecorded; ///< in this range
  PinnedMemory schedules;
  std::vector<PinnedMemory> staging;
  PinnedMemory scalars; ///< where `brought` is
  std::vector<Brought> brought;
  bool isBrought = false; ///< as the arena is now
  std::map<std::pair<size_t, size_t>, Range> ranges;
  /// What was run since the host last waited, in order.
  std::vector<Ran> running;
  void *lastEnd = nullptr; ///< event: of what was run before that

  InstructionObserver *observer = nullptr;
  std::vector<Timed> timed;
  Handle timeOrigin;
  uint64_t originNs = 0;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CUDADEVICE_H
