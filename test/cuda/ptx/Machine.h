//===- Machine.h - A launch as it runs ------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_MACHINE_H
#define CLEAVE_TEST_CUDA_PTX_MACHINE_H

#include "Run.h"
#include "SharedMemory.h"
#include <deque>
#include <random>

namespace cleave::ptx {

struct FreeBytes {
  void operator()(std::byte *bytes) const { std::free(bytes); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// A function as a warp runs it.
struct Frame {
  const Function *function = nullptr;
  AlignedBytes storage;
  size_t capacity = 0;
  std::byte *registers = nullptr;
  /// Lanes whose register something wrote, where the function asks for it.
  std::vector<uint32_t> written;
  /// Parameter space, a part for each lane; a kernel's parameters themselves
  /// are the launch's.
  std::vector<std::byte> parameters;
  size_t firstPath = 0;
  uint64_t localBase = 0;
  uint32_t lanes = 0;
  const Instruction *call = nullptr; ///< what called it, or null
};

/// Lanes that run together, up to where they meet others.
struct Path {
  uint32_t next, meeting, lanes;
};

/// What cp.async has begun.
struct Copy {
  size_t offset;
  uint32_t bytes, lane, group;
};

enum class State : uint8_t { Ready, Waiting, Done };

struct Warp {
  uint32_t number = 0;
  uint32_t live = 0; ///< lanes that have not left
  State state = State::Ready;
  std::deque<Frame> frames; ///< those from `depth` on are kept for later
  size_t depth = 0;
  std::vector<Path> paths;
  Clock clock;
  std::vector<Copy> copies;
  std::array<uint32_t, warpSize> groups = {}; ///< committed, by lane
  std::array<std::vector<std::byte>, warpSize> local, localWritten;
  const Instruction *waiting = nullptr; ///< the barrier

  Frame &getFrame() { return frames[depth - 1]; }
};

struct Barrier {
  uint32_t waiting = 0;  ///< warps, as bits
  uint32_t threads = 0;  ///< that have come, whole warps
  uint32_t expected = 0; ///< 0: all that have not left
  const Instruction *first = nullptr;
  std::array<uint32_t, 32> joined = {}; ///< what those that came know
  uint32_t count = 0;
  bool all = true, any = false;
};

/// Addresses of the lanes, and where their bytes are.
struct Places {
  std::array<uint64_t, warpSize> addresses;
  std::array<std::byte *, warpSize> bytes;
  uint32_t shared = 0, local = 0; ///< lanes
};

class Machine {
public:
  Machine(const Module &module, const Launch &launch, const Memory &memory,
          const Options &options);

  Status run(Counts *counts);

private:
  // Run.cpp: blocks, warps and control
  Status checkLaunch();
  void placeShared();
  bool runBlock(uint64_t number);
  void startWarp(Warp &warp);
  void startFrame(Warp &warp, const Function &function, uint32_t lanes);
  void writeConstants(const Warp &warp, Frame &frame);
  void writeSpecials(const Warp &warp, Frame &frame);
  bool runWarp(Warp &warp);
  bool execute(Warp &warp, const Instruction &i, uint32_t mask);
  void branch(Warp &warp, const Instruction &i, uint32_t mask);
  bool branchIndex(Warp &warp, const Instruction &i, uint32_t mask);
  bool call(Warp &warp, const Instruction &i, uint32_t mask);
  void finishCall(Warp &warp);
  void leave(Warp &warp, uint32_t mask, bool exits);
  void split(Warp &warp, uint32_t meeting, std::vector<Path> parts);
  bool checkReads(Warp &warp, const Instruction &i, uint32_t lanes,
                  uint32_t mask);
  void trackWrites(Warp &warp, const Instruction &i, uint32_t mask);
  bool elect(Warp &warp, const Instruction &i, uint32_t mask);
  void writeEverywhere(Warp &warp, const Instruction &i, uint32_t mask,
                       uint64_t value);
  void testSpace(Warp &warp, const Instruction &i, uint32_t mask);

  // Barriers.cpp
  bool arrive(Warp &warp, const Instruction &i, uint32_t mask);
  bool isComplete(const Barrier &barrier) const;
  void release(Barrier &barrier);
  void releaseComplete();
  bool reportDeadlock();

  // Access.cpp
  bool locate(Warp &warp, const Instruction &i, uint32_t mask, unsigned operand,
              unsigned addressWidth, int64_t offset, Space space,
              unsigned bytes, bool writes, Places &places);
  bool locateLane(Warp &warp, const Instruction &i, uint32_t lane, Space space,
                  unsigned bytes, bool writes, Places &places);
  bool locateGlobal(Warp &warp, const Instruction &i, uint32_t mask,
                    unsigned bytes, bool writes, Places &places);
  bool noteRead(Warp &warp, const Instruction &i, uint32_t mask, unsigned bytes,
                const Places &places);
  bool noteWrite(Warp &warp, const Instruction &i, uint32_t mask,
                 unsigned bytes, const Places &places);
  bool load(Warp &warp, const Instruction &i, uint32_t mask);
  bool store(Warp &warp, const Instruction &i, uint32_t mask);
  bool doAtomic(Warp &warp, const Instruction &i, uint32_t mask);
  bool copyAsync(Warp &warp, const Instruction &i, uint32_t mask);
  void waitGroup(Warp &warp, const Instruction &i, uint32_t mask);
  bool loadMatrix(Warp &warp, const Instruction &i, uint32_t mask);
  bool storeMatrix(Warp &warp, const Instruction &i, uint32_t mask);

  // Lanes that work together: WarpOps.cpp, Matrix.cpp
  bool checkMembers(Warp &warp, const Instruction &i, uint32_t mask,
                    unsigned operand);
  bool shuffle(Warp &warp, const Instruction &i, uint32_t mask);
  bool vote(Warp &warp, const Instruction &i, uint32_t mask);
  bool match(Warp &warp, const Instruction &i, uint32_t mask);
  bool reduce(Warp &warp, const Instruction &i, uint32_t mask);
  bool multiply(Warp &warp, const Instruction &i, uint32_t mask);
  bool requireWholeWarp(Warp &warp, const Instruction &i, uint32_t mask);

  // Errors; all return false.
  bool fail(const Warp &warp, const Instruction &i, uint32_t lane,
            const std::string &message);
  bool failShared(const Warp &warp, const Instruction &i, uint32_t lane,
                  const SharedMemory::Problem &problem);
  std::string describeIndex(uint32_t warp, uint32_t lane) const;
  std::string describeLine(const Instruction &i) const;

  const Module &module;
  const Launch &launch;
  const Memory &memory;
  Options options;
  const Function *kernel = nullptr;
  Status failure;
  std::mt19937_64 random;

  uint32_t threads = 0;               ///< of a block
  std::array<uint32_t, 3> block = {}; ///< the one that runs
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  SharedMemory shared;
  /// Where the parts of shared memory begin, and where the last one ends.
  uint64_t moduleShared = 0, dynamicShared = 0, sharedEnd = 0;
  const Allocation *recent = nullptr; ///< that was accessed
  std::vector<Allocation> moduleMemory;
  uint64_t warpInstructions = 0, threadInstructions = 0;
};

/// Lane `lane` of a register.
template <class T>
T readLane(const std::byte *registers, uint32_t offset, uint32_t lane) {
  T value;
  std::memcpy(&value, registers + offset + lane * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void writeLane(std::byte *registers, uint32_t offset, uint32_t lane, T value) {
  std::memcpy(registers + offset + lane * sizeof(T), &value, sizeof(T));
}
inline uint32_t readPredicate(const std::byte *registers, uint32_t offset) {
  return readLane<uint32_t>(registers, offset, 0);
}
inline void writePredicate(std::byte *registers, uint32_t offset, uint32_t bits,
                           uint32_t mask) {
  uint32_t old = readPredicate(registers, offset);
  writeLane<uint32_t>(registers, offset, 0, (old & ~mask) | (bits & mask));
}

/// Calls `body` with each lane of `mask` until it returns false.
template <class Body>
bool forLanes(uint32_t mask, Body body) {
  for (; mask; mask &= mask - 1)
    if (!body(uint32_t(__builtin_ctz(mask))))
      return false;
  return true;
}

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_MACHINE_H
