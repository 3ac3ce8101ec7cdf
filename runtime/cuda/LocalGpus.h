//===- LocalGpus.h - Ranks that are threads, on GPUs of one process -------===//
//
// All ranks of a group meet on the host when they enqueue a collective, and
// tell each other where their buffers are; then the first of them does the work
// for all on its stream, behind what the others have enqueued so far, and the
// others go on behind it. So programs of many ranks run on a single card. A
// message is a copy in memory that the sender keeps for it.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_LOCALGPUS_H
#define CLEAVE_RUNTIME_CUDA_LOCALGPUS_H

#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/Kernel.h"
#include <atomic>
#include <deque>
#include <mutex>

namespace cleave::runtime::cuda {

class LocalGpus final : public GpuCommunicator {
public:
  /// `host`: of ranks that are threads of this process. All arguments outlive
  /// the communicator.
  static Status create(Communicator &host, const Context &context,
                       const OwnKernels &kernels,
                       std::unique_ptr<GpuCommunicator> &communicator);

  Status run(const Group &group, std::span<const GpuCollective> collectives,
             void *stream) override;
  Status send(int to, int channel, Address data, uint64_t bytes,
              void *stream) override;
  Status receive(int from, int channel, Address data, uint64_t bytes,
                 void *stream) override;
  // All of it is on the stream itself, and fails as it is enqueued.
  Status join(void *) override { return Status(); }
  Status check() override { return Status(); }
  void abort() override {}
  bool canBeCaptured() const override { return false; }
  void abandon() override {}
  void keep(DeviceMemory memory) override;

  ~LocalGpus() override;

private:
  /// What a rank tells the others of a collective.
  struct Offer {
    Address in = 0, out = 0;
    void *ready = nullptr; ///< event: its stream has come to the collective
    void *done = nullptr;  ///< event: of the first rank, the work is done
  };
  /// A message's copy. The receiver says when it is free again.
  struct Parcel {
    DeviceMemory memory;
    Handle sent, taken; ///< events
    std::atomic<bool> isFree{true};
  };
  /// What is sent of it.
  struct Ticket {
    Parcel *parcel = nullptr;
  };
  /// What other ranks may hold pointers to.
  struct Belongings {
    Handle ready, done; ///< events
    std::deque<std::unique_ptr<Parcel>> parcels;
  };
  /// Of all ranks of the process: what those have left that have ended. One
  /// that fails ends at its own time, while another may be about to wait for
  /// its event, to take its message or to read its memory, so all of that is
  /// there until the last one ends.
  struct Estate {
    std::mutex mutex;
    std::vector<Belongings> belongings;
    std::vector<DeviceMemory> memories;
  };
  static std::shared_ptr<Estate> getEstate();

  LocalGpus(Communicator &host, const Context &context,
            const OwnKernels &kernels)
      : host(host), context(context), kernels(kernels), estate(getEstate()) {}
  Status doAll(const GpuCollective &work, std::span<const Offer> offers,
               void *stream);
  Status reduce(const GpuCollective &work, std::span<const Offer> offers,
                void *stream);
  Status move(const GpuCollective &work, std::span<const Offer> offers,
              void *stream);
  Status copyPart(Parts from, uint64_t fromPart, Address in, Parts to,
                  uint64_t toPart, Address out, uint64_t ranks, void *stream);

  Communicator &host;
  const Context &context;
  const OwnKernels &kernels;
  std::shared_ptr<Estate> estate;
  Belongings own;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_LOCALGPUS_H
