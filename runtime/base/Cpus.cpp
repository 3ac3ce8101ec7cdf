//===- Cpus.cpp -----------------------------------------------------------===//
#include "runtime/base/Cpus.h"
#include <algorithm>
#include <cstdint>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

int cleave::runtime::getAvailableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = sched_getaffinity(0, sizeof(set), &set) == 0
                  ? CPU_COUNT(&set)
                  : int(std::thread::hardware_concurrency());
  return std::max(count, 1);
}

/// The kernel's struct sched_attr in its first version (sched_setattr(2)),
/// which not all C libraries have, and whose header does not go with theirs.
struct SchedulingAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime; ///< of a thread without a deadline: its slice, in ns
  uint64_t deadline, period;
};

void cleave::runtime::expectShortWork() {
  ::prctl(PR_SET_TIMERSLACK, 1ul);
  SchedulingAttributes attributes = {};
  attributes.size = sizeof(attributes);
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0)
    return;
  attributes.runtime = 100'000;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}
