//===- VerifyOrder.cpp - Streams that share bytes wait for each other -----===//
//
// A step's serial order is that of its runs and of the list. Instructions of
// one stream keep it, others may run at the same time: unless one waits for the
// other. So of two that access the same byte, at least one of them to write it,
// the later one must know, when it begins, that the earlier one is done.
//
// What an instruction knows is a clock: of each stream the number of its
// instructions, counted in its order, that are done for certain (Lamport,
// "Time, clocks, and the ordering of events", 1978; Mattern, "Virtual time and
// global states", 1989).
//
//  1. It knows what the one before it in its stream knew, and that one; and of
//     each event that it waits for, what the instruction knew that recorded it
//     last, and that one.
//  2. Where the update begins, and at the end of a step, all is known.
//  3. Of each byte the last write is kept, and the reads since, of each stream
//     the last. Who accesses the byte must know them: who writes, all; who
//     reads, the write.
//
// Runs that repeat (Dataflow.h) are gone through until each period knows of the
// one before what that one knew of the one before it: then the periods in
// between can be left out, and clocks put forward. What an instruction does is
// known to another by a chain of instructions, each of which is behind the one
// before it in its stream, or waits for its event. A shortest chain comes to
// each stream once. Both kinds of link may lead into the next period, so n
// streams know by n + (n - 1) periods later what they will ever know.
//
//===----------------------------------------------------------------------===//
#include "runtime/program/Dataflow.h"
#include "runtime/program/Print.h"
#include "runtime/program/Stretches.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <array>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// Instructions of each stream.
using Clock = std::array<uint64_t, limits::streams>;

