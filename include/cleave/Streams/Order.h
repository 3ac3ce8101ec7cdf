//===- Order.h - Which ops of several streams know of each other ----------===//
//
// Ops are listed, and a step is runs of stretches of the list. Ops of one
// stream run in the order of runs and list, the serial order; ops of different
// streams at the same time, unless one waits for the other. What an op knows is
// a clock: of each stream, how many of its ops are done for certain (Lamport,
// "Time, clocks, and the ordering of events", 1978). Two ops race where they
// access the same byte, one of them to write it, and the later one does not
// know the earlier one.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_STREAMS_ORDER_H
#define CLEAVE_STREAMS_ORDER_H

#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave {

/// Streams are numbered below this.
constexpr int64_t maxStreams = 8;

/// Bytes [begin, begin + bytes) that an op accesses; for micro-batch m those in
/// place m mod `places`, each `stride` bytes behind the one before.
struct ByteAccess {
  int64_t begin = 0, bytes = 0;
  int64_t places = 0; ///< 0: whatever micro-batch
  int64_t stride = 0;
  bool writes = false;

  /// Behind the bytes of all places.
  int64_t getEnd() const {
    return begin + std::max<int64_t>(places - 1, 0) * stride + bytes;
  }
  /// Whether both have a byte in common in some micro-batch. Those that move on
  /// together keep their distance; of others, any place of one may meet any of
  /// the other.
  bool mayMeet(const ByteAccess &other) const {
    bool together = places == other.places && stride == other.stride;
    auto endOf = [&](const ByteAccess &access) {
      return together ? access.begin + access.bytes : access.getEnd();
    };
    return begin < endOf(other) && other.begin < endOf(*this);
  }
};

struct StreamOp {
  int64_t stream = 0;
  int64_t event = 0; ///< that it records when it is done; 0: none
  /// Events: it begins once the latest record of each, in the serial order, is
  /// done.
  llvm::SmallVector<int64_t, 2> waits;
  llvm::SmallVector<ByteAccess, 4> accesses;
  /// It begins together with the op behind it, and is done when that is.
  bool withNext = false;
};

/// One execution of ops [begin, end).
struct StreamRun {
  int64_t begin = 0, end = 0, microBatch = 0;
};

struct StreamProgram {
  std::vector<StreamOp> ops;
  std::vector<StreamRun> runs;
  /// Before this run all streams are waited for, as at the end of a step.
  int64_t updateRun = 0;

  /// Whether there is more than one stream.
  bool hasStreams() const;
};

struct Race {
  int64_t earlier = 0, later = 0; ///< ops
  int64_t byte = 0;
  int64_t microBatch = 0; ///< of the later one
};

/// The first race in the serial order, if there is one.
std::optional<Race> findRace(const StreamProgram &program);

/// Makes ops wait for each other where they would race, and not where they know
/// of each other already. An op waits for no more than one of each stream at a
/// byte; of ops that begin together for the last, so that it knows all of them.
void addWaits(StreamProgram &program);

/// Ops from `first` to `last`, both included.
struct OpRange {
  int64_t first = 0, last = 0;
};

/// Of each op where in the list stream 0 may be between its begin and its known
/// end. An op of stream 0 is at its own place; one of another stream from there
/// on up to the first op of stream 0 that knows it done, in whichever run that
/// is.
std::vector<OpRange> getInFlight(const StreamProgram &program);

} // namespace cleave

#endif // CLEAVE_STREAMS_ORDER_H
