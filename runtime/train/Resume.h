//===- Resume.h - Going on from a checkpoint ------------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_RESUME_H
#define CLEAVE_RUNTIME_TRAIN_RESUME_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/executor/Executor.h"
#include "runtime/io/Sampler.h"
#include "runtime/train/Options.h"

namespace cleave::runtime {

/// What a run starts from.
struct ResumedRun {
  std::string path; ///< of the checkpoint; empty: the run begins
  RunProgress progress;
};

/// Looks for the newest whole checkpoint that `options` allow and fills every
/// state of this rank that a checkpoint has from it, whatever layout saved it.
/// Rank 0 names damaged ones. Fails where the checkpoint is of another model or
/// optimizer, where all there are damaged, where none is where --resume says
/// that one is, and where a run that does not resume would save over another's
/// checkpoints.
/// Collective.
Status resumeRun(Executor &executor, const Options &options,
                 ResumedRun &resumed);

/// What a run's samples are drawn from, told by its contents and not by where
/// it lies, for RunProgress.
std::string describeData(const std::vector<DataIdentity> &files,
                         uint64_t seqLen);

/// Whether a run that draws samples from `data` with `seed` can go on from
/// `progress` and give what the run that saved would have given. `notes` gets
/// what differs and may.
Status checkProgress(const ResumedRun &resumed, uint64_t seed,
                     const std::string &data, int64_t steps,
                     std::vector<std::string> &notes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_RESUME_H
