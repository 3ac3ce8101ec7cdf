//===- SeenRaces.cpp ------------------------------------------------------===//
//
// All executions of a step, of all stages, each with a clock: of each stream of
// each stage, how many of its executions are done for certain when this one
// begins. Two accesses of a stage race that share a byte, one of them to write
// it, where the later one's clock does not have the earlier one.
//
//===----------------------------------------------------------------------===//
#include "test/mutants/SeenRaces.h"
#include "runtime/program/Dataflow.h"
#include "runtime/program/Limits.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace cleave;
using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// What is known to be in order, or apart, beside what the loader counts on.
struct Facts {
  bool workspace = false; ///< is nobody else's memory
  bool buckets = false;   ///< begin as one, and are done as one
  bool stages = false;    ///< know by what they receive, and where all meet
};

/// Executions that are done, of each stream of each stage.
using Clock = std::vector<uint32_t>;

void join(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

class Step {
public:
  Step(const fb::Program &program, Facts facts);
  /// True where stages wait for each other for ever, too: what they would do
  /// then is not known.
  bool hasRace();

private:
  struct Range {
    uint64_t begin, end;
    bool writes;
  };
  struct Execution {
    size_t lane;
    uint32_t ordinal; ///< in its lane, from 1
    Clock known;      ///< and itself
    std::vector<Range> ranges;
  };
  struct Walk {
    Stage stage;
    size_t run = 0;
    std::optional<uint64_t> next{}; ///< instruction; none where a run begins
    std::vector<Clock> lanes; ///< of each stream, as its last execution has it
    std::map<uint32_t, Clock> events{};
    std::vector<Execution> executions{};
    size_t meetings = 0;     ///< that it has been at
    bool hasArrived = false; ///< at the next one
  };
  struct Channel {
    std::vector<Clock> sent; ///< what each message comes behind
    size_t taken = 0;
  };
  struct Meeting {
    Clock known;
    size_t arrived = 0; ///< stages
  };

  /// Until the stage ends, or waits for others; whether it went on.
  bool advance(size_t number);
  /// What instructions that begin together come behind, in `known`; false where
  /// that is still open.
  bool await(size_t number, uint64_t begin, uint64_t end, Clock &known);
  void execute(size_t number, uint64_t begin, uint64_t end, const Clock &known);
  void joinAll(Walk &walk);
  bool hasRace(const Walk &walk) const;

  const fb::Program &program;
  Facts facts;
  std::vector<Walk> walks;
  std::map<int64_t, Channel> channels; ///< by their numbers
  std::vector<Meeting> meetings;
};

Step::Step(const fb::Program &program, Facts facts)
    : program(program), facts(facts) {
  size_t stages = getSize(program.stages());
  Clock none(stages * limits::streams);
  for (size_t i = 0; i < stages; ++i)
    walks.push_back({.stage = Stage(program, i),
                     .lanes = std::vector<Clock>(limits::streams, none)});
}

void Step::joinAll(Walk &walk) {
  Clock all = walk.lanes.front();
  for (const Clock &clock : walk.lanes)
    join(all, clock);
  std::ranges::fill(walk.lanes, all);
}

bool Step::await(size_t number, uint64_t begin, uint64_t end, Clock &known) {
  Walk &walk = walks[number];
  const fb::Instruction &first = walk.stage.getInstruction(begin);
  known = walk.lanes[first.stream()];
  for (uint64_t i = begin; i < end; ++i)
    for (uint32_t event : toSpan(walk.stage.getInstruction(i).waits()))
      if (auto found = walk.events.find(event); found != walk.events.end())
        join(known, found->second);
  if (!facts.stages)
    return true;
  if (first.work_type() == fb::Opcode::Recv) {
    Channel &channel = channels[getMessage(first).channel];
    if (channel.taken == channel.sent.size())
      return false;
    join(known, channel.sent[channel.taken++]);
  }
  if (!isCollective(first.work_type()) ||
      !std::ranges::count(toSpan(first.group()), program.stage_axis()))
    return true;
  meetings.resize(std::max(meetings.size(), walk.meetings + 1),
                  {Clock(known.size())});
  Meeting &meeting = meetings[walk.meetings];
  if (!std::exchange(walk.hasArrived, true)) {
    join(meeting.known, known);
    ++meeting.arrived;
  }
  if (meeting.arrived < walks.size())
    return false;
  walk.hasArrived = false;
  ++walk.meetings;
  known = meeting.known;
  return true;
}

void Step::execute(size_t number, uint64_t begin, uint64_t end,
                   const Clock &known) {
  Walk &walk = walks[number];
  const fb::Run &run = walk.stage.getRuns()[walk.run];
  for (uint64_t i = begin; i < end; ++i) {
    const fb::Instruction &instruction = walk.stage.getInstruction(i);
    Clock &clock = walk.lanes[instruction.stream()];
    join(clock, known);
    size_t lane = number * limits::streams + instruction.stream();
    Execution execution{lane, ++clock[lane], clock, {}};
    OperandRoles roles = getRoles(program, instruction);
    size_t at = 0;
    for (const fb::Operand &operand : toSpan(instruction.operands())) {
      uint64_t place = getPlace(operand, run.micro_batch());
      if (!facts.workspace || at < roles.inputs + roles.outputs)
        execution.ranges.push_back(
            {place, place + operand.bytes(), at >= roles.inputs});
      ++at;
    }
    walk.executions.push_back(std::move(execution));
    if (instruction.work_type() == fb::Opcode::Send)
      channels[getMessage(instruction).channel].sent.push_back(clock);
  }
  for (uint64_t i = begin; i < end; ++i) {
    const fb::Instruction &instruction = walk.stage.getInstruction(i);
    if (instruction.event() > 0)
      walk.events[instruction.event()] = walk.lanes[instruction.stream()];
  }
}

bool Step::advance(size_t number) {
  Walk &walk = walks[number];
  std::span<const fb::Run> runs = walk.stage.getRuns();
  bool wentOn = false;
  for (; walk.run < runs.size(); ++walk.run, walk.next.reset()) {
    const fb::Segment &segment =
        walk.stage.getSegment(runs[walk.run].segment());
    if (!walk.next && walk.run == walk.stage->update_run())
      joinAll(walk);
    uint64_t begin = walk.next.value_or(segment.begin());
    while (begin < segment.end()) {
      walk.next = begin;
      uint64_t end = begin + 1;
      while (facts.buckets && end < segment.end() &&
             walk.stage.getInstruction(end - 1).with_next())
        ++end;
      Clock known;
      if (!await(number, begin, end, known))
        return wentOn;
      execute(number, begin, end, known);
      begin = end;
      wentOn = true;
    }
  }
  return wentOn;
}

bool Step::hasRace(const Walk &walk) const {
  for (size_t b = 0; b < walk.executions.size(); ++b)
    for (size_t a = 0; a < b; ++a) {
      const Execution &earlier = walk.executions[a],
                      &later = walk.executions[b];
      if (later.known[earlier.lane] >= earlier.ordinal)
        continue;
      for (const Range &x : earlier.ranges)
        for (const Range &y : later.ranges)
          if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end)
            return true;
    }
  return false;
}

