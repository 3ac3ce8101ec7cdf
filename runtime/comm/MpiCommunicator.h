//===- MpiCommunicator.h - Collectives over MPI ---------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/MpiApi.h"
#include <list>
#include <map>
#include <memory>

namespace cleave::runtime {

/// MPI moves the bytes; reductions are Reduce.h's, since MPI does not promise
/// an order (MPI-4.1, section 6.9.1) and has no bf16. Buffers go through a
/// scratch of bounded size, segment by segment. A message is sent from a copy
/// of it, which is used again once MPI is done with it.
class MpiCommunicator : public Communicator {
public:
  MpiCommunicator(const MpiApi &api, const Mesh &mesh, int rank);
  ~MpiCommunicator() override;

  Status getGroup(std::span<const uint8_t> axes, const Group *&group) override;
  Status fork(int stream, std::unique_ptr<Communicator> &forked) override;
  Status send(int to, int channel, const void *data, uint64_t bytes) override;
  void abort(const Status &cause) override;

private:
  struct MpiGroup;
  /// A copy of a message, and the requests that send it.
  struct Outgoing {
    std::vector<char> data;
    std::vector<MPI_Request> requests; ///< none once it is sent
  };

  Status doAllReduce(const Group &group, const void *in, void *out,
                     uint64_t elements, ElementType type,
                     Reduction reduction) override;
  Status doAllGather(const Group &group, const void *in, void *out,
                     Parts output) override;
  Status doReduceScatter(const Group &group, const void *in, void *out,
                         Parts input, ElementType type,
                         Reduction reduction) override;
  Status doAllToAll(const Group &group, const void *in, void *out, Parts input,
                    Parts output) override;
  Status doBarrier(const Group &group) override;
  Status doBroadcast(const Group &world, void *data, size_t bytes,
                     int root) override;
  Status doReceive(int from, int channel, void *data, uint64_t bytes) override;

  /// Takes out the requests that MPI has done.
  Status reclaim(Outgoing &message);
  /// All ranks' inputs on every rank, then the sum: one call, for few bytes.
  Status allReduceSmall(const Group &group, const void *in, void *out,
                        uint64_t elements, ElementType type,
                        Reduction reduction);
  /// Each rank reduces a chunk of the segment and sends it to all.
  Status allReduceSegment(const Group &group, const char *in, char *out,
                          uint64_t elements, ElementType type,
                          Reduction reduction);

  static char *resize(std::vector<char> &scratch, uint64_t bytes) {
    if (scratch.size() < bytes)
      scratch.resize(bytes);
    return scratch.data();
  }

  const MpiApi &api;
  std::map<AxisList, std::unique_ptr<MpiGroup>> groups;
  std::vector<char> sendScratch, receiveScratch;
  std::list<Outgoing> outgoing; ///< where MPI may write to it, it stays
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H
