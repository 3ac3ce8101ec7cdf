//===- Clock.h - Times that threads and devices share ---------------------===//
#ifndef CLEAVE_RUNTIME_BASE_CLOCK_H
#define CLEAVE_RUNTIME_BASE_CLOCK_H

#include <cstdint>
#include <ctime>

namespace cleave::runtime {

/// Nanoseconds of CLOCK_MONOTONIC, which processes of one machine have alike.
inline uint64_t getMonotonicNs() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CLOCK_H
