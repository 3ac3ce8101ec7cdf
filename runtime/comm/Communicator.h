//===- Communicator.h - Collectives and messages between ranks ------------===//
//
// One interface for all backends. Calls are blocking, but for send, and every
// rank of a group makes the same collectives in the same order. Reductions run
// in the order of the ranks' shard indices (Reduce.h), so all backends give the
// same bits. A communicator serves one thread; for several collectives at a
// time a rank has one for each of its streams, by fork().
//
// A call fails on a rank when another rank has failed (StatusCode::Aborted) or
// when the transport did; no call hangs because another rank failed.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/base/Mesh.h"
#include "runtime/base/Position.h"
#include "runtime/base/Status.h"
#include "runtime/comm/Reduce.h"
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cleave::runtime {

/// The ranks of a collective, by shard index, and this rank among them.
class Group {
public:
  Group(std::vector<int> ranks, int index)
      : ranks(std::move(ranks)), index(index) {}
  virtual ~Group() = default;

  int getSize() const { return int(ranks.size()); }
  int getIndex() const { return index; }
  std::span<const int> getRanks() const { return ranks; }

private:
  std::vector<int> ranks;
  int index;
};

/// Ranks [first, first + count).
struct RankRange {
  int first, count;
};

/// A buffer [blocks, n, blockBytes] of a group of n: part p is what belongs to
/// the group's rank p.
struct Parts {
  uint64_t blocks, blockBytes;

  uint64_t getBytes() const { return blocks * blockBytes; } ///< of one part
};

/// An AllToAll's dims, as in runtime/program/README.md; b in elements' dims.
struct AllToAllShape {
  uint64_t outer, a, mid, b, inner;
  uint64_t elementBytes;
  bool concatFirst;

  Parts getInput() const { return concatFirst ? getMinor() : getMajor(); }
  Parts getOutput() const { return concatFirst ? getMajor() : getMinor(); }

private:
  Parts getMinor() const { return {outer * a * mid, b * inner * elementBytes}; }
  Parts getMajor() const { return {outer, a * mid * b * inner * elementBytes}; }
};

/// A collective, but for where its buffers lie.
struct CollectiveWork {
  CollectiveCall call = CollectiveCall::AllReduce;
  uint64_t outer = 1, inner = 0; ///< elements; of an AllReduce all are inner
  ElementType type = ElementType::F32;
  Reduction reduction = Reduction::Sum;
  AllToAllShape exchange{}; ///< of an AllToAll, which has nothing else

  Parts getParts() const { return {outer, inner * getElementBytes(type)}; }
};

/// An AllReduce, AllGather or ReduceScatter, as the calls of those names have
/// it.
struct Collective : CollectiveWork {
  const void *in = nullptr;
  void *out = nullptr;
};

/// For so long the end of another rank, of which this one sees only that it is
/// gone, is the watchdog's to tell, which knows where that rank was.
constexpr std::chrono::duration<double> watchdogsTurn{5};

/// The watchdog, as a communicator knows it.
class AbortListener {
public:
  /// This rank is about to stop all others; from the thread that does.
  virtual void onAbort() = 0;
  /// At most watchdogsTurn, and less where it would take who waits for so long
  /// for a rank that hangs.
  virtual std::chrono::duration<double> getTurn() const = 0;

protected:
  ~AbortListener() = default;
};

class Communicator {
public:
  virtual ~Communicator() = default;
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  int getRank() const { return rank; }
  int getWorldSize() const { return mesh.getWorldSize(); }
  const Mesh &getMesh() const { return mesh; }

  /// The ranks that differ from this one on `axes` only. Collective over the
  /// world: every rank asks for the same axes in the same order. The group
  /// lives as long as this does, and asking again is cheap.
  /// MPI_Comm_split, ncclCommSplit.
  virtual Status getGroup(std::span<const uint8_t> axes,
                          const Group *&group) = 0;
  /// All ranks, in the order of their numbers.
  Status getWorldGroup(const Group *&group);

  /// A communicator of the same ranks for another thread of this rank, whose
  /// calls may be under way beside this one's: its collectives meet those of
  /// the other ranks' forks of the same stream, a number above 0. Messages are
  /// told apart by their channels, whichever communicator sends and receives
  /// them. Outlived by this. MPI_Comm_dup, ncclCommSplit.
  Status fork(int stream, std::unique_ptr<Communicator> &forked);

  /// out[i] = reduction over the ranks of in[i]. in == out, or disjoint.
  /// MPI_Allreduce, ncclAllReduce.
  Status allReduce(const Group &group, const void *in, void *out,
                   uint64_t elements, ElementType type, Reduction reduction);

  /// in [outer, innerBytes], out [outer, n, innerBytes]; disjoint.
  /// MPI_Allgather, ncclAllGather (outer = 1).
  Status allGather(const Group &group, const void *in, void *out,
                   uint64_t outer, uint64_t innerBytes);

  /// in [outer, n, inner], out [outer, inner] = reduction over the ranks of
  /// their in[:, this rank, :]; disjoint. inner in elements.
  /// MPI_Reduce_scatter_block, ncclReduceScatter (outer = 1).
  Status reduceScatter(const Group &group, const void *in, void *out,
                       uint64_t outer, uint64_t inner, ElementType type,
                       Reduction reduction);

  /// Part p of in goes to rank p; what comes from rank q is part q of out.
  /// Disjoint. MPI_Alltoall, ncclSend and ncclRecv in one ncclGroup.
  Status allToAll(const Group &group, const void *in, void *out,
                  const AllToAllShape &shape);

  /// Several collectives of a group, in one bucket: none of them touches what
  /// another one writes, and they start up once where the backend can.
  /// ncclGroupStart, ncclGroupEnd.
  Status runTogether(const Group &group,
                     std::span<const Collective> collectives);

  /// Sends a message to rank `to`, and does not wait until it is there: `data`
  /// is the caller's again at once. Channels are 0 to limits::channels - 1.
  /// MPI_Isend of a copy, ncclSend.
  virtual Status send(int to, int channel, const void *data,
                      uint64_t bytes) = 0;

  /// Waits for the oldest message that rank `from` has sent on the channel, of
  /// so many bytes, and that was not received. Messages of other channels do
  /// not stand in its way. MPI_Recv, ncclRecv.
  Status receive(int from, int channel, void *data, uint64_t bytes);

  /// Returns when all ranks of the group have called. MPI_Barrier.
  Status barrier(const Group &group);

  /// Small host data from rank `root` to all ranks. MPI_Bcast.
  Status broadcast(void *data, size_t bytes, int root = 0);
  Status broadcast(std::string &text, int root = 0);

  /// all [world, mine.size()]: as many numbers from every rank.
  /// MPI_Allgather.
  Status gatherDoubles(std::span<const double> mine, std::vector<double> &all);

  /// Success where it is on all ranks. Else every rank fails: rank 0 with the
  /// message of the first rank that did, the others as Aborted, so that it is
  /// printed once. For failures that may come on all ranks at once, such as a
  /// missing file. Collective over the world.
  Status agree(const Status &mine);

  /// `first`, on all ranks: the status of the first rank that did not succeed,
  /// as `agree` words it; success where all did. For failures that a run
  /// outlives. Collective over the world.
  Status share(const Status &mine, Status &first);

  /// Stops all ranks, with `cause` as the message; where ranks are processes,
  /// with one that is a consequence only once nobody has told its cause in the
  /// watchdog's turn. MPI_Abort, which does not return; ncclCommAbort.
  void abort(const Status &cause);

  /// Whether some rank has failed, as far as this one can see without a call;
  /// for work between collectives, which would otherwise go on to the next.
  virtual bool isAborted() const { return false; }

  /// The ranks that share this process, and with it its memory.
  virtual RankRange getProcessRanks() const { return {rank, 1}; }

  /// Whether agree() has failed: all ranks know, none needs to be stopped.
  bool hasAgreedToFail() const { return !agreedFailure.ok(); }
  /// What they agreed on.
  const Status &getAgreedFailure() const { return agreedFailure; }

  /// Where this rank says what it is doing; null for nowhere. It outlives this,
  /// or is set to null before it ends.
  void setPosition(RankPosition *newPosition) { position = newPosition; }
  RankPosition *getPosition() const { return position; }

  /// Who hears of an abort() of this, and of what is forked from now on. It
  /// outlives them.
  void setAbortListener(AbortListener *newListener) { listener = newListener; }

protected:
  /// A message is not of the size that its receiver asked for.
  static Status describeWrongSize(int from, int channel, uint64_t bytes,
                                  uint64_t expected);

  Communicator(Mesh mesh, int rank) : mesh(std::move(mesh)), rank(rank) {}

  /// Says that this rank is in a collective, and at the end of the scope that
  /// it is no longer.
  class Meeting {
  public:
    Meeting(Communicator &communicator, CollectiveCall call,
            std::span<const int> ranks);
    /// Likewise that it waits for a message.
    Meeting(Communicator &communicator, int from);
    ~Meeting() {
      if (position)
        position->leaveCollective();
    }
    Meeting(const Meeting &) = delete;
    Meeting &operator=(const Meeting &) = delete;

  private:
    RankPosition *position;
  };

private:
  virtual Status doFork(int stream, std::unique_ptr<Communicator> &forked) = 0;
  virtual void doAbort(const Status &cause) = 0;
  // Groups here have at least two ranks.
  virtual Status doAllReduce(const Group &group, const void *in, void *out,
                             uint64_t elements, ElementType type,
                             Reduction reduction) = 0;
  virtual Status doAllGather(const Group &group, const void *in, void *out,
                             Parts output) = 0;
  virtual Status doReduceScatter(const Group &group, const void *in, void *out,
                                 Parts input, ElementType type,
                                 Reduction reduction) = 0;
  virtual Status doAllToAll(const Group &group, const void *in, void *out,
                            Parts input, Parts output) = 0;
  /// One after the other.
  virtual Status doTogether(const Group &group,
                            std::span<const Collective> collectives);
  virtual Status doBarrier(const Group &group) = 0;
  virtual Status doBroadcast(const Group &world, void *data, size_t bytes,
                             int root) = 0;
  virtual Status doReceive(int from, int channel, void *data,
                           uint64_t bytes) = 0;

  Mesh mesh;
  int rank;
  const Group *world = nullptr;
  RankPosition *position = nullptr;
  AbortListener *listener = nullptr;
  /// Collectives so far, by their axes; while there is a position.
  std::map<uint64_t, uint64_t> meetings;
  Status agreedFailure;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
