//===- OptionItems.h - What all ranks of a run must have alike ------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_OPTIONITEMS_H
#define CLEAVE_RUNTIME_TRAIN_OPTIONITEMS_H

#include "runtime/comm/Agreement.h"
#include "runtime/io/Sampler.h"
#include "runtime/program/Program.h"
#include "runtime/train/Options.h"

namespace cleave::runtime {

/// The program, and the format that this runtime reads.
std::vector<AgreementItem> describeProgram(const Program &program);

/// Every option, by its flag.
std::vector<AgreementItem> describeOptions(const Options &options);

/// The files that a run reads, by what is in them: copies on the disks of
/// several hosts may have one path and differ.
std::vector<AgreementItem>
describeFiles(const std::vector<DataIdentity> &identities);

/// Fails on all ranks where they do not have the same program, options and
/// data, weights of --init included: two ranks that differ would train
/// something wrong without a word, or wait for each other for ever. `files`
/// gets the identities of the data's. Collective over the world; to be called
/// before anything that depends on an option.
Status agreeOnRun(Communicator &communicator, const Program &program,
                  const Options &options, const BatchSource &data,
                  std::vector<DataIdentity> &files);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_OPTIONITEMS_H