void join(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// By the instruction of that number in its stream; 0: there is none.
struct Access {
  uint64_t ordinal = 0;
  uint32_t instruction = 0;
};

/// Who accessed some bytes.
struct History {
  Access write;
  size_t writer = 0;                         ///< its stream
  std::array<Access, limits::streams> reads; ///< since the write
  bool isWhole = false; ///< of the bytes of one micro-batch alone
};

/// Of stretches of bytes. Those of no stretch nobody has accessed.
class Accesses {
public:
  struct Conflict {
    uint64_t byte;
    Access other;
    size_t stream;
    bool wrote;
  };

  /// Notes that `mine`, of `stream` and knowing `clock`, accesses the range;
  /// returns whom it had to know.
  std::optional<Conflict> add(ByteRange range, bool writes, Access mine,
                              size_t stream, const Clock &clock, bool isWhole);

  /// Puts accesses forward that came after `since`, to bytes that periods have
  /// in common.
  void advance(const Clock &since, const Clock &by) {
    auto move = [&](Access &access, size_t stream) {
      if (access.ordinal > since[stream])
        access.ordinal += by[stream];
    };
    for (auto &[begin, stretch] : stretches) {
      if (stretch.value.isWhole)
        continue;
      move(stretch.value.write, stretch.value.writer);
      for (size_t i = 0; i < since.size(); ++i)
        move(stretch.value.reads[i], i);
    }
  }

private:
  Stretches<History> stretches;
};

std::optional<Accesses::Conflict> Accesses::add(ByteRange range, bool writes,
                                                Access mine, size_t stream,
                                                const Clock &clock,
                                                bool isWhole) {
  stretches.split(range.begin);
  stretches.split(range.end);
  auto first = stretches.lower_bound(range.begin),
       last = stretches.lower_bound(range.end);
  for (auto it = first; it != last; ++it) {
    const History &history = it->second.value;
    if (history.write.ordinal > clock[history.writer])
      return Conflict{it->first, history.write, history.writer, true};
    for (size_t i = 0; writes && i < clock.size(); ++i)
      if (history.reads[i].ordinal > clock[i])
        return Conflict{it->first, history.reads[i], i, false};
  }
  if (writes) {
    stretches.write(range, {mine, stream, {}, isWhole});
    return std::nullopt;
  }
  uint64_t at = range.begin;
  for (auto it = first; at < range.end;) {
    if (it == last || it->first > at) {
      uint64_t end = it == last ? range.end : it->first;
      it = stretches.emplace_hint(it, at, Stretch<History>{end, {}});
    }
    it->second.value.reads[stream] = mine;
    it->second.value.isWhole |= isWhole;
    at = it->second.end;
    ++it;
  }
  return std::nullopt;
}

class OrderVerifier {
public:
  explicit OrderVerifier(const Stage &stage)
      : stage(stage), program(stage.getProgram()), runs(stage.getRuns()),
        events(stage.getInstructionCount() + 1) {}

  Status verify();

private:
  Status verifyRun(size_t index);
  Status verifyInstruction(uint32_t index, const fb::Run &run);
  Status verifyAccesses(uint32_t index, const fb::Run &run, const Clock &clock,
                        bool onlyWhole);
  Status verifyLeftOut(const fb::Run &run, std::span<const Clock> clocks);
  void joinAll();

  const Stage &stage;
  const fb::Program &program;
  std::span<const fb::Run> runs;
  Clock issued = {};                             ///< of each stream, so far
  std::array<Clock, limits::streams> known = {}; ///< to the last of a stream
  std::vector<Clock> events; ///< what is known to who waits for one
  std::vector<Clock> clocks; ///< of the instructions of a period, in its order
  Accesses accesses;
};

/// `onlyWhole`: to bytes that no other micro-batch has.
Status OrderVerifier::verifyAccesses(uint32_t index, const fb::Run &run,
                                     const Clock &clock, bool onlyWhole) {
  const fb::Instruction &instruction = stage.getInstruction(index);
  size_t stream = instruction.stream();
  std::span<const fb::Operand> operands = toSpan(instruction.operands());
  size_t inputs = getRoles(program, instruction).inputs;
  auto name = [&](uint32_t other, size_t in) {
    return describeInstruction(stage, other) + " of stream " +
           std::to_string(in);
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    bool isWhole = hasAllPlaces(program, operands[i]), writes = i >= inputs;
    if (onlyWhole && !isWhole)
      continue;
    uint64_t place = getPlace(operands[i], run.micro_batch());
    std::optional<Accesses::Conflict> conflict =
        accesses.add({place, place + operands[i].bytes()}, writes,
                     {clock[stream], index}, stream, clock, isWhole);
    if (conflict)
      return Status::error(
          name(index, stream) + (writes ? " writes" : " reads") + " byte " +
          std::to_string(conflict->byte) + " of the arena for micro-batch " +
          std::to_string(run.micro_batch()) + " and does not wait for " +
          name(conflict->other.instruction, conflict->stream) + ", which " +
          (conflict->wrote ? "writes" : "reads") + " it before");
  }
  return {};
}

Status OrderVerifier::verifyInstruction(uint32_t index, const fb::Run &run) {
  const fb::Instruction &instruction = stage.getInstruction(index);
  size_t stream = instruction.stream();
  Clock &clock = known[stream];
  for (uint32_t event : toSpan(instruction.waits()))
    join(clock, events[event]);
  clock[stream] = ++issued[stream];
  clocks.push_back(clock);
  CLEAVE_RETURN_IF_ERROR(verifyAccesses(index, run, clock, false));
  if (instruction.event() > 0)
    events[instruction.event()] = clock;
  return {};
}

Status OrderVerifier::verifyRun(size_t index) {
  if (index == stage->update_run())
    joinAll();
  const fb::Segment &segment = stage.getSegment(runs[index].segment());
  for (uint64_t i = segment.begin(); i < segment.end(); ++i)
    CLEAVE_RETURN_IF_ERROR(verifyInstruction(uint32_t(i), runs[index]));
  return {};
}

void OrderVerifier::joinAll() {
  for (Clock &clock : known)
    clock = issued;
}

/// Of a run that is left out the accesses to bytes that no other micro-batch
/// has, by instructions that know `clocks`.
Status OrderVerifier::verifyLeftOut(const fb::Run &run,
                                    std::span<const Clock> clocks) {
  const fb::Segment &segment = stage.getSegment(run.segment());
  for (uint64_t i = segment.begin(); i < segment.end(); ++i)
    CLEAVE_RETURN_IF_ERROR(verifyAccesses(
        uint32_t(i), run, clocks[i - segment.begin()], /*onlyWhole=*/true));
  return {};
}

Status OrderVerifier::verify() {
  // What was done before the first period or in it, by all later ones; and one
  // more, by which clocks are put forward.
  const size_t exactPeriods = 2 * stage.countStreams() + 1;
  for (size_t i = 0; i < runs.size();) {
    Repetition repetition = findRepetition(stage, i);
    bool hasUpdate =
        i < stage->update_run() &&
        stage->update_run() < i + repetition.length * repetition.count;
    if (repetition.count <= exactPeriods || hasUpdate) {
      CLEAVE_RETURN_IF_ERROR(verifyRun(i++));
      clocks.clear();
      continue;
    }
    Clock first = {}, last = {};
    for (size_t period = 0; period < exactPeriods; ++period) {
      if (period == 1)
        first = issued;
      last = issued;
      clocks.clear();
      for (size_t k = 0; k < repetition.length; ++k)
        CLEAVE_RETURN_IF_ERROR(verifyRun(i++));
    }
    // What was in step with the periods goes on with them.
    auto advance = [&](Clock &clock, uint64_t periods) {
      for (size_t s = 0; s < clock.size(); ++s)
        if (clock[s] > first[s])
          clock[s] += (issued[s] - last[s]) * periods;
    };
    uint64_t skipped = repetition.count - exactPeriods;
    for (uint64_t period = 0; period < skipped; ++period) {
      for (Clock &clock : clocks)
        advance(clock, 1);
      size_t done = 0;
      for (size_t k = 0; k < repetition.length; ++k) {
        const fb::Segment &segment = stage.getSegment(runs[i].segment());
        CLEAVE_RETURN_IF_ERROR(verifyLeftOut(
            runs[i++], std::span<const Clock>(clocks).subspan(done)));
        done += segment.end() - segment.begin();
      }
    }
    Clock by = {};
    for (size_t s = 0; s < by.size(); ++s)
      by[s] = (issued[s] - last[s]) * skipped;
    accesses.advance(first, by);
    for (Clock &clock : known)
      advance(clock, skipped);
    for (Clock &clock : events)
      advance(clock, skipped);
    for (size_t s = 0; s < by.size(); ++s)
      issued[s] += by[s];
  }
  return {};
}

} // namespace

Status cleave::runtime::verifyOrder(const Stage &stage) {
  if (stage.countStreams() == 1)
    return {};
  return OrderVerifier(stage).verify();
}
