//===- Lanes.cpp ----------------------------------------------------------===//
#include "runtime/cuda/Lanes.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <map>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

namespace {

/// A group that grows, of one stream.
class Neighbours {
public:
  explicit Neighbours(std::vector<Lane> &lanes) : lanes(lanes) {}

  /// `multi`: as getMulti() gives it.
  void add(const Program &program, const BoundInstruction &instruction,
           const void *multi) {
    std::vector<Range> ranges = getRanges(program, instruction);
    if (memberCount == mostMembers || meets(ranges))
      finish();
    ++memberCount;
    touched.insert(touched.end(), ranges.begin(), ranges.end());
    if (multi) {
      auto [place, isNew] = places.try_emplace(multi, launches.size());
      if (!isNew)
        return launches[place->second].push_back(instruction.index);
    }
    launches.push_back({instruction.index});
  }

  void finish() {
    auto count = unsigned(std::min<size_t>(launches.size(), mostLanes));
    for (size_t i = 0; i < launches.size(); ++i) {
      std::vector<size_t> &launch = launches[i];
      Lane &lane = lanes[launch.front()];
      if (count > 1)
        lane = {unsigned(i % count), count, i == 0, i + 1 == launches.size()};
      if (launch.size() == 1)
        continue;
      for (size_t follower : std::span(launch).subspan(1))
        lanes[follower].follows = true;
      lane.together = std::move(launch);
    }
    memberCount = 0;
    launches.clear();
    places.clear();
    touched.clear();
  }

private:
  /// Each new member is held against all: so many that joining costs nothing.
  static constexpr size_t mostMembers = 512;

  struct Range {
    uint64_t begin, end;
    bool isWritten;
  };

  /// Of all micro-batches.
  static std::vector<Range> getRanges(const Program &program,
                                      const BoundInstruction &instruction) {
    uint32_t inputs =
        getKernel(program.get(), *instruction.instruction).inputs();
    std::vector<Range> ranges;
    for (const cleave::program::Operand &operand : instruction.operands)
      ranges.push_back({operand.offset(),
                        getPlace(operand, std::max(operand.places(), 1u) - 1) +
                            operand.bytes(),
                        ranges.size() >= inputs});
    return ranges;
  }

  bool meets(const std::vector<Range> &ranges) const {
    return std::ranges::any_of(touched, [&](const Range &x) {
      return std::ranges::any_of(ranges, [&](const Range &y) {
        return (x.isWritten || y.isWritten) && x.begin < y.end &&
               y.begin < x.end;
      });
    });
  }

  std::vector<Lane> &lanes;
  size_t memberCount = 0;
  std::vector<std::vector<size_t>> launches; // of members
  std::map<const void *, size_t> places;     // of the launch that a kernel has
  std::vector<Range> touched;
};

} // namespace

std::vector<Lane>
cuda::assignLanes(const Program &program, const Stage &stage,
                  std::span<const BoundInstruction> instructions,
                  const std::function<bool(size_t)> &canShare,
                  const std::function<const void *(size_t)> &getMulti) {
  std::vector<Lane> lanes(instructions.size());
  for (size_t s = 0; s < stage.getSegmentCount(); ++s) {
    const cleave::program::Segment &segment = stage.getSegment(s);
    std::map<size_t, Neighbours> groups; // by stream
    for (size_t i = segment.begin(); i < segment.end(); ++i) {
      size_t stream = instructions[i].instruction->stream();
      Neighbours &group = groups.try_emplace(stream, lanes).first->second;
      if (canShare(i))
        group.add(program, instructions[i], getMulti(i));
      else
        group.finish();
    }
    for (auto &[stream, group] : groups)
      group.finish();
  }
  return lanes;
}
