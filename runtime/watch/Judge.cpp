//===- Judge.cpp ----------------------------------------------------------===//
#include "runtime/watch/Judge.h"
#include <algorithm>
#include <limits>
#include <tuple>

using namespace cleave::runtime;

std::vector<int>
cleave::runtime::getMeetingRanks(const Mesh &mesh, int rank,
                                 const PositionRecord &position) {
  if (position.isReceiving()) {
    int from = int(position.axes);
    return {std::min(rank, from), std::max(rank, from)};
  }
  AxisList axes;
  for (size_t axis = 0; axis < mesh.getSizes().size(); ++axis)
    if (position.axes >> axis & 1)
      axes.push_back(uint8_t(axis));
  return mesh.getGroup(rank, axes);
}

/// The order of a stage's program.
static auto getPlace(const PositionRecord &position) {
  return std::tuple(position.step, position.getRun(),
                    position.getInstruction());
}

namespace {

class Judge {
public:
  Judge(const std::vector<RankView> &views, const Mesh &mesh,
        const WatchLimits &limits, int stageAxis)
      : views(views), mesh(mesh), limits(limits), stageAxis(stageAxis) {}

  std::optional<Verdict> run() const;

private:
  template <typename Test>
  std::vector<int> find(Test &&test) const {
    std::vector<int> ranks;
    for (size_t rank = 0; rank < views.size(); ++rank)
      if (!hasLeft(views[rank]) && test(views[rank]))
        ranks.push_back(int(rank));
    return ranks;
  }
  static bool hasLeft(const RankView &view) {
    return view.position.getPhase() == Phase::Left;
  }
  bool standsStill(const RankView &view) const {
    return view.unchanged >= limits.get(view.position.getPhase());
  }
  std::vector<int> sortByOrder(std::vector<int> ranks) const {
    auto getKey = [&](int rank) {
      const PositionRecord &position = views[size_t(rank)].position;
      return std::tuple(getPlace(position), position.meeting, rank);
    };
    std::sort(ranks.begin(), ranks.end(),
              [&](int a, int b) { return getKey(a) < getKey(b); });
    return ranks;
  }
  bool areOfOneStage(int a, int b) const {
    return stageAxis < 0 ||
           mesh.getCoordinate(a, stageAxis) == mesh.getCoordinate(b, stageAxis);
  }
  bool areTogether(int a, int b) const;
  bool isBefore(int a, int b) const;
  Verdict accuse(Fault fault, std::vector<int> culprits) const;
  std::optional<Verdict> judgeMeeting(int rank) const;
  std::optional<Verdict> judgeReceiver(int rank) const;

  const std::vector<RankView> &views;
  const Mesh &mesh;
  const WatchLimits &limits;
  int stageAxis;
};

} // namespace

/// Whether two ranks of one group are in the same collective. Between steps
/// ranks may name their phase differently: one saves, the others wait.
bool Judge::areTogether(int a, int b) const {
  const PositionRecord &x = views[size_t(a)].position,
                       &y = views[size_t(b)].position;
  return x.isWaiting() && x.meeting == y.meeting && x.axes == y.axes &&
         x.step == y.step &&
         (!areOfOneStage(a, b) || getPlace(x) == getPlace(y));
}

/// Whether what rank `a` waits in comes before what `b` waits in, as far as can
/// be told: of different collectives in one place, and of instructions of
/// different stages, it is taken to, so that `a` is not blamed.
bool Judge::isBefore(int a, int b) const {
  const PositionRecord &x = views[size_t(a)].position,
                       &y = views[size_t(b)].position;
  if (areOfOneStage(a, b) ? getPlace(x) != getPlace(y) : x.step != y.step)
    return getPlace(x) < getPlace(y);
  return x.axes != y.axes || x.isReceiving() || y.isReceiving() ||
         x.meeting < y.meeting;
}

