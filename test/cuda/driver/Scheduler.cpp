//===- Scheduler.cpp ------------------------------------------------------===//
#include "test/cuda/driver/Scheduler.h"
#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

using namespace cleave::simulated;

/// What nobody waits for is less likely to execute.
static constexpr double unneededFactor = 0.1;

/// So far apart that lanes have priorities, nearly: one of two ready lanes is
/// overtaken for as long as weights hold.
double Scheduler::drawWeight() { return std::pow(10.0, random() % 13); }

std::shared_ptr<Lane> Scheduler::addLane(std::string name, int device) {
  auto lane = std::make_shared<Lane>();
  lane->name = std::move(name);
  lane->device = device;
  lane->weight = drawWeight();
  lanes.push_back(lane);
  return lane;
}

/// A lane that is lazy for a moment is overtaken by little, one that stays so
/// by whole micro-batches: weights hold for 1 to 16384 operations, and each
/// seed has a time scale of its own.
void Scheduler::redraw() {
  if (completed < redrawAt)
    return;
  redrawAt = completed + (uint64_t(1) << random() % (timeScale + 1));
  std::erase_if(lanes, [](const std::shared_ptr<Lane> &lane) {
    return !lane->isOpen && lane->pending.empty();
  });
  for (const std::shared_ptr<Lane> &lane : lanes)
    if (random() % 2 == 0)
      lane->weight = drawWeight();
}

void Scheduler::noteChange() {
  ++changes;
  ++progress;
  lastChange = Clock::now();
  changed.notify_all();
}

Id Scheduler::add(const std::shared_ptr<Lane> &lane,
                  std::shared_ptr<const Work> work,
                  const std::vector<Id> &waits) {
  Id id = ++last;
  Operation &added = operations[id];
  added.lane = lane;
  added.work = std::move(work);
  auto comeBehind = [&](Id other) {
    auto found = operations.find(other);
    if (found == operations.end() || other == id)
      return;
    found->second.dependents.push_back(id);
    added.waits.push_back(other);
    ++added.behind;
  };
  comeBehind(getLast(*lane));
  for (Id other : waits)
    comeBehind(other);
  if (added.behind == 0)
    ready.push_back(id);
  lane->pending.push_back(id);
  noteChange();
  return id;
}

void Scheduler::complete(Id id) {
  auto found = operations.find(id);
  Operation done = std::move(found->second);
  operations.erase(found);
  std::erase(ready, id);
  done.lane->pending.pop_front();
  ++done.lane->done;
  ++completed;
  needs.erase(id);
  for (Id dependent : done.dependents)
    if (--operations.at(dependent).behind == 0)
      ready.push_back(dependent);
  noteChange();
}

std::vector<Id> Scheduler::getLastOf(int device) const {
  std::vector<Id> ids;
  for (const std::shared_ptr<Lane> &lane : lanes)
    if (lane->device == device && !lane->pending.empty())
      ids.push_back(lane->pending.back());
  return ids;
}

std::unordered_set<Id>
Scheduler::findNeeded(const std::vector<Id> &targets) const {
  std::unordered_set<Id> needed;
  std::vector<Id> open = targets;
  while (!open.empty()) {
    Id id = open.back();
    open.pop_back();
    auto found = operations.find(id);
    if (found != operations.end() && needed.insert(id).second)
      open.insert(open.end(), found->second.waits.begin(),
                  found->second.waits.end());
  }
  return needed;
}

/// One of the ready operations, by the weights of their lanes; 0 where none can
/// go on.
Id Scheduler::choose(const std::unordered_set<Id> &needed) {
  redraw();
  std::vector<double> sums(ready.size());
  double sum = 0;
  for (size_t i = 0; i < ready.size(); ++i) {
    const Operation &operation = operations.at(ready[i]);
    if (operation.blockedAt != changes)
      sum += operation.lane->weight *
             (needed.contains(ready[i]) ? 1 : unneededFactor);
    sums[i] = sum;
  }
  if (sum == 0)
    return 0;
  double drawn = sum * (double(random() >> 11) * 0x1p-53);
  return ready[size_t(std::ranges::upper_bound(sums, drawn) - sums.begin())];
}

bool Scheduler::step(Id id) {
  Operation &operation = operations.at(id);
  // One that fails is dropped, with all others, while it executes.
  std::shared_ptr<const Work> work = operation.work;
  std::shared_ptr<Lane> lane = operation.lane;
  Progress progress = Progress::Done;
  if (!run(id, *lane, *work, progress))
    return false;
  if (progress == Progress::Done)
    complete(id);
  else
    operation.blockedAt = changes;
  return true;
}

