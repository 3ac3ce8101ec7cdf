//===- SharedPositions.h - Positions that outlive their process -----------===//
//
// What a process last told of itself may be half a second old when it is
// stopped or killed. Processes of one machine keep their positions in memory
// that they share, where the last is still to be read.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_WATCH_SHAREDPOSITIONS_H
#define CLEAVE_RUNTIME_WATCH_SHAREDPOSITIONS_H

#include "runtime/base/Position.h"
#include "runtime/base/Status.h"
#include <string>

namespace cleave::runtime {

class SharedPositions {
public:
  SharedPositions() = default;
  ~SharedPositions();
  SharedPositions(const SharedPositions &) = delete;
  SharedPositions &operator=(const SharedPositions &) = delete;

  /// Memory for `ranks` positions; it has no name that could stay behind, and
  /// is gone with the last process. `path`: where others find it.
  Status create(int ranks, std::string &path);
  /// That of another process of this machine and user.
  Status open(const std::string &path, int ranks);

  bool isOpen() const { return shared; }
  RankPosition &operator[](int rank) const {
    return reinterpret_cast<RankPosition *>(shared + 1)[rank];
  }
  /// True for the one process that calls first: it says why the run ends.
  bool claimVoice() const { return !shared->isTaken.exchange(true); }

private:
  /// Followed by the positions.
  struct Header {
    alignas(RankPosition) std::atomic<bool> isTaken;
  };
  static size_t getBytes(int ranks) {
    return sizeof(Header) + size_t(ranks) * sizeof(RankPosition);
  }
  Status map(int ranks);

  int fd = -1;
  Header *shared = nullptr;
  size_t bytes = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_SHAREDPOSITIONS_H
