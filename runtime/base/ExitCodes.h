//===- ExitCodes.h - How a run ended, for scripts and supervisors ---------===//
#ifndef CLEAVE_RUNTIME_BASE_EXITCODES_H
#define CLEAVE_RUNTIME_BASE_EXITCODES_H

namespace cleave::runtime {

/// Exit codes of a compiled executable. docs/running.md lists them for users;
/// a supervisor starts a run again after Failed and RankLost alone.
enum ExitCode : int {
  ExitDone = 0,
  ExitFailed = 1, ///< one error was printed
  ExitUsage = 2,  ///< the command line is wrong; nothing ran
  /// SIGTERM, SIGINT or SIGUSR1 came: the step was finished and, where --save
  /// was given, saved. The same command line with --resume goes on.
  ExitStopped = 3,
  ExitRankLost = 4, ///< a rank hung or died
  /// More steps than --skip-budget had a loss or gradient norm that is not a
  /// number or far above those before; the state is that before them.
  ExitSkipBudget = 5,
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_EXITCODES_H
