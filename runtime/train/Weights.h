//===- Weights.h - Fills the program's state before the first step --------===//
#ifndef CLEAVE_RUNTIME_TRAIN_WEIGHTS_H
#define CLEAVE_RUNTIME_TRAIN_WEIGHTS_H

#include "runtime/checkpoint/StateBox.h"
#include "runtime/executor/Executor.h"
#include "runtime/io/HuggingFaceWeights.h"
#include <map>

namespace cleave::runtime {

/// Which tensor of HuggingFace's weights is which source of the program.
struct WeightMatch {
  std::map<std::string, HuggingFaceWeights::Entry, std::less<>> sources;
  /// What was accepted though it is not what the program asked for.
  std::vector<std::string> notes;
};

/// Matches weights to a program. Every source must be there in its shape
/// and with numbers that can be read, and nothing else, but:
///  - names may lack the program's leading "transformer." (or "model.",
///    "gpt_neox."), as published by the bare model;
///  - tensors that hold no weights (causal masks, inverse frequencies) may be
///    there;
///  - a tied tensor may be there under any one of its names, or under several
///    with equal values; `compareTied`: whether to read the values.
Status matchWeights(const Program &program, const HuggingFaceWeights &weights,
                    bool compareTied, WeightMatch &match);

/// Fills every state of this rank: parameters from `weights` where that is
/// not null, copies from their parameters, all else by its InitKind. Random
/// numbers depend on the seed, the tensor's name and the element's index in its
/// source tensor, so not on the layout. Not collective. `notes` gets what a
/// user should know.
Status initializeStates(Executor &executor, const HuggingFaceWeights *weights,
                        uint64_t seed, std::vector<std::string> &notes);

/// Fills those alone that a checkpoint of a run does not have (isSaved), once
/// it has filled the others.
Status initializeUnsavedStates(Executor &executor);

/// One shard, by itself: `local` is what the state's operand covers on `rank`.
/// `entry`: its source tensor, or null to initialize.
Status fillState(const program::State &state, const Mesh &mesh, int rank,
                 const HuggingFaceWeights::Entry *entry, uint64_t seed,
                 cpu::ThreadPool &pool, std::span<std::byte> local);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_WEIGHTS_H
