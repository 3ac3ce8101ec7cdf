//===- Judge.cpp ----------------------------------------------------------===//
#include "runtime/watch/Judge.h"
#include <algorithm>
#include <limits>
#include <tuple>

using namespace cleave::runtime;

std::vector<int>
cleave::runtime::getMeetingRanks(const Mesh &mesh, int rank,
                                 const PositionRecord &position) {
  AxisList axes;
  for (size_t axis = 0; axis < mesh.getSizes().size(); ++axis)
    if (position.axes >> axis & 1)
      axes.push_back(uint8_t(axis));
  return mesh.getGroup(rank, axes);
}

/// Whether two ranks of one group are in the same collective. Between steps
/// ranks may name their phase differently: one saves, the others wait.
static bool areTogether(const PositionRecord &a, const PositionRecord &b) {
  return a.isWaiting() && a.meeting == b.meeting && a.axes == b.axes &&
         a.step == b.step && a.getRun() == b.getRun() &&
         a.getInstruction() == b.getInstruction();
}

/// The order of the program.
static auto getOrder(const PositionRecord &position) {
  return std::tuple(position.step, position.getRun(), position.getInstruction(),
                    position.meeting);
}

namespace {

class Judge {
public:
  Judge(const std::vector<RankView> &views, const Mesh &mesh,
        const WatchLimits &limits)
      : views(views), mesh(mesh), limits(limits) {}

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
      return std::pair(getOrder(views[size_t(rank)].position), rank);
    };
    std::sort(ranks.begin(), ranks.end(),
              [&](int a, int b) { return getKey(a) < getKey(b); });
    return ranks;
  }
  Verdict accuse(Fault fault, std::vector<int> culprits) const;
  std::optional<Verdict> judgeMeeting(int rank) const;

  const std::vector<RankView> &views;
  const Mesh &mesh;
  const WatchLimits &limits;
};

} // namespace

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
  std::vector<int> present, absent, idle;
  for (int other : getMeetingRanks(mesh, rank, position)) {
    const RankView &view = views[size_t(other)];
    bool isPresent = areTogether(position, view.position);
    (isPresent ? present : absent).push_back(other);
    if (hasLeft(view)) {
      if (std::max(view.unchanged, view.silent) < limits.hung)
        return std::nullopt;
      continue;
    }
    // Those who still move, or may take their time, will come; those who wait
    // for something before this are no more at fault than `rank`.
    if (!standsStill(view) || !view.position.isWaiting() ||
        (!isPresent && getOrder(view.position) < getOrder(position)))
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
                       const WatchLimits &limits) {
  return Judge(views, mesh, limits).run();
}
