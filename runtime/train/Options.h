//===- Options.h - The executable's command line --------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_OPTIONS_H
#define CLEAVE_RUNTIME_TRAIN_OPTIONS_H

#include "runtime/checkpoint/Export.h"
#include "runtime/comm/World.h"
#include "runtime/executor/Executor.h"
#include "runtime/watch/Watchdog.h"
#include <string>
#include <vector>

namespace cleave::runtime {

struct Options {
  std::vector<std::string> data;
  std::string tokens;
  int64_t steps = 0; ///< 0: as many as --tokens has
  std::string init, metrics, trace, dumpOutputs;
  std::string save;                ///< folder of checkpoints; empty: none
  int64_t saveEvery = 0, keep = 0; ///< steps; checkpoints, 0: all
  bool resume = false;
  std::string resumeFrom; ///< a checkpoint or a folder of them; empty: `save`
  ExportOptions exported; ///< folder empty: no export
  int64_t skipBudget = 0;
  double spikeSigmas = 0; ///< 0: spikes are not told
  uint64_t seed = 0;
  Backend backend = Backend::Local;
  DeviceKind device = DeviceKind::Auto;
  ScheduleOverrides schedule;
  int threads = 0; ///< of a rank; 0: the program's
  int64_t logEvery = 1, traceSteps = 10;
  double peakGflops = 0; ///< of a core; 0: measured
  double watchdogSeconds = WatchdogOptions().seconds;
  bool serial = false;
  uint64_t streamDelays = 0; ///< seed; 0: none
  std::vector<EmulatedLink> links;
};

/// What to do after reading the command line.
enum class ParseResult { Run, Help, UsageError };

/// Reads the command line. `message`: the help text, or what is wrong with the
/// usage and what is legal.
ParseResult parseOptions(int argc, const char *const *argv, Options &options,
                         std::string &message);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_OPTIONS_H
