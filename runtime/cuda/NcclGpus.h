//===- NcclGpus.h - Ranks that are processes, by NCCL ---------------------===//
//
// Each group of each stream has an NCCL communicator of its own, whose id goes
// from the group's first rank to the others over the host's communicator. A
// rank has all of them at a time, in an order that all ranks agree on: to make
// one and to destroy it are collective. NCCL moves contiguous bytes. What is
// gathered or scattered along an inner dim is moved piece by piece, begun by
// one start, where it has few of them; else a kernel packs or unpacks it.
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
  static constexpr const char *fileName = "libnccl.so.2";
  static constexpr int oldest = 21800; ///< as getVersion()

  /// Opens it at the first call. Fails where it is missing or too old.
  static Status open(const Nccl *&library);

  /// 10000 * the major number + 100 * the minor one + the patch.
  int getVersion() const { return version; }
  /// "2.18" of 21800
  static std::string getVersionText(int version);
  Status check(int result, const char *call, const char *file, int line) const;

  NcclApi api;

private:
  Status load();

  int version = 0;
};

/// All communicators of NCCL that a rank has, in the order in which they were
/// made.
class NcclConnections {
public:
  explicit NcclConnections(const Nccl &nccl) : nccl(nccl) {}
  NcclConnections(const NcclConnections &) = delete;
  NcclConnections &operator=(const NcclConnections &) = delete;
  ~NcclConnections();

  /// Makes one, of which messages say `what` it is for.
  Status add(int ranks, const NcclId &id, int rank, std::string what,
             void *&comm);
  /// All ranks have theirs, or will: until then, the end is an abort().
  void setMade() { isMade = true; }
  /// Whether one of them has failed in flight.
  Status check() const;
  /// All at once: what is in flight of one may be behind what is of another.
  void abort();
  /// None of them is used any more, nor destroyed.
  void abandon() { made.clear(); }

private:
  struct Connection {
    void *comm;
    std::string what;
  };

  const Nccl &nccl;
  std::vector<Connection> made;
  bool isMade = false;
};

class NcclGpus final : public GpuCommunicator {
public:
  /// One for each of the program's streams, or one for all of them; collective
  /// over the world. `host`: whose groups are the program's. All arguments
  /// outlive the communicators.
  static Status
  create(const Program &program, size_t count, Communicator &host,
         const Context &context, const OwnKernels &kernels,
         std::vector<std::unique_ptr<GpuCommunicator>> &communicators);

  Status run(const Group &group, std::span<const GpuCollective> collectives,
             void *stream) override;
  Status send(int to, int channel, Address data, uint64_t bytes,
              void *stream) override;
  Status receive(int from, int channel, Address data, uint64_t bytes,
                 void *stream) override;
  Status join(void *stream) override;
  Status check() override { return connections->check(); }
  void abort() override { connections->abort(); }
  bool canBeCaptured() const override { return true; }
  void abandon() override { connections->abandon(); }
  // Another process reads none of it.
  void keep(DeviceMemory) override {}

private:
  /// Of a message's two ranks.
  struct Channel {
    void *comm = nullptr;
    int peer = 0; ///< in comm
    Handle stream, ready, sent;
    DeviceMemory copy;
    bool isUsed = false; ///< since the last join
  };

  NcclGpus(const Nccl &nccl, std::shared_ptr<NcclConnections> connections,
           Communicator &host, const Context &context,
           const OwnKernels &kernels)
      : nccl(nccl), connections(std::move(connections)), host(host),
        context(context), kernels(kernels) {}
  /// `first`: the instruction that needs it first.
  Status connectGroup(const Group &group, const std::string &first);
  /// `bytes`: of the largest message; `first`: as above.
  Status connectChannel(int channel, int peerRank, bool isSender,
                        uint64_t bytes, const std::string &first);
  Address getScratch(size_t which) const { return scratch[which].getAddress(); }
  Status pack(Parts parts, uint64_t ranks, Address in, Address out,
              bool unpacks, void *stream);
  Status runOne(const Group &group, const GpuCollective &each, void *stream);

  const Nccl &nccl;
  std::shared_ptr<NcclConnections> connections;
  Communicator &host;
  const Context &context;
  const OwnKernels &kernels;
  std::map<const Group *, void *> groups;
  std::map<int, Channel> channels;
  DeviceMemory scratch[2];
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_NCCLGPUS_H
