//===- Barriers.cpp - Warps of a block that wait for each other -----------===//
//
// A barrier counts whole warps. What a warp knew when it came, all that waited
// know when they go on.
//
//===----------------------------------------------------------------------===//
#include "Machine.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::ptx;

static std::string describeLanes(uint32_t lanes) {
  char text[16];
  snprintf(text, sizeof text, "0x%x", lanes);
  return text;
}

/// Operands: for a reduction its result and a predicate, then the barrier's
/// number and how many threads it has, if not all.
bool Machine::arrive(Warp &warp, const Instruction &i, uint32_t mask) {
  const std::byte *registers = warp.getFrame().registers;
  bool reduces = i.kind == Kind::BarrierReduce;
  bool waits = reduces || BarrierMode(i.mode) == BarrierMode::Sync;
  auto lane = uint32_t(__builtin_ctz(mask));
  if (mask != warp.live)
    return fail(warp, i, lane,
                "the barrier is reached by lanes " + describeLanes(mask) +
                    " of the warp, of which " + describeLanes(warp.live) +
                    " run: a branch separates them");
  unsigned first = reduces ? 2 : 0;
  auto read = [&](unsigned operand, uint32_t l) {
    return readLane<uint32_t>(registers, i.operands[operand], l);
  };
  uint32_t id = read(first, lane);
  uint32_t expected = i.count > first + 1 ? read(first + 1, lane) : 0;
  bool isUniform = forLanes(mask, [&](uint32_t l) {
    return read(first, l) == id &&
           (i.count <= first + 1 || read(first + 1, l) == expected);
  });
  if (!isUniform)
    return fail(warp, i, lane, "its lanes name different barriers");
  if (id >= barriers.size())
    return fail(warp, i, lane, "there is no barrier " + std::to_string(id));
  if (i.count > first + 1 && (expected == 0 || expected % warpSize != 0))
    return fail(warp, i, lane,
                "expects a multiple of 32 threads, got " +
                    std::to_string(expected));
  Barrier &barrier = barriers[id];
  if (barrier.threads == 0) {
    barrier.first = &i;
    barrier.expected = expected;
  } else if (barrier.expected != expected) {
    auto name = [](uint32_t count) {
      return count ? std::to_string(count) + " threads"
                   : std::string("all threads");
    };
    return fail(warp, i, lane,
                "barrier " + std::to_string(id) + " is for " + name(expected) +
                    " here, and for " + name(barrier.expected) + " in " +
                    describeLine(*barrier.first));
  }
  barrier.threads += warpSize;
  for (size_t w = 0; w < barrier.joined.size(); ++w)
    barrier.joined[w] = std::max(barrier.joined[w], warp.clock.times[w]);
  if (reduces) {
    uint32_t bits = readPredicate(registers, i.operands[1]) & mask;
    barrier.count += uint32_t(__builtin_popcount(bits));
    barrier.all &= bits == mask;
    barrier.any |= bits != 0;
  }
  if (waits) {
    barrier.waiting |= 1U << warp.number;
    warp.state = State::Waiting;
    warp.waiting = &i;
  } else {
    warp.clock.advance();
  }
  if (expected != 0 && barrier.threads > expected)
    return fail(warp, i, lane,
                "more threads come to barrier " + std::to_string(id) +
                    " than the " + std::to_string(expected) +
                    " that it is for");
  if (isComplete(barrier))
    release(barrier);
  return true;
}

bool Machine::isComplete(const Barrier &barrier) const {
  if (barrier.threads == 0)
    return false;
  if (barrier.expected != 0)
    return barrier.threads == barrier.expected;
  return std::all_of(warps.begin(), warps.end(), [&](const Warp &warp) {
    return warp.live == 0 || ((barrier.waiting >> warp.number) & 1);
  });
}

void Machine::release(Barrier &barrier) {
  for (Warp &warp : warps) {
    if (!((barrier.waiting >> warp.number) & 1))
      continue;
    for (size_t w = 0; w < barrier.joined.size(); ++w)
      warp.clock.times[w] = std::max(warp.clock.times[w], barrier.joined[w]);
    warp.clock.advance();
    warp.state = State::Ready;
    const Instruction &i = *warp.waiting;
    if (i.kind != Kind::BarrierReduce)
      continue;
    if (ReduceMode(i.mode) == ReduceMode::Count)
      writeEverywhere(warp, i, warp.live, barrier.count);
    else
      writePredicate(
          warp.getFrame().registers, i.operands[0],
          (ReduceMode(i.mode) == ReduceMode::And ? barrier.all : barrier.any)
              ? allLanes
              : 0,
          warp.live);
  }
  barrier = Barrier();
}

/// A warp that has left the kernel is waited for no more.
void Machine::releaseComplete() {
  for (Barrier &barrier : barriers)
    if (isComplete(barrier))
      release(barrier);
}

/// All warps that have not left wait.
bool Machine::reportDeadlock() {
  std::string message = "deadlock:";
  const Warp *example = nullptr;
  for (size_t id = 0; id < barriers.size(); ++id)
    for (const Warp &warp : warps)
      if ((barriers[id].waiting >> warp.number) & 1) {
        message += std::string(example ? ", and" : "") + " warp " +
                   std::to_string(warp.number) + " waits at barrier " +
                   std::to_string(id) + " (line " +
                   std::to_string(warp.waiting->line) + ")";
        example = &warp;
      }
  return fail(*example, *example->waiting,
              uint32_t(__builtin_ctz(example->live)),
              message + ", and no other warp can come");
}
