//===- Batches.h - A rank's part of a global batch ------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_BATCHES_H
#define CLEAVE_RUNTIME_TRAIN_BATCHES_H

#include "runtime/executor/Executor.h"
#include "runtime/io/Sampler.h"
#include <optional>

namespace cleave::runtime {

/// Fills the executor's tokens and targets, [micro_batches, local batch,
/// seq_len], as far as its stage has them. Micro-batch m of M is the samples
/// [m B / M, (m + 1) B / M) of the global batch of B, cut by the batch axes.
///
/// There is room for two steps: while the device still copies the batch of one,
/// that of the next is read.
class Batches {
public:
  /// The arguments outlive it.
  static Status create(Executor &executor, const BatchSource &source,
                       std::unique_ptr<Batches> &batches);

  /// Reads the batch of a step ahead, of the next one or the one after it. What
  /// fails is the error of that step's load().
  void prefetch(uint64_t step);
  /// Hands the batch of a step to the device, ahead of the step.
  Status load(uint64_t step);

private:
  /// Of one input for one step: its rows, where the device copies them from; or
  /// one row that nobody reads, where a stage has no such input.
  struct Ids {
    const program::Operand *operand;
    std::span<std::byte> memory;

    int32_t *getRow(uint64_t row, uint64_t rowLength) const;
    Status write(Executor &executor) const;
  };
  struct Batch {
    Ids tokens, targets;
  };

  Batches(Executor &executor, const BatchSource &source)
      : executor(executor), source(source) {}
  Status allocate(const program::Operand *operand, Ids &ids);
  Status read(uint64_t step, const Batch &batch) const;

  Executor &executor;
  const BatchSource &source;
  Batch batches[2]; ///< of even steps and odd ones
  std::optional<uint64_t> prefetched;
  Status status; ///< of that step
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_BATCHES_H
