//===- Batches.h - A rank's part of a global batch ------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_BATCHES_H
#define CLEAVE_RUNTIME_TRAIN_BATCHES_H

#include "runtime/executor/Executor.h"
#include "runtime/io/Sampler.h"

namespace cleave::runtime {

/// Fills the executor's tokens and targets, [micro_batches, local batch,
/// seq_len], for a step, as far as its stage has them. Micro-batch m of M is
/// the samples [m B / M, (m + 1) B / M) of the global batch of B, cut by the
/// batch axes.
Status loadBatch(Executor &executor, const BatchSource &source, uint64_t step);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_BATCHES_H