bool Step::hasRace() {
  for (bool goesOn = true; goesOn;) {
    goesOn = false;
    for (size_t i = 0; i < walks.size(); ++i)
      goesOn |= advance(i);
  }
  return std::ranges::any_of(walks, [&](const Walk &walk) {
    return walk.run < walk.stage.getRuns().size() || hasRace(walk);
  });
}

} // namespace

/// The program without its workspaces.
static std::vector<uint8_t> dropWorkspaces(const fb::Program &program) {
  std::unique_ptr<fb::ProgramT> copy(program.UnPack());
  for (size_t number = 0; number < copy->stages.size(); ++number) {
    Stage stage(program, number);
    for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
      OperandRoles roles = getRoles(program, stage.getInstruction(i));
      copy->stages[number]->instructions[i]->operands.resize(roles.inputs +
                                                             roles.outputs);
    }
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, copy.get()),
                 fb::ProgramIdentifier());
  return {builder.GetBufferPointer(),
          builder.GetBufferPointer() + builder.GetSize()};
}

/// Whether each stage is right where its instructions run one after the other,
/// whatever becomes of workspaces.
static bool isRightInOrder(const fb::Program &program) {
  std::vector<uint8_t> bytes = dropWorkspaces(program);
  for (size_t i = 0; i < getSize(program.stages()); ++i)
    if (!verifyInstructions(Stage(program, i)).ok() ||
        !verifyDataflow(Stage(*fb::GetProgram(bytes.data()), i)).ok())
      return false;
  return true;
}

std::string cleave::test::describeRaces(const fb::Program &program) {
  if (!isRightInOrder(program))
    return "serial";
  const std::pair<const char *, Facts> kinds[] = {
      {"workspace", {true}},
      {"bucket", {true, true}},
      {"stages", {true, true, true}}};
  for (const auto &[name, facts] : kinds)
    if (!Step(program, facts).hasRace())
      return name;
  return "seen";
}
