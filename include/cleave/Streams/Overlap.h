//===- Overlap.h - Communication beside compute ---------------------------===//
#ifndef CLEAVE_STREAMS_OVERLAP_H
#define CLEAVE_STREAMS_OVERLAP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <limits>
#include <vector>

namespace cleave {

/// An op of a segment, as the scheduler sees it.
struct OverlapOp {
  double seconds = 0;
  /// Communication begins so long after the rank's own stream comes to it,
  /// since the last of its ranks comes as much later; or as soon as its stream
  /// is free, if that is later.
  double skew = 0;
  /// Communication: the stream that it may run in, above 0. 0: it stays in the
  /// rank's own stream.
  int64_t stream = 0;
  /// It needs more memory once it is done than before, as a gather does: it
  /// begins no earlier than it must. Others begin as early as they can.
  bool grows = false;
  /// It keeps its place among all ops of the rank's own stream but those that
  /// may follow communication.
  bool isFence = false;
  /// Compute that may run in the stream of the communication whose result it
  /// uses, behind it; see `overlap`.
  bool mayFollow = false;
  /// Communication: ops of one kind may begin together. -1: with no other.
  int64_t kind = -1;
  /// Buffers, numbered from 0 on, about as many as there are.
  llvm::SmallVector<int64_t, 4> reads, writes;
  /// Of a bucket, its ops by their numbers in the list of all, which
  /// OverlapMemory counts by. None: it is no bucket, and has the number that is
  /// its place.
  llvm::SmallVector<int64_t, 1> members;

  /// Communication that makes nothing here: others wait for it.
  bool isSent() const { return stream > 0 && writes.empty(); }
};

/// What memory there is, and what a segment's ops need of it, in bytes.
struct OverlapMemory {
  double limit = std::numeric_limits<double>::infinity();
  /// By op, bytes in use while it runs if all run one after the other as they
  /// are listed. This and `buffers` only matter where there is a limit.
  std::vector<double> live;
  /// Of what is live, buffers that only this segment uses: each is in use from
  /// the begin of its first user to the end of its last.
  struct Buffer {
    double bytes = 0;
    llvm::SmallVector<int64_t, 4> users; ///< ops, at least one
  };
  std::vector<Buffer> buffers;
  /// Whether nothing is to be in flight behind the segment's last op.
  bool closes = false;
};

struct OverlapResult {
  /// The ops in their new order.
  std::vector<int64_t> order;
  /// By op: its stream; 0 of communication that is worth none.
  std::vector<int64_t> streams;
  /// By op: whether it begins together with the one behind it in `order`.
  std::vector<bool> withNext;
  /// By op: seconds that the rank's own stream waits for it.
  std::vector<double> waited;
  /// By op of the rank's own stream: ops of others that it is to know done,
  /// though it does not depend on them.
  std::vector<llvm::SmallVector<int64_t, 2>> joins;
  /// Most bytes in use: those of the segment's own buffers from the first op in
  /// the new order on until the rank's own stream knows all ops done that use
  /// them, and other live ones as they are listed. 0 without a limit.
  double bytes = 0;
  double seconds = 0;       ///< until all streams are done
  double compute = 0;       ///< seconds of the rank's own stream
  double communication = 0; ///< seconds of what may run in another
  double exposed = 0;       ///< of these, that the rank's own stream waits for
  /// Seconds that others wait for what is sent: for each, until it is there.
  double sent = 0;
};

/// Orders a segment's ops so that communication runs beside compute: as a list
/// scheduler that goes through the segment with a clock for each stream.
///
/// - Ops keep the order of their accesses: what writes a buffer stays behind
///   what read or wrote it before, and ahead of what reads it next.
/// - Communication begins once what it needs is done; but where it grows, so
///   long before its first use that it and what its stream does meanwhile are
///   done then, and no more than a few times that.
/// - What is needed first is communicated first; what grows and is needed by
///   nothing in the segment, behind all that is. What grows is out of the way
///   when something that is needed sooner can begin.
/// - Communication that is hardly hidden, though its stream is idle before it,
///   is not worth a stream: it stands in the rank's own; what does not grow,
///   behind all that does not need it; what grows only if nothing there stands
///   between its begin and its use.
/// - Compute keeps its order, but that what waits for communication lets other
///   compute go ahead that comes soon behind it.
/// - What only adds up what communication brought in follows it in its stream,
///   if nothing needs the sum for as long as that takes.
/// - What nothing waits for is waited for all the same, some time after it is
///   done, so that others may have its memory.
/// - Where memory ends, gathers begin later, and what is done first is waited
///   for. This goes by estimates; `bytes` of the result is what came of it.
OverlapResult overlap(llvm::ArrayRef<OverlapOp> ops,
                      const OverlapMemory &memory = {});

/// What each op must stay behind: by op, earlier ones that it depends on.
std::vector<llvm::SmallVector<int64_t, 4>>
findDependences(llvm::ArrayRef<OverlapOp> ops);

/// Seconds of some ops of a kind that begin together.
using BucketPricer = llvm::function_ref<double(llvm::ArrayRef<int64_t>)>;

/// As `overlap`, with ops of a kind in buckets, where that saves time: what
/// begins together starts up once, and each of it is there once all is.
///
/// - A bucket of what grows begins where the first of its ops stood, any other
///   where the last did; so none of them depends on an op in between, or it on
///   one of them. Buckets have up to `mostInBucket` ops.
/// - How large those of a kind are is tried: so that there are about as many of
///   them as some powers of two. The fewest seconds win, with a tenth of those
///   that are hidden, among what needs no more memory than no buckets do or the
///   limit allows; of equal ones the smaller buckets.
OverlapResult overlapInBuckets(llvm::ArrayRef<OverlapOp> ops,
                               BucketPricer getSeconds,
                               const OverlapMemory &memory = {});
constexpr size_t mostInBucket = 64;

} // namespace cleave

#endif // CLEAVE_STREAMS_OVERLAP_H
