//===- SegmentedCommunicator.h - Collectives of ranks that are processes --===//
#ifndef CLEAVE_RUNTIME_COMM_SEGMENTEDCOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_SEGMENTEDCOMMUNICATOR_H

#include "runtime/comm/Communicator.h"

namespace cleave::runtime {

/// All collectives from two that move contiguous bytes, which a transport has.
/// The transport never adds: reductions are Reduce.h's. Buffers go through a
/// scratch of bounded size, segment by segment.
class SegmentedCommunicator : public Communicator {
protected:
  /// Where each rank's piece of a buffer lies, in bytes.
  struct Pieces {
    std::vector<int> counts, offsets;
    /// All have one size, and lie one behind the other, on every rank.
    bool areEven = false;

    static Pieces makeEven(int ranks, int bytes);
  };

  /// `directBytes`: a gather whose result is not larger goes right into it, in
  /// one call of `gather`; an int.
  SegmentedCommunicator(const Mesh &mesh, int rank, uint64_t directBytes)
      : Communicator(mesh, rank), directBytes(directBytes) {}

  /// Scratch of one segment over all ranks of the group.
  static constexpr uint64_t segmentBytes = uint64_t(16) << 20;

private:
  /// `mine` of every rank is its piece of `out`, on all of them. It may be
  /// there already. MPI_Allgatherv.
  virtual Status gather(const Group &group, const char *mine, char *out,
                        const Pieces &pieces) = 0;
  /// Piece p of `in` goes to rank p; what comes from rank q is piece q of
  /// `out`. Disjoint. MPI_Alltoallv.
  virtual Status exchange(const Group &group, const char *in,
                          const Pieces &sent, char *out,
                          const Pieces &received) = 0;

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

  /// All ranks' inputs on every rank, then the sum: one call, for few bytes.
  Status allReduceSmall(const Group &group, const char *in, void *out,
                        uint64_t elements, ElementType type,
                        Reduction reduction);
  /// Each rank reduces a chunk of the segment and sends it to all.
  Status allReduceSegment(const Group &group, const char *in, char *out,
                          uint64_t elements, ElementType type,
                          Reduction reduction);
  /// Part p of `in` to rank p, segment by segment; `work(begin, end, all)` has
  /// these bytes of the parts that came, one rank's behind the other's.
  template <typename Work>
  Status exchangeParts(const Group &group, const char *in, Parts input,
                       Work &&work);

  static char *resize(std::vector<char> &scratch, uint64_t bytes) {
    if (scratch.size() < bytes)
      scratch.resize(bytes);
    return scratch.data();
  }

  uint64_t directBytes;
  std::vector<char> sendScratch, receiveScratch;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_SEGMENTEDCOMMUNICATOR_H
