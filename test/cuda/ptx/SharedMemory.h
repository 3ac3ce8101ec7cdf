//===- SharedMemory.h - A block's shared memory and who touched it --------===//
//
// Each byte remembers its last writer and its last readers as stamps: a warp,
// a lane, and the time of the warp, which counts the barriers it has passed,
// its own among them (bar.warp.sync). Each warp knows up to which time of every
// other it has been told, by barriers. An access whose stamp is newer than that
// is not ordered, nor is one by another lane of the warp in the same time; and
// of two such accesses, one of which writes, at least one is wrong. Lanes that
// write one place by one instruction are none of this file's business.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_SHAREDMEMORY_H
#define CLEAVE_TEST_CUDA_PTX_SHAREDMEMORY_H

#include "Module.h"
#include <algorithm>
#include <cstring>

namespace cleave::ptx {

/// From the lowest bit: lane, warp, strong, pending, time.
using Stamp = uint32_t;
constexpr Stamp laneBits = 31, strongBit = 1 << 10, pendingBit = 1 << 11;
constexpr unsigned warpShift = 5, timeShift = 12;
constexpr uint32_t lastTime = (1 << 20) - 1;

inline uint32_t getLane(Stamp stamp) { return stamp & laneBits; }
inline uint32_t getWarp(Stamp stamp) { return (stamp >> warpShift) & 31; }
inline uint32_t getTime(Stamp stamp) { return stamp >> timeShift; }

/// What a warp knows of the times of all, its own included.
struct Clock {
  std::array<uint32_t, 32> times = {};
  uint32_t warp = 0;
  /// A stamp, without its lane, that is known to be ordered.
  Stamp known = ~laneBits;

  Stamp getStamp(uint32_t lane, bool isStrong) const {
    return (times[warp] << timeShift) | (isStrong ? strongBit : 0) |
           (warp << warpShift) | lane;
  }
  /// Whether it is, for every lane of this warp.
  bool isOrdered(Stamp stamp) const {
    uint32_t other = getWarp(stamp);
    return times[other] >= getTime(stamp) + (other == warp);
  }
  bool isOrdered(Stamp stamp, uint32_t lane) const {
    return isOrdered(stamp) ||
           (getWarp(stamp) == warp && getLane(stamp) == lane);
  }
  /// What the warp does from here on is ordered by the next barrier, not by
  /// this one. Where there is no later time, fewer races are found.
  void advance() { times[warp] = std::min(times[warp] + 1, lastTime); }
};

class SharedMemory {
public:
  enum class Fault : uint8_t {
    None,
    Unwritten,
    Pending,
    ReadAfterWrite,
    WriteAfterWrite,
    WriteAfterRead,
  };
  /// What is wrong, at which byte, and the other access.
  struct Problem {
    Fault fault = Fault::None;
    size_t offset = 0;
    Stamp other = 0;
  };

  void reset(size_t bytes, bool isChecked);

  size_t size() const { return bytes.size(); }
  std::byte *data() { return bytes.data(); }

  bool read(Clock &clock, uint32_t lane, size_t offset, size_t count,
            bool isStrong, Problem &problem);
  /// Whether it may be written; write() notes that it is.
  bool mayWrite(const Clock &clock, uint32_t lane, size_t offset, size_t count,
                bool isStrong, Problem &problem) const;
  void write(const Clock &clock, uint32_t lane, size_t offset, size_t count,
             bool isStrong);
  /// A write that ends when finish() says so.
  bool begin(const Clock &clock, uint32_t lane, size_t offset, size_t count,
             Problem &problem);
  void finish(const Clock &clock, uint32_t lane, size_t offset, size_t count);

private:
  void addReader(const Clock &clock, size_t offset, Stamp stamp);

  std::vector<std::byte> bytes;
  /// Of each byte; 0 where there is none. Two readers, since one may be the
  /// warp that writes next.
  std::vector<Stamp> writers, readers, otherReaders;
};

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_SHAREDMEMORY_H
