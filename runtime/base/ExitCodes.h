//===- ExitCodes.h - How a run, and what supervises it, ends --------------===//
#ifndef CLEAVE_RUNTIME_BASE_EXITCODES_H
#define CLEAVE_RUNTIME_BASE_EXITCODES_H

namespace cleave::runtime {

/// Exit codes of a trained executable and of `cleave run`, which passes on
/// those of what it runs. docs/running.md says which of them are worth another
/// try; a launcher may replace any of them by its own, for a signal by 128 and
/// its number.
enum ExitCode : int {
  ExitDone = 0,     ///< all steps done, and all files written
  ExitFailure = 1,  ///< an error; its message is on stderr
  ExitUsage = 2,    ///< wrong usage; the same command fails again
  ExitStopped = 3,  ///< a signal asked it to stop; saved where --save is
  ExitHung = 4,     ///< the watchdog found a rank that hangs or has died
  ExitBadSteps = 5, ///< more steps were bad than --skip-budget allows
  ExitGaveUp = 6,   ///< of `cleave run`: restarts that lead nowhere
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_EXITCODES_H
