//===- MpiCommunicator.h - Collectives over MPI ---------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/MpiApi.h"
#include <map>
#include <memory>

namespace cleave::runtime {

/// MPI moves the bytes; reductions are Reduce.h's, since MPI does not promise
/// an order (MPI-4.1, section 6.9.1) and has no bf16. Buffers go through a
/// scratch of bounded size, segment by segment.
class MpiCommunicator : public Communicator {
public:
  MpiCommunicator(const MpiApi &api, const Mesh &mesh, int rank);
  ~MpiCommunicator() override;

  Status getGroup(std::span<const uint8_t> axes, const Group *&group) override;
  void abort(const Status &cause) override;

private:
  struct MpiGroup;

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
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_MPICOMMUNICATOR_H
