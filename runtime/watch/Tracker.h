//===- Tracker.h - Since when each rank stands still ----------------------===//
#ifndef CLEAVE_RUNTIME_WATCH_TRACKER_H
#define CLEAVE_RUNTIME_WATCH_TRACKER_H

#include "runtime/watch/Judge.h"
#include <deque>

namespace cleave::runtime {

/// Turns what ranks say of themselves now and then into how long each has stood
/// still, and learns how long a step takes. Times are seconds of one clock, the
/// watcher's: what a rank says counts from when it is heard.
class Tracker {
public:
  /// `pause`: a rank that was not heard for as long was stopped as a whole;
  /// the time that it then missed is not held against it, nor against those
  /// that waited with it.
  Tracker(int ranks, double pause, double now);

  /// `busyNs`: CPU time that the rank's thread has used so far.
  void hear(int rank, const PositionRecord &position, uint64_t busyNs,
            double now);
  /// Where the rank is, from memory that its process shares; says nothing of
  /// whether that still runs.
  void see(int rank, const PositionRecord &position, double now);
  /// The rank's process has ended.
  void lose(int rank, double now) { entries[size_t(rank)].lost = now; }
  /// The watcher itself was stopped: nobody could be heard.
  void forgive(double now);

  std::vector<RankView> getViews(double now) const;

  /// Median of the last steps; 0 as long as none but the first has ended.
  double getStepSeconds() const;

private:
  struct Entry {
    PositionRecord position;
    uint64_t busyNs = 0;
    double changed, worked, heard; ///< when last
    bool wasHeard = false;
    std::optional<double> lost;
  };
  void learn(int64_t step, double now);

  std::vector<Entry> entries;
  double pause;
  int64_t lastStep = -1; ///< the furthest that was heard of
  double lastStepAt = 0;
  int changes = 0; ///< of lastStep
  std::deque<double> stepSeconds;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_TRACKER_H
