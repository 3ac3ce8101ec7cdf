//===- MemoryInFlight.h - What is in use while streams run ----------------===//
//
// Goes through a segment with its scheduler, and keeps count of the bytes that
// are in use: of a buffer from the begin of the first op that uses it until all
// that do are known done.
//
// What will be in use is estimated from what would be if ops ran one after the
// other as they are listed. Beyond that there are
//
// - early bytes, of ops that have begun before their place in the list;
// - late bytes, of ops that are not known done behind it.
//
// Of a bucket each op has its own place.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_LIB_STREAMS_MEMORYINFLIGHT_H
#define CLEAVE_LIB_STREAMS_MEMORYINFLIGHT_H

#include "cleave/Streams/Overlap.h"
#include <cmath>
#include <vector>

namespace cleave {

/// Values by place. All from a place on are raised, and the highest of some is
/// asked for, in as many steps as the logarithm of their number.
class HighestOfRange {
public:
  HighestOfRange() = default;
  explicit HighestOfRange(llvm::ArrayRef<double> values);

  /// Adds to all places from one on.
  void raise(size_t from, double by);
  /// Of the places from `from` up to `end`, which it does not include.
  double getHighest(size_t from, size_t end) const;

private:
  /// Of a stretch of places: how much the value grows over it, and the most by
  /// which it has grown somewhere in it.
  struct Node {
    double growth = 0, highest = -std::numeric_limits<double>::infinity();
  };
  static Node join(const Node &left, const Node &right) {
    return {left.growth + right.growth,
            std::max(left.highest, left.growth + right.highest)};
  }
  Node get(size_t from, size_t end) const;

  size_t leaves = 0;
  std::vector<Node> nodes; ///< a binary tree, its root at 1, leaves at the end
};

/// Without a limit nothing is counted: 0 bytes are in use, and all fits.
class MemoryInFlight {
public:
  /// Both outlive this.
  MemoryInFlight(llvm::ArrayRef<OverlapOp> ops, const OverlapMemory &memory);

  void begin(int64_t op);
  /// The op is known done.
  void end(int64_t op);
  /// The op is the next to begin in the rank's own stream.
  void reach(int64_t op);

  /// Bytes in use where the own stream is.
  double getInUse() const;
  double getLimit() const { return memory.limit; }
  /// Whether there is too little for the op that the own stream is at, and what
  /// is to begin before `next`, its next one or the number of ops.
  bool isFull(int64_t next) const;

  /// Whether an op may begin ahead of `next`, the own stream's next one: until
  /// that reaches the op's place there is memory for both.
  bool fits(int64_t op, int64_t next) const;
  /// Whether an op that has begun has buffers that nothing is yet to begin
  /// with.
  bool mayFree(int64_t op) const;
  /// Bytes of buffers that the op is the last one in the list to use.
  double getFreed(int64_t op) const;

private:
  /// A buffer of the memory's, by the scheduler's ops.
  struct State {
    int64_t toBegin = 0, toEnd = 0; ///< ops that use it
    int64_t last = 0;               ///< place of the last of these
    bool isInUse = false, isLate = false;
  };

  bool isLimited() const { return std::isfinite(memory.limit); }
  llvm::ArrayRef<int64_t> getMembers(int64_t op) const;
  int64_t getPlace(int64_t op) const { return getMembers(op).front(); }
  double getBytes(int64_t buffer) const {
    return memory.buffers[size_t(buffer)].bytes;
  }
  void noteLate(int64_t buffer);

  llvm::ArrayRef<OverlapOp> ops;
  const OverlapMemory &memory;
  std::vector<int64_t> numbers; ///< of ops, to stand for themselves
  std::vector<llvm::SmallVector<int64_t, 4>> buffers; ///< by op
  std::vector<State> states;                          ///< by buffer
  std::vector<int64_t> owners;                        ///< by place, its op
  std::vector<bool> hasBegun;                         ///< by op
  /// By place, bytes in use that are of no buffer here; bytes that are in use
  /// from there on, and which buffers are up to there.
  std::vector<double> base, taken;
  std::vector<llvm::SmallVector<int64_t, 2>> freed;
  int64_t at = 0; ///< the furthest place that the own stream was at
  double inUse = 0, early = 0, late = 0;
  /// By place, bytes that are in use, were nothing late, but for those of ops
  /// from the next place on that have begun: they are early.
  HighestOfRange standing;
};

} // namespace cleave

#endif // CLEAVE_LIB_STREAMS_MEMORYINFLIGHT_H
