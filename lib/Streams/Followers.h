//===- Followers.h - Compute that runs behind communication ---------------===//
#ifndef CLEAVE_LIB_STREAMS_FOLLOWERS_H
#define CLEAVE_LIB_STREAMS_FOLLOWERS_H

#include "cleave/Streams/Overlap.h"

namespace cleave {

/// Of each op that follows communication, as a sum does what is scattered, that
/// one; -1 of others. An op follows the last one whose result it reads, if that
/// does not grow; and if what it writes is used by other compute no sooner than
/// the two could be hidden behind what comes first.
std::vector<int64_t> findLeaders(llvm::ArrayRef<OverlapOp> ops);

} // namespace cleave

#endif // CLEAVE_LIB_STREAMS_FOLLOWERS_H