Verdict Judge::accuse(Fault fault, std::vector<int> culprits) const {
  Verdict verdict;
  verdict.fault = fault;
  verdict.culprits = std::move(culprits);
  verdict.seconds = std::numeric_limits<double>::infinity();
  auto isCulprit = [&](int rank) {
    return std::binary_search(verdict.culprits.begin(), verdict.culprits.end(),
                              rank);
  };
  for (int rank : verdict.culprits) {
    const RankView &view = views[size_t(rank)];
    double since = fault == Fault::Silent || fault == Fault::Lost
                       ? view.silent
                       : view.unchanged;
    verdict.seconds = std::min(verdict.seconds, since);
  }
  for (size_t rank = 0; rank < views.size(); ++rank) {
    const PositionRecord &position = views[rank].position;
    if (!position.isWaiting() || isCulprit(int(rank)))
      continue;
    std::vector<int> group = getMeetingRanks(mesh, int(rank), position);
    if (std::any_of(group.begin(), group.end(), isCulprit))
      verdict.waiters.push_back(int(rank));
  }
  if (std::vector<int> sorted = sortByOrder(verdict.waiters); !sorted.empty())
    verdict.nearest = sorted.front();
  return verdict;
}

/// Of the collective that `rank` has waited in for too long.
std::optional<Verdict> Judge::judgeMeeting(int rank) const {
  const PositionRecord &position = views[size_t(rank)].position;
  if (position.isReceiving())
    return judgeReceiver(rank);
  std::vector<int> present, absent, idle;
  for (int other : getMeetingRanks(mesh, rank, position)) {
    const RankView &view = views[size_t(other)];
    bool isPresent = areTogether(rank, other);
    (isPresent ? present : absent).push_back(other);
    if (hasLeft(view)) {
      if (std::max(view.unchanged, view.silent) < limits.hung)
        return std::nullopt;
      continue;
    }
    // Those who still move, or may take their time, will come; those who wait
    // for something before this are no more at fault than `rank`.
    if (!standsStill(view) || !view.position.isWaiting() ||
        (!isPresent && isBefore(other, rank)))
      return std::nullopt;
    // Who waits looks again and again; a thread that is stopped does not.
    if (isPresent && view.idle >= limits.hung)
      idle.push_back(other);
  }
  if (!idle.empty() && idle.size() < present.size() + absent.size())
    return accuse(Fault::Idle, idle);
  if (!absent.empty())
    return accuse(Fault::Absent, absent);
  return accuse(Fault::Unfinished, present);
}

/// Of the message that `rank` has waited for for too long.
std::optional<Verdict> Judge::judgeReceiver(int rank) const {
  const RankView &view = views[size_t(rank)];
  int from = int(view.position.axes);
  const RankView &sender = views[size_t(from)];
  if (hasLeft(sender)) {
    if (std::max(sender.unchanged, sender.silent) < limits.hung)
      return std::nullopt;
    return accuse(Fault::Absent, {from});
  }
  if (!standsStill(sender) || !sender.position.isWaiting())
    return std::nullopt;
  // The sender waits too: for this rank perhaps, whose message is long there.
  if (view.idle >= limits.hung && sender.idle < limits.hung)
    return accuse(Fault::Idle, {rank});
  if (!isBefore(from, rank))
    return accuse(Fault::Absent, {from});
  return std::nullopt;
}

std::optional<Verdict> Judge::run() const {
  // Once a rank has left, for a failure perhaps, the others are being ended:
  // then it takes a moment until that is odd.
  bool isEnding = std::any_of(views.begin(), views.end(), hasLeft);
  if (auto lost = find([&](const RankView &view) {
        return view.lost &&
               *view.lost >= (isEnding ? limits.hung : limits.settled);
      });
      !lost.empty())
    return accuse(Fault::Lost, lost);
  if (auto silent = find([&](const RankView &view) {
        return view.silent >= limits.hung && !view.lost;
      });
      !silent.empty())
    return accuse(Fault::Silent, silent);
  if (auto stuck = find([&](const RankView &view) {
        return !view.position.isWaiting() && standsStill(view);
      });
      !stuck.empty())
    return accuse(Fault::Stuck, stuck);
  // Of those who wait, the one that is not as far as the others: what it waits
  // for is what the others lack, too.
  std::vector<int> waiting = find([&](const RankView &view) {
    return view.position.isWaiting() && standsStill(view);
  });
  for (int rank : sortByOrder(std::move(waiting)))
    if (std::optional<Verdict> verdict = judgeMeeting(rank))
      return verdict;
  return std::nullopt;
}

std::optional<Verdict>
cleave::runtime::judge(const std::vector<RankView> &views, const Mesh &mesh,
                       const WatchLimits &limits, int stageAxis) {
  return Judge(views, mesh, limits, stageAxis).run();
}
