//===- Position.h - Where a rank is, for others to read -------------------===//
//
// A rank says where it is by plain relaxed stores, one for each instruction;
// who watches it looks now and then, and takes a position that it sees twice
// for one that has not changed. The ranks of a group make the same collectives
// in the same order, so the number of those on its axes says which one a rank
// is in.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_POSITION_H
#define CLEAVE_RUNTIME_BASE_POSITION_H

#include <atomic>
#include <cstdint>

namespace cleave::runtime {

/// What a rank is doing.
enum class Phase : uint8_t {
  Starting,  ///< until all ranks know each other
  Loading,   ///< opening data, filling states
  Joining,   ///< GPUs meet
  FirstStep, ///< touches all memory, and says nothing of the others' time yet
  Training,  ///< every other step, and what is between them
  Saving,    ///< writing state, or waiting until it is written
  Finishing, ///< after the last step
  Left,      ///< its work has ended, well or not
};

/// Which of the communicator's calls that wait for other ranks a rank is in:
/// collectives, and Recv, which waits for one.
enum class CollectiveCall : uint8_t {
  None,
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Barrier,
  Broadcast,
  MakeGroup,
  Recv,
};

/// A position as it was read.
struct PositionRecord {
  static constexpr uint32_t noInstruction = UINT32_MAX;
  static constexpr uint32_t noRun = 0xffffff;

  int64_t step = -1;              ///< -1 before the first
  uint64_t place = noInstruction; ///< phase, run, instruction
  uint64_t axes = 0;    ///< those of the collective's group, a bit each; of a
                        ///< Recv the rank that it waits for
  uint64_t meeting = 0; ///< call and number of the collective; 0 in none

  Phase getPhase() const { return Phase(place >> 56); }
  void setPhase(Phase phase) {
    place = (place & ~(uint64_t(0xff) << 56)) | uint64_t(phase) << 56;
  }
  /// In the program's table; noRun between steps.
  uint32_t getRun() const { return uint32_t(place >> 32) & 0xffffff; }
  /// In the program; noInstruction between steps.
  uint32_t getInstruction() const { return uint32_t(place); }
  CollectiveCall getCollective() const { return CollectiveCall(meeting >> 56); }
  bool isWaiting() const { return meeting != 0; }
  /// Whether for a message of rank `axes`.
  bool isReceiving() const { return getCollective() == CollectiveCall::Recv; }

  bool operator==(const PositionRecord &) const = default;
};

/// A rank's position: written by its thread alone, read by any.
class alignas(64) RankPosition {
public:
  RankPosition() = default;
  /// To go on elsewhere; by the rank's thread.
  RankPosition(const RankPosition &other)
      : step(other.step.load()), place(other.place.load()),
        axes(other.axes.load()), meeting(other.meeting.load()),
        phase(other.phase), hasBegun(other.hasBegun) {}
  RankPosition &operator=(const RankPosition &) = delete;

  void setPhase(Phase phase) { store(phase, 0, PositionRecord::noInstruction); }
  Phase getPhase() const { return read().getPhase(); }

  void beginStep(int64_t newStep) {
    // The first step of this run, which need not be the training's.
    phase = hasBegun ? Phase::Training : Phase::FirstStep;
    hasBegun = true;
    step.store(newStep, std::memory_order_relaxed);
  }
  void setInstruction(uint32_t run, uint32_t instruction) {
    store(phase, run, instruction);
  }
  /// What comes next, until another position is set, is none of them.
  void leaveInstructions() {
    store(phase, PositionRecord::noRun, PositionRecord::noInstruction);
  }
  void endStep() {
    store(Phase::Training, PositionRecord::noRun,
          PositionRecord::noInstruction);
  }

  /// The collective is the `number`-th on these axes, counted from 1.
  void enterCollective(CollectiveCall call, uint64_t groupAxes,
                       uint64_t number) {
    axes.store(groupAxes, std::memory_order_relaxed);
    meeting.store(uint64_t(call) << 56 | number, std::memory_order_relaxed);
  }
  void leaveCollective() { meeting.store(0, std::memory_order_relaxed); }
  /// The rank waits for a thread of its own, which is there.
  void show(const PositionRecord &other) {
    store(phase, other.getRun(), other.getInstruction());
    axes.store(other.axes, std::memory_order_relaxed);
    meeting.store(other.meeting, std::memory_order_relaxed);
  }

  PositionRecord read() const {
    return {step.load(std::memory_order_relaxed),
            place.load(std::memory_order_relaxed),
            axes.load(std::memory_order_relaxed),
            meeting.load(std::memory_order_relaxed)};
  }

private:
  void store(Phase phase, uint32_t run, uint32_t instruction) {
    place.store(uint64_t(phase) << 56 | uint64_t(run & 0xffffff) << 32 |
                    instruction,
                std::memory_order_relaxed);
  }

  std::atomic<int64_t> step{-1};
  std::atomic<uint64_t> place{PositionRecord().place};
  std::atomic<uint64_t> axes{0}, meeting{0};
  // The rank's own.
  Phase phase = Phase::Starting;
  bool hasBegun = false;
};

// It may lie in memory that processes share.
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              sizeof(RankPosition) == 64);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_POSITION_H
