//===- Scheduler.h - The order in which operations execute ----------------===//
//
// Nothing executes when it is enqueued. Operations execute while a thread waits
// for some of them, one after the other, in an order that is drawn: any that
// what was enqueued allows. A seed makes it the same order again, for one
// thread that enqueues; several add the order in which they come.
//
// State: operations that are not done, each with how many others it still
// comes behind; a lane is a queue of them, a stream or a stream's part of a
// captured graph. An operation that comes behind none is ready.
//
// A lane has a weight: it is more or less eager, by factors of ten and more,
// and drawn anew now and then. So whole lanes run as early or as late as their
// events allow, which finds a wait that is missing much sooner than a fair draw
// (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
// Finding Bugs", 2010).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_SCHEDULER_H
#define CLEAVE_TEST_CUDA_DRIVER_SCHEDULER_H

#include "test/cuda/driver/Work.h"
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace cleave::simulated {

/// Of an operation; counted from 1.
using Id = uint64_t;

struct Lane {
  std::string name;
  int device = 0;
  double weight = 1;
  bool isOpen = true; ///< something may still be appended
  std::deque<Id> pending;
  uint64_t done = 0;
};

/// All calls under one lock, the machine's.
class Scheduler {
public:
  /// Executes an operation; false where it failed.
  using Run =
      std::function<bool(Id, const Lane &, const Work &, Progress &progress)>;

  explicit Scheduler(Run run) : run(std::move(run)) {}
  bool drawBit() { return random() % 2 == 0; }
  /// Before anything is added.
  void setOptions(uint64_t seed, double patience) {
    random.seed(seed);
    timeScale = 8 + random() % 7;
    this->patience = patience;
  }

  std::shared_ptr<Lane> addLane(std::string name, int device);
  void closeLane(Lane &lane) { lane.isOpen = false; }

  /// Behind what its lane has, and behind `waits`.
  Id add(const std::shared_ptr<Lane> &lane, std::shared_ptr<const Work> work,
         const std::vector<Id> &waits);
  bool isDone(Id id) const { return !operations.contains(id); }
  /// Of the lane's last operation that is not done; 0 without one.
  static Id getLast(const Lane &lane) {
    return lane.pending.empty() ? 0 : lane.pending.back();
  }

  /// Those of the lanes of a device.
  std::vector<Id> getLastOf(int device) const;

  enum class Waited : uint8_t { Done, Failed, Deadlock };
  /// Executes until all of `targets` are done: what they come behind, and, as
  /// the draw has it, others.
  Waited runUntil(std::unique_lock<std::mutex> &lock,
                  const std::vector<Id> &targets);
  /// Executes a few, or none: time goes by. A deadlock where calls of this have
  /// found nothing to execute for longer than anybody should wait.
  Waited runSome(Id target);

  /// Between two calls of a thread, others may make many.
  void letOthersGo(std::unique_lock<std::mutex> &lock);

  /// Drops all operations; those who wait for some return Failed.
  void fail();
  /// Some operation never ends. Whoever waits for it has no deadlock, as far as
  /// he can know, until his patience ends.
  void hang() { hangs = true; }
  /// Where each lane stands that has not done all, a line each.
  std::string describe() const;

  /// Threads that may enqueue. Where all of them wait and nothing can execute,
  /// there is a deadlock.
  void addThread() { ++threads; }
  void removeThread();

private:
  using Clock = std::chrono::steady_clock;

  struct Operation {
    std::shared_ptr<Lane> lane;
    std::shared_ptr<const Work> work;
    std::vector<Id> waits, dependents;
    size_t behind = 0;
    uint64_t blockedAt = 0; ///< the `changes` at which it was asked in vain
  };

  std::unordered_set<Id> findNeeded(const std::vector<Id> &targets) const;
  Id choose(const std::unordered_set<Id> &needed);
  bool step(Id id);
  void complete(Id id);
  void noteChange();
  Waited waitFor(std::unique_lock<std::mutex> &lock,
                 const std::vector<Id> &targets);
  bool waitForOthers(std::unique_lock<std::mutex> &lock);
  double drawWeight();
  void redraw();

  std::mt19937_64 random;
  double patience = 0;
  Run run;
  std::unordered_map<Id, Operation> operations;
  /// What runSome's targets come behind, done or not: nothing is added to it.
  std::unordered_map<Id, std::unordered_set<Id>> needs;
  std::vector<Id> ready;
  std::vector<std::shared_ptr<Lane>> lanes;
  Id last = 0;
  uint64_t completed = 0; ///< operations
  /// Weights hold for so many operations at most, as a power of two.
  uint64_t timeScale = 0;
  uint64_t redrawAt = 0; ///< of `completed`
  uint64_t progress = 0; ///< operations that were added or completed
  uint64_t idleProgress = 0;
  Clock::time_point idleSince = Clock::now(); ///< runSome, at idleProgress
  uint64_t changes = 1; ///< goes up with what may end the wait of a Blocked one
  Clock::time_point lastChange = Clock::now();
  int threads = 0, waiting = 0; ///< and those of them that are in runUntil
  int sleeping = 0;             ///< at the `changes` of sleptAt
  uint64_t sleptAt = 0;
  bool hasFailed = false, hangs = false;
  std::condition_variable changed;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_SCHEDULER_H
