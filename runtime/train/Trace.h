//===- Trace.h - A timeline for Perfetto or chrome://tracing --------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_TRACE_H
#define CLEAVE_RUNTIME_TRAIN_TRACE_H

#include "runtime/executor/Executor.h"
#include <string>
#include <vector>

namespace cleave::runtime {

/// Remembers what ran when. In the file each rank is a process with a track
/// for compute, one for the collectives and messages between, and one for each
/// further stream.
class Trace final : public InstructionObserver {
public:
  Trace(const Program &program, int rank)
      : program(program), stage(program.getStageOf(rank)) {}

  /// Sets this rank's clock to 0, at the same time as the others'. Collective.
  Status start(Communicator &communicator);
  void setStep(int64_t newStep) { step = newStep; }
  void onInstruction(const InstructionTime &time) override {
    events.push_back({time, step});
  }

  /// Writes the events of all ranks to `path`, and on what `device` they were.
  /// Collective.
  Status write(Communicator &communicator, const std::string &device,
               const std::string &path) const;

private:
  struct Event {
    InstructionTime time;
    int64_t step;
  };
  /// This rank's events, each followed by a comma and a line break.
  std::string format(int rank, const std::string &device) const;

  const Program &program;
  Stage stage;
  uint64_t originNs = 0;
  int64_t step = 0;
  std::vector<Event> events;
};

/// Passes events on to several.
class ObserverList final : public InstructionObserver {
public:
  void add(InstructionObserver *observer) { observers.push_back(observer); }
  void remove(InstructionObserver *observer) {
    std::erase(observers, observer);
  }
  bool isEmpty() const { return observers.empty(); }
  void onInstruction(const InstructionTime &time) override {
    for (InstructionObserver *observer : observers)
      observer->onInstruction(time);
  }
  void onWait(size_t index, uint64_t beginNs, uint64_t endNs) override {
    for (InstructionObserver *observer : observers)
      observer->onWait(index, beginNs, endNs);
  }

private:
  std::vector<InstructionObserver *> observers;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TRACE_H
