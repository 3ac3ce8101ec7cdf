//===- Judge.h - Which rank keeps the others waiting ----------------------===//
//
// A rank that waits in a collective does nothing wrong: who has not come does.
// So the ranks that have stood still for longest are mostly not the culprits,
// and what is judged is all positions together.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_WATCH_JUDGE_H
#define CLEAVE_RUNTIME_WATCH_JUDGE_H

#include "runtime/base/Mesh.h"
#include "runtime/base/Position.h"
#include <optional>
#include <vector>

namespace cleave::runtime {

/// What is known of a rank. All times are in seconds.
struct RankView {
  PositionRecord position;
  /// Since its position last changed, and since its thread last used any CPU
  /// time; both until its process was last heard.
  double unchanged = 0, idle = 0;
  double silent = 0; ///< since its process last said anything
  /// Since its process ended without a word.
  std::optional<double> lost;
};

/// Seconds after which a rank hangs.
struct WatchLimits {
  double hung = 10;     ///< in training; of silence, in any phase
  double joining = 300; ///< while GPUs meet
  double patient = 600; ///< in all other phases

  /// Until all who wait for a rank that has died have got to where they wait.
  double settled = 0.6;

  double get(Phase phase) const {
    return phase == Phase::Training  ? hung
           : phase == Phase::Joining ? joining
                                     : patient;
  }
};

/// How a rank keeps the others waiting.
enum class Fault {
  Lost,       ///< its process has ended
  Silent,     ///< its process says nothing: stopped, or its host is gone
  Stuck,      ///< outside of a collective
  Idle,       ///< in a collective, where it does not even wait actively
  Absent,     ///< is not in a collective that others of its group wait in, or
              ///< has not sent what another waits for
  Unfinished, ///< all of the group are in the collective, which does not end
};

struct Verdict {
  Fault fault;
  std::vector<int> culprits; ///< ascending
  std::vector<int> waiters;  ///< those who wait for them directly; ascending
  /// Of these the one that is not as far as the others; -1: there is none.
  int nearest = -1;
  double seconds; ///< since when, at least
};

/// The ranks at fault if there are any. `views` by rank; ranks that differ on
/// the stage axis run different instructions.
std::optional<Verdict> judge(const std::vector<RankView> &views,
                             const Mesh &mesh, const WatchLimits &limits,
                             int stageAxis = -1);

/// The group of the collective that `rank` is in, or the two ranks of the
/// message that it waits for; ascending.
std::vector<int> getMeetingRanks(const Mesh &mesh, int rank,
                                 const PositionRecord &position);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_JUDGE_H
