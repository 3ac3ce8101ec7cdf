//===- Train.h - The run --------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_TRAIN_H
#define CLEAVE_RUNTIME_TRAIN_TRAIN_H

#include "runtime/base/ExitCodes.h"
#include "runtime/executor/Executor.h"
#include "runtime/train/Options.h"
#include <atomic>

namespace cleave::runtime {

struct TrainOptions : Options {
  /// FLOP/s of all cores that compute, for MFU; 0: not known, or GPUs compute.
  double totalPeakFlops = 0;
  Watchdog *watchdog = nullptr; ///< null: none
};

/// Trains `program` on the rank of `communicator`. Rank 0 prints. Collective.
/// `exitCode`: how it ended, the same on all ranks that return.
Status trainRank(const Program &program, KernelTable kernels,
                 const TrainOptions &options, Communicator &communicator,
                 std::atomic<int> &exitCode);

/// The executable's main, for a sealed program in memory: reads the command
/// line, runs the ranks, prints one message on failure. Returns the exit code.
int runMain(int argc, const char *const *argv, const void *programData,
            size_t programSize, KernelTable kernels);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TRAIN_H
