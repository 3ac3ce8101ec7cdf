//===- EveryPair.h - Races of a step, by looking at every pair ------------===//
//
// The plainest meaning of "two accesses are ordered", against which the checks
// of the compiler and of the loader are held: all executions of a step's
// instructions as a graph, and whether there is a path between two of them. A
// step of n executions takes O(n^2) bits and time.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_PROGRAM_EVERYPAIR_H
#define CLEAVE_TEST_RUNTIME_PROGRAM_EVERYPAIR_H

#include "runtime/program/Dataflow.h"
#include <cstdint>
#include <map>
#include <vector>

namespace cleave::test {

/// Whether two accesses of a step race: they share a byte, one of them writes
/// it, and nothing orders them.
inline bool hasRace(const runtime::Stage &stage) {
  struct Range {
    uint64_t begin, end;
    bool writes;
  };
  struct Execution {
    std::vector<Range> ranges;
    std::vector<bool> known; ///< which of the executions before are done
  };
  std::vector<Execution> executions;
  std::map<int, size_t> lastOfStream;
  std::map<uint32_t, size_t> lastOfEvent;
  auto learn = [&](std::vector<bool> &known, size_t from) {
    const std::vector<bool> &other = executions[from].known;
    for (size_t i = 0; i < other.size(); ++i)
      if (other[i])
        known[i] = true;
    known[from] = true;
  };
  size_t joined = 0; // executions before the update, which all are done then
  std::span<const program::Run> runs = stage.getRuns();
  for (size_t r = 0; r < runs.size(); ++r) {
    if (r == stage->update_run())
      joined = executions.size();
    const program::Segment &segment = stage.getSegment(runs[r].segment());
    for (uint64_t i = segment.begin(); i < segment.end(); ++i) {
      const program::Instruction &instruction = stage.getInstruction(i);
      size_t number = executions.size();
      Execution execution;
      execution.known.resize(number);
      for (size_t k = 0; k < joined; ++k)
        execution.known[k] = true;
      if (auto last = lastOfStream.find(instruction.stream());
          last != lastOfStream.end())
        learn(execution.known, last->second);
      for (uint32_t event : runtime::toSpan(instruction.waits()))
        if (auto last = lastOfEvent.find(event); last != lastOfEvent.end())
          learn(execution.known, last->second);
      size_t inputs = runtime::getRoles(stage.getProgram(), instruction).inputs;
      size_t at = 0;
      for (const program::Operand &operand :
           runtime::toSpan(instruction.operands())) {
        uint64_t place = runtime::getPlace(operand, runs[r].micro_batch());
        execution.ranges.push_back(
            {place, place + operand.bytes(), at++ >= inputs});
      }
      executions.push_back(std::move(execution));
      lastOfStream[instruction.stream()] = number;
      if (instruction.event() > 0)
        lastOfEvent[instruction.event()] = number;
    }
  }
  for (size_t b = 0; b < executions.size(); ++b)
    for (size_t a = 0; a < b; ++a) {
      if (executions[b].known[a])
        continue;
      for (const Range &x : executions[a].ranges)
        for (const Range &y : executions[b].ranges)
          if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end)
            return true;
    }
  return false;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_PROGRAM_EVERYPAIR_H
