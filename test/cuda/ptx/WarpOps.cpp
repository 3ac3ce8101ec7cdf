//===- WarpOps.cpp - Lanes that exchange values ---------------------------===//
#include "Machine.h"
#include <bit>

using namespace cleave;
using namespace cleave::ptx;

static std::string hex(uint32_t value) {
  char text[16];
  snprintf(text, sizeof text, "0x%x", value);
  return text;
}

/// Every lane that is here names itself in its mask, and every lane that is
/// named is here or has left the kernel.
bool Machine::checkMembers(Warp &warp, const Instruction &i, uint32_t mask,
                           unsigned operand) {
  const std::byte *registers = warp.getFrame().registers;
  return forLanes(mask, [&](uint32_t l) {
    auto members = readLane<uint32_t>(registers, i.operands[operand], l);
    if (!((members >> l) & 1))
      return fail(warp, i, l,
                  "its mask of members " + hex(members) +
                      " is without the lane itself");
    uint32_t missing = members & warp.live & ~mask;
    return !missing ||
           fail(warp, i, l,
                "its mask of members " + hex(members) + " names lane " +
                    std::to_string(std::countr_zero(missing)) +
                    ", which is not here");
  });
}

bool Machine::requireWholeWarp(Warp &warp, const Instruction &i,
                               uint32_t mask) {
  if (mask == allLanes)
    return true;
  return fail(warp, i, uint32_t(std::countr_zero(mask)),
              "expects all lanes of the warp, got " + hex(mask));
}

bool Machine::shuffle(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!checkMembers(warp, i, mask, 5))
    return false;
  std::byte *registers = warp.getFrame().registers;
  std::array<uint32_t, warpSize> from;
  std::memcpy(from.data(), registers + i.operands[2], sizeof from);
  uint32_t inRange = 0;
  std::array<uint32_t, warpSize> values = {};
  bool isFine = forLanes(mask, [&](uint32_t l) {
    uint32_t by = readLane<uint32_t>(registers, i.operands[3], l) & 31;
    auto control = readLane<uint32_t>(registers, i.operands[4], l);
    uint32_t segment = (control >> 8) & 31, clamp = control & 31;
    uint32_t first = l & segment, last = first | (clamp & ~segment & 31);
    uint32_t source = 0;
    bool isIn = false;
    switch (ShuffleMode(i.mode)) {
    case ShuffleMode::Up:
      source = l - by;
      isIn = int32_t(source) >= int32_t(last);
      break;
    case ShuffleMode::Down:
      source = l + by;
      isIn = source <= last;
      break;
    case ShuffleMode::Butterfly:
      source = l ^ by;
      isIn = source <= last;
      break;
    case ShuffleMode::Index:
      source = first | (by & ~segment);
      isIn = source <= last;
      break;
    }
    if (!isIn)
      source = l;
    if (!((mask >> source) & 1))
      return fail(warp, i, l,
                  "reads from lane " + std::to_string(source) +
                      ", which is not active");
    inRange |= uint32_t(isIn) << l;
    values[l] = from[source];
    return true;
  });
  if (!isFine)
    return false;
  forLanes(mask, [&](uint32_t l) {
    writeLane<uint32_t>(registers, i.operands[0], l, values[l]);
    return true;
  });
  writePredicate(registers, i.operands[1], inRange, mask);
  return true;
}

bool Machine::vote(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!checkMembers(warp, i, mask, 2))
    return false;
  std::byte *registers = warp.getFrame().registers;
  uint32_t votes = readPredicate(registers, i.operands[1]) & mask;
  uint32_t result = 0;
  return forLanes(mask, [&](uint32_t l) {
    uint32_t members = readLane<uint32_t>(registers, i.operands[2], l) & mask;
    uint32_t yes = votes & members;
    if (VoteMode(i.mode) == VoteMode::Ballot) {
      writeLane<uint32_t>(registers, i.operands[0], l, yes);
      return true;
    }
    bool holds = VoteMode(i.mode) == VoteMode::All   ? yes == members
                 : VoteMode(i.mode) == VoteMode::Any ? yes != 0
                                                     : yes == members || !yes;
    result |= uint32_t(holds) << l;
    writePredicate(registers, i.operands[0], result, 1U << l);
    return true;
  });
}

/// Which members have a lane's value, or for `all` whether all have the same.
bool Machine::match(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!checkMembers(warp, i, mask, 3))
    return false;
  std::byte *registers = warp.getFrame().registers;
  auto read = [&](uint32_t l) {
    uint64_t bits = 0;
    std::memcpy(&bits, registers + i.operands[2] + l * i.width, i.width);
    return bits;
  };
  return forLanes(mask, [&](uint32_t l) {
    uint32_t members = readLane<uint32_t>(registers, i.operands[3], l) & mask;
    uint32_t equal = 0;
    uint64_t own = read(l);
    forLanes(members, [&](uint32_t other) {
      equal |= uint32_t(read(other) == own) << other;
      return true;
    });
    bool isAll = MatchMode(i.mode) == MatchMode::All;
    uint32_t result = isAll && equal != members ? 0 : equal;
    writeLane<uint32_t>(registers, i.operands[0], l, result);
    writePredicate(registers, i.operands[1], equal == members ? allLanes : 0,
                   1U << l);
    return true;
  });
}

bool Machine::reduce(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!checkMembers(warp, i, mask, 2))
    return false;
  std::byte *registers = warp.getFrame().registers;
  std::array<uint32_t, warpSize> from;
  std::memcpy(from.data(), registers + i.operands[1], sizeof from);
  return forLanes(mask, [&](uint32_t l) {
    uint32_t members = readLane<uint32_t>(registers, i.operands[2], l) & mask;
    uint32_t result = from[uint32_t(std::countr_zero(members))];
    forLanes(members & (members - 1), [&](uint32_t other) {
      uint32_t value = from[other];
      bool isLess = i.type == Type::S32 ? int32_t(value) < int32_t(result)
                                        : value < result;
      switch (ReduceMode(i.mode)) {
      case ReduceMode::Add:
        result += value;
        break;
      case ReduceMode::Min:
        result = isLess ? value : result;
        break;
      case ReduceMode::Max:
        result = isLess ? result : value;
        break;
      case ReduceMode::And:
        result &= value;
        break;
      case ReduceMode::Or:
        result |= value;
        break;
      default:
        result ^= value;
      }
      return true;
    });
    writeLane<uint32_t>(registers, i.operands[0], l, result);
    return true;
  });
}

/// The first of the members.
bool Machine::elect(Warp &warp, const Instruction &i, uint32_t mask) {
  if (!checkMembers(warp, i, mask, 2))
    return false;
  std::byte *registers = warp.getFrame().registers;
  return forLanes(mask, [&](uint32_t l) {
    uint32_t members = readLane<uint32_t>(registers, i.operands[2], l) & mask;
    auto chosen = uint32_t(std::countr_zero(members));
    writeLane<uint32_t>(registers, i.operands[0], l, chosen);
    writePredicate(registers, i.operands[1], chosen == l ? allLanes : 0,
                   1U << l);
    return true;
  });
}
