//===- MpiCommunicator.h - Collectives over MPI ---------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H

#include "runtime/comm/MpiApi.h"
#include "runtime/comm/SegmentedCommunicator.h"
#include <list>
#include <map>
#include <memory>

namespace cleave::runtime {

/// MPI moves the bytes; it does not promise an order of sums (MPI-4.1, section
/// 6.9.1) and has no bf16. A message is sent from a copy of it, which is used
/// again once MPI is done with it.
class MpiCommunicator : public SegmentedCommunicator {
public:
  MpiCommunicator(const MpiApi &api, const Mesh &mesh, int rank);
  ~MpiCommunicator() override;

  Status getGroup(std::span<const uint8_t> axes, const Group *&group) override;
  Status send(int to, int channel, const void *data, uint64_t bytes) override;

private:
  struct MpiGroup;
  /// A copy of a message, and the requests that send it.
  struct Outgoing {
    std::vector<char> data;
    std::vector<MPI_Request> requests; ///< none once it is sent
  };

  Status doFork(int stream, std::unique_ptr<Communicator> &forked) override;
  void doAbort(const Status &cause) override;
  Status gather(const Group &group, const char *mine, char *out,
                const Pieces &pieces) override;
  Status exchange(const Group &group, const char *in, const Pieces &sent,
                  char *out, const Pieces &received) override;
  Status doBarrier(const Group &group) override;
  Status doBroadcast(const Group &world, void *data, size_t bytes,
                     int root) override;
  Status doReceive(int from, int channel, void *data, uint64_t bytes) override;

  /// Takes out the requests that MPI has done.
  Status reclaim(Outgoing &message);

  const MpiApi &api;
  std::map<AxisList, std::unique_ptr<MpiGroup>> groups;
  std::list<Outgoing> outgoing; ///< where MPI may write to it, it stays
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H
