//===- Tracker.cpp --------------------------------------------------------===//
#include "runtime/watch/Tracker.h"
#include <algorithm>

using namespace cleave::runtime;

/// Steps whose median is taken.
static constexpr size_t stepsKept = 15;

Tracker::Tracker(int ranks, double pause, double now)
    : entries(size_t(ranks)), pause(pause) {
  for (Entry &entry : entries)
    entry.changed = entry.worked = entry.heard = now;
}

void Tracker::hear(int rank, const PositionRecord &position, uint64_t busyNs,
                   double now) {
  Entry &entry = entries[size_t(rank)];
  bool wasStopped = now - entry.heard >= pause;
  bool works = busyNs != entry.busyNs;
  // One thread can be stopped alone, too.
  bool wasIdle = works && now - entry.worked >= pause;
  if (wasStopped || wasIdle || position != entry.position)
    entry.changed = now;
  if (works || wasStopped)
    entry.worked = now;
  entry.heard = now;
  entry.wasHeard = true;
  entry.busyNs = busyNs;
  entry.position = position;
  learn(position.step, now);
}

void Tracker::see(int rank, const PositionRecord &position, double now) {
  Entry &entry = entries[size_t(rank)];
  if (position != entry.position)
    entry.changed = now;
  entry.position = position;
}

void Tracker::learn(int64_t step, double now) {
  if (step <= lastStep)
    return;
  // From nothing to the first step is loading. The first step is slow: it
  // counts until there is another.
  if (changes == 2)
    stepSeconds.clear();
  if (changes >= 1) {
    stepSeconds.push_back((now - lastStepAt) / double(step - lastStep));
    if (stepSeconds.size() > stepsKept)
      stepSeconds.pop_front();
  }
  ++changes;
  lastStep = step;
  lastStepAt = now;
}

void Tracker::forgive(double now) {
  for (Entry &entry : entries)
    entry.changed = entry.worked = entry.heard = now;
}

std::vector<RankView> Tracker::getViews(double now) const {
  std::vector<RankView> views;
  for (const Entry &entry : entries) {
    // Of a process that says nothing it is not known that its rank could have
    // moved. Before it has said anything, it may be starting.
    double until = entry.wasHeard ? entry.heard : now;
    RankView view{entry.position, std::max(0.0, until - entry.changed),
                  std::max(0.0, until - entry.worked), now - until,
                  std::nullopt};
    if (entry.lost)
      view.lost = now - *entry.lost;
    views.push_back(view);
  }
  return views;
}

double Tracker::getStepSeconds() const {
  if (stepSeconds.empty())
    return 0;
  std::vector<double> sorted(stepSeconds.begin(), stepSeconds.end());
  auto middle = sorted.begin() + std::ptrdiff_t(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}
