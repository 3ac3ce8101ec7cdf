//===- Barrier.cpp --------------------------------------------------------===//
#include "runtime/comm/Barrier.h"
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace cleave::runtime;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
              "a futex is a plain 32-bit word");

static void relaxCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool Barrier::waitFor(uint32_t seen) {
  for (int i = 0; i < spins; ++i) {
    if (epoch.load(std::memory_order_acquire) != seen)
      return true;
    relaxCore();
  }
  // An abort that comes between the check and the sleep is noticed then.
  timespec timeout{0, 20'000'000};
  sleepers.fetch_add(1);
  if (epoch.load() == seen)
    ::syscall(SYS_futex, &epoch, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr,
              0);
  sleepers.fetch_sub(1);
  return epoch.load() != seen;
}

void Barrier::release(uint32_t seen) {
  // In this order: who reads `arrived` as 0 again also reads the new epoch.
  epoch.store(seen + 1);
  arrived.store(0);
  if (sleepers.load() > 0)
    wake();
}

void Barrier::wake() {
  ::syscall(SYS_futex, &epoch, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
            0);
}

bool Barrier::enter(const std::atomic<bool> &aborted) {
  uint32_t seen = epoch.load();
  uint32_t before = arrived.fetch_add(1);
  if (before & poison)
    return false;
  if (before + 1 == count) {
    release(seen);
    return true;
  }
  while (!waitFor(seen)) {
    if (!aborted.load())
      continue;
    // Give up, unless the last thread has arrived meanwhile: then the others
    // count on this one.
    uint32_t now = arrived.load();
    while (epoch.load() == seen) {
      if (now & poison)
        return false;
      if (now == count)
        break;
      if (arrived.compare_exchange_strong(now, now | poison))
        return false;
    }
  }
  return true;
}

void Barrier::leave() {
  uint32_t seen = epoch.load();
  if (arrived.fetch_add(1) + 1 == count) {
    release(seen);
    return;
  }
  while (!waitFor(seen))
    continue;
}
