//===- Watchdog.h - Finds a rank that hangs, and ends the run -------------===//
//
// A thread of each process. It looks at the positions (base/Position.h) of the
// ranks of this process, hears of those of others (Link.h), and when one keeps
// the others waiting says which one and where, and ends all with ExitHung.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_WATCH_WATCHDOG_H
#define CLEAVE_RUNTIME_WATCH_WATCHDOG_H

#include "runtime/comm/Communicator.h"
#include "runtime/program/Program.h"
#include <memory>

namespace cleave::runtime {

struct WatchdogOptions {
  /// Within so many seconds, or three steps where that is longer, a rank that
  /// hangs has been found. 0: nobody is watched.
  double seconds = 10;
  /// The same for what may take its time: starting, loading, the first step
  /// and saving. A process that is silent is found in `seconds` even then.
  double patientSeconds = 600;
  /// The same while GPUs meet.
  int joinSeconds = 300;
};

/// One for a process, from before its ranks start until all have ended.
class Watchdog {
public:
  /// Nothing is watched before a rank enters. The program outlives this.
  Watchdog(const Program &program, const WatchdogOptions &options);
  ~Watchdog();
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  /// Watches the rank of `communicator` until `leave`, and publishes what it
  /// does from then on. To be called by the rank's own thread; collective.
  Status enter(Communicator &communicator);
  /// The rank's work has ended, well or not: who waits for it waits in vain,
  /// but it is not at fault. Not collective; again is without effect.
  void leave(Communicator &communicator);

private:
  class Process;
  std::unique_ptr<Process> process;
};

/// Watches a rank until the end of the scope.
class WatchedRank {
public:
  WatchedRank() = default;
  ~WatchedRank() {
    if (watchdog)
      watchdog->leave(*communicator);
  }
  WatchedRank(const WatchedRank &) = delete;
  WatchedRank &operator=(const WatchedRank &) = delete;

  /// A null watchdog is none.
  Status enter(Watchdog *newWatchdog, Communicator &newCommunicator) {
    if (!newWatchdog)
      return {};
    watchdog = newWatchdog;
    communicator = &newCommunicator;
    return watchdog->enter(newCommunicator);
  }

private:
  Watchdog *watchdog = nullptr;
  Communicator *communicator = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_WATCHDOG_H
