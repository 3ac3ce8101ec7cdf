//===- NcclGpus.h - Ranks that are processes, by NCCL ---------------------===//
//
// Each group of each stream has an NCCL communicator of its own, whose id goes
// from the group's first rank to the others over the host's communicator. What
// is gathered or scattered along an inner dim is packed, or unpacked, by a
// kernel, so that NCCL moves contiguous bytes.
//
// A message has a communicator of its two ranks for each channel. ncclSend ends
// when the receiver has come to its ncclRecv, so it is given a copy, on a
// stream of the channel's own, and the program's stream goes on.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_NCCLGPUS_H
#define CLEAVE_RUNTIME_CUDA_NCCLGPUS_H

#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/Kernel.h"
#include "runtime/cuda/NcclApi.h"
#include "runtime/program/Program.h"
#include <map>

namespace cleave::runtime::cuda {

/// The library of the process.
class Nccl {
public:
  /// Opens it at the first call. Fails where it is missing or older than 2.18.
  static Status open(const Nccl *&library);

  int getVersion() const { return version; }
  Status check(int result, const char *call, const char *file, int line) const;

  NcclApi api;

private:
  Status load();

  int version = 0;
};

class NcclGpus final : public GpuCommunicator {
public:
  /// For one stream of the program, or for all of them; collective over the
  /// world. `host`: whose groups are the program's. All arguments outlive the
  /// communicator.
  static Status create(const Program &program, size_t stream, bool ofAll,
                       Communicator &host, const Context &context,
                       const OwnKernels &kernels,
                       std::unique_ptr<GpuCommunicator> &communicator);
  ~NcclGpus() override;

  Status run(const Group &group, std::span<const GpuCollective> collectives,
             void *stream) override;
  Status send(int to, int channel, Address data, uint64_t bytes,
              void *stream) override;
  Status receive(int from, int channel, Address data, uint64_t bytes,
                 void *stream) override;
  Status join(void *stream) override;
  Status check() override;
  void abort() override;
  bool canBeCaptured() const override { return true; }

private:
  /// Of a message's two ranks.
  struct Channel {
    void *comm = nullptr;
    int peer = 0; ///< in comm
    Handle stream, ready, sent;
    DeviceMemory copy;
    bool isUsed = false; ///< since the last join
  };

  NcclGpus(const Nccl &nccl, Communicator &host, const Context &context,
           const OwnKernels &kernels)
      : nccl(nccl), host(host), context(context), kernels(kernels) {}
  Status connectGroup(const Group &group);
  Status connectChannel(int channel, int peerRank, bool isSender);
  Status getScratch(uint64_t bytes, size_t which, Address &address);
  Status pack(Parts parts, uint64_t ranks, Address in, Address out,
              bool unpacks, void *stream);
  Status runOne(const Group &group, const GpuCollective &each, void *stream);

  const Nccl &nccl;
  Communicator &host;
  const Context &context;
  const OwnKernels &kernels;
  std::map<const Group *, void *> groups;
  std::map<int, Channel> channels;
  DeviceMemory scratch[2];
  bool isAborted = false;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_NCCLGPUS_H
