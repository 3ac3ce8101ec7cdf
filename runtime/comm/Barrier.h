//===- Barrier.h - Where the threads of a group meet ----------------------===//
#ifndef CLEAVE_RUNTIME_COMM_BARRIER_H
#define CLEAVE_RUNTIME_COMM_BARRIER_H

#include <atomic>
#include <cstdint>

namespace cleave::runtime {

/// A barrier of `count` threads. Waiters spin `spins` times, then sleep on a
/// futex: with more threads than cores, spinning keeps the awaited one away.
///
/// The threads of a collective pass two of them: the first, enter(), after
/// saying where their buffers are; the second, leave(), once they are done with
/// each other's. enter() may give up; leave() may not, or a thread would free
/// what another still reads. A thread that has entered does nothing but copy
/// before it leaves, so leave() returns soon.
class Barrier {
public:
  Barrier(int count, int spins) : count(uint32_t(count)), spins(spins) {}

  /// Returns true when all threads have called; false, for all of them, when
  /// `aborted` becomes set before that.
  bool enter(const std::atomic<bool> &aborted);
  /// Returns when all threads have called.
  void leave();
  /// Makes those who wait look at `aborted` now.
  void wake();

private:
  static constexpr uint32_t poison = uint32_t(1) << 31;

  /// Waits until `epoch` is no longer `seen`; false if it still is after a
  /// while.
  bool waitFor(uint32_t seen);
  void release(uint32_t seen);

  uint32_t count;
  int spins;
  /// Threads that have arrived; with `poison`, one has given up.
  alignas(64) std::atomic<uint32_t> arrived{0};
  /// Goes up each time that all have arrived. What the futex is on.
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<uint32_t> sleepers{0};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_BARRIER_H