/// Returns false where no other thread or process will change anything.
bool Scheduler::waitForOthers(std::unique_lock<std::mutex> &lock) {
  bool meetsProcesses = hangs || std::ranges::any_of(ready, [&](Id id) {
                          return operations.at(id).work->meetsOtherProcesses();
                        });
  uint64_t before = changes;
  // Whom a change has woken sleeps no longer, though it may not run yet.
  if (std::exchange(sleptAt, changes) != changes)
    sleeping = 0;
  ++sleeping;
  bool isDeadlock = !meetsProcesses && sleeping >= threads;
  if (!isDeadlock) {
    changed.wait_for(lock, std::chrono::milliseconds(meetsProcesses ? 1 : 50),
                     [&] { return changes != before || hasFailed; });
    std::chrono::duration<double> waited = Clock::now() - lastChange;
    isDeadlock = changes == before && waited.count() > patience;
    // Nobody tells of what another process did.
    if (changes == before && meetsProcesses)
      ++changes;
    else if (changes == before)
      --sleeping;
  }
  return !isDeadlock;
}

Scheduler::Waited Scheduler::runUntil(std::unique_lock<std::mutex> &lock,
                                      const std::vector<Id> &targets) {
  if (waiting++ == 0)
    lastChange = Clock::now();
  Waited waited = waitFor(lock, targets);
  --waiting;
  return waited;
}

Scheduler::Waited Scheduler::waitFor(std::unique_lock<std::mutex> &lock,
                                     const std::vector<Id> &targets) {
  std::unordered_set<Id> needed = findNeeded(targets);
  auto isPending = [&](Id id) { return !isDone(id); };
  while (!hasFailed && std::ranges::any_of(targets, isPending)) {
    Id chosen = choose(needed);
    if (chosen == 0) {
      if (!waitForOthers(lock))
        return Waited::Deadlock;
      continue;
    }
    if (!step(chosen))
      return Waited::Failed;
    // Lets the others enqueue between any two operations.
    if (threads > 1 && random() % 8 == 0) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
  return hasFailed ? Waited::Failed : Waited::Done;
}

Scheduler::Waited Scheduler::runSome(Id target) {
  auto found = needs.find(target);
  if (found == needs.end())
    found = needs.emplace(target, findNeeded({target})).first;
  // Those that are asked in vain do not count: were they to, a few of them in
  // eager lanes could keep a lazy one from all calls, since weights hold until
  // something completes.
  uint64_t end = completed + random() % 3;
  while (completed < end && !isDone(target)) {
    Id chosen = choose(found->second);
    if (chosen == 0)
      break;
    if (!step(chosen))
      return Waited::Failed;
  }
  // The next call asks the Blocked ones again.
  ++changes;
  if (std::exchange(idleProgress, progress) != progress)
    idleSince = Clock::now();
  std::chrono::duration<double> idle = Clock::now() - idleSince;
  return idle.count() > patience ? Waited::Deadlock : Waited::Done;
}

void Scheduler::letOthersGo(std::unique_lock<std::mutex> &lock) {
  if (threads < 2 || random() % 32 != 0)
    return;
  std::chrono::microseconds pause(random() % 200);
  lock.unlock();
  std::this_thread::sleep_for(pause);
  lock.lock();
}

void Scheduler::fail() {
  hasFailed = true;
  operations.clear();
  needs.clear();
  ready.clear();
  for (const std::shared_ptr<Lane> &lane : lanes)
    lane->pending.clear();
  changed.notify_all();
}

void Scheduler::removeThread() {
  --threads;
  changed.notify_all();
}

std::string Scheduler::describe() const {
  std::string text;
  for (const std::shared_ptr<Lane> &lane : lanes) {
    if (lane->pending.empty())
      continue;
    const Operation &next = operations.at(lane->pending.front());
    text += "  " + lane->name + ": " + std::to_string(lane->done) + " done, " +
            std::to_string(lane->pending.size()) +
            " not; next: " + next.work->getName();
    for (Id id : next.waits)
      if (auto found = operations.find(id); found != operations.end())
        text += ", which waits for " + found->second.work->getName() + " of " +
                found->second.lane->name;
    text += next.behind == 0 ? ", which is blocked\n" : "\n";
  }
  return text;
}
