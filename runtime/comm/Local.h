//===- Local.h - Ranks as threads of one process --------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_LOCAL_H
#define CLEAVE_RUNTIME_COMM_LOCAL_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/Mailbox.h"
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace cleave::runtime {

struct LocalGroupState;

/// What the ranks of one process share. A collective is a meeting: each rank
/// says where its buffers are, then reads its peers' directly; of a reduction
/// each does a part, and writes it to all. No buffer beside the callers'. A
/// message is a copy, in the receiver's mailbox.
class LocalWorld {
public:
  /// `busyThreads`: threads that want a core at once, over all ranks; where
  /// that is more than there are, waiting ranks sleep instead of spin.
  LocalWorld(Mesh mesh, int busyThreads);
  ~LocalWorld();

  const Mesh &getMesh() const { return mesh; }

  /// The communicator of a rank, for use by one thread. Outlived by this.
  std::unique_ptr<Communicator> makeCommunicator(int rank);

  /// Makes every rank's next call fail. The first cause is kept.
  void abort(int rank, const Status &cause);
  /// What the first abort said; success where there was none.
  Status getCause(int &rank) const;

private:
  friend class LocalCommunicator;
  /// Where a group meets: what its ranks have in common.
  struct GroupKey {
    AxisList axes;
    int firstRank, stream;
    auto operator<=>(const GroupKey &) const = default;
  };
  LocalGroupState *getGroupState(const GroupKey &key, int size);

  Mesh mesh;
  int spins;
  std::atomic<bool> aborted{false};
  mutable std::mutex mutex;
  int failedRank = -1;
  Status cause;
  std::map<GroupKey, std::unique_ptr<LocalGroupState>> groups;
  std::vector<std::unique_ptr<Mailbox>> mailboxes; ///< by rank
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_LOCAL_H
