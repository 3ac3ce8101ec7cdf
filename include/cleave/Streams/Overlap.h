//===- Overlap.h - Communication beside compute ---------------------------===//
#ifndef CLEAVE_STREAMS_OVERLAP_H
#define CLEAVE_STREAMS_OVERLAP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// An op of a segment, as the scheduler sees it.
struct OverlapOp {
  double seconds = 0;
  /// Communication: the stream that it may run in, above 0. 0: it stays in the
  /// rank's own stream.
  int64_t stream = 0;
  /// It needs more memory once it is done than before, as a gather does: it
  /// begins no earlier than it must. Others begin as early as they can.
  bool grows = false;
  /// It keeps its place among all ops of the rank's own stream.
  bool isFence = false;
  /// Buffers, by any numbers.
  llvm::SmallVector<int64_t, 4> reads, writes;
};

struct OverlapResult {
  /// The ops in their new order.
  std::vector<int64_t> order;
  /// By op: its stream; 0 of communication that is worth none.
  std::vector<int64_t> streams;
  /// By op: seconds that the rank's own stream waits for it.
  std::vector<double> waited;
  double seconds = 0;       ///< until all streams are done
  double compute = 0;       ///< seconds of the rank's own stream
  double communication = 0; ///< seconds of what may run in another
  double exposed = 0;       ///< of these, that the rank's own stream waits for
};

/// Orders a segment's ops so that communication runs beside compute: as a list
/// scheduler that goes through the segment with a clock for each stream.
///
/// - Ops keep the order of their accesses: what writes a buffer stays behind
///   what read or wrote it before, and ahead of what reads it next.
/// - Communication begins once what it needs is done; but where it grows, so
///   long before its first use that it and what its stream does meanwhile are
///   done then, and no more than a few times that.
/// - Compute keeps its order, but that what waits for communication lets other
///   compute go ahead that comes soon behind it.
OverlapResult overlap(llvm::ArrayRef<OverlapOp> ops);

} // namespace cleave

#endif // CLEAVE_STREAMS_OVERLAP_H
