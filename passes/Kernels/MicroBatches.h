//===- MicroBatches.h - Segments of micro-batches, and what they keep -----===//
#ifndef CLEAVE_PASSES_KERNELS_MICROBATCHES_H
#define CLEAVE_PASSES_KERNELS_MICROBATCHES_H

#include "dialects/xf/Xf.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// Whether the micro-batch has segments of its own. The only one of a step has
/// none: what comes before and after it may then run beside it.
bool isRepeated(xf::AccumulateOp op);

/// The most micro-batches for which segment `from` has run and one of `to` has
/// not: those between the newest and the oldest of them.
int64_t countInFlight(llvm::ArrayRef<int64_t> order, int64_t from,
                      const llvm::SmallDenseSet<int64_t> &to, int64_t count);

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_MICROBATCHES_H
