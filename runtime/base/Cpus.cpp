//===- Cpus.cpp -----------------------------------------------------------===//
#include "runtime/base/Cpus.h"
#include <algorithm>
#include <sched.h>
#include <thread>

int cleave::runtime::getAvailableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = sched_getaffinity(0, sizeof(set), &set) == 0
                  ? CPU_COUNT(&set)
                  : int(std::thread::hardware_concurrency());
  return std::max(count, 1);
}
