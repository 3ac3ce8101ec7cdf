//===- Simulate.cpp - One training step, event by event -------------------===//
//
// State: for each stage the position in its order, what its two streams do, and
// the messages that wait to be sent. A heap holds the ends of what runs. When
// something ends, its stage, and the stage that a message reaches, look for
// what they can start. Ends at the same time are handled in the order of their
// starts, so the simulation is the same each time.
//
//===----------------------------------------------------------------------===//
#include "cleave/Simulate/Simulate.h"
#include <algorithm>
#include <cassert>
#include <deque>
#include <queue>
#include <set>

using namespace cleave;

namespace {
class Simulator {
public:
  Simulator(const PipelineStep &step)
      : step(step), orders(getOrders(step.shape)), stages(orders.size()) {
    result.starts.assign(stages.size(), -1);
    result.ends.assign(stages.size(), 0);
    result.busy.assign(stages.size(), 0);
    result.peaks.assign(stages.size(), 0);
  }

  Simulation run() {
    for (size_t i = 0; i != stages.size(); ++i)
      startCompute(i, 0);
    while (!running.empty()) {
      SimulatedEvent event = running.top().event;
      running.pop();
      result.events.push_back(event);
      finish(event);
    }
    bool apart = step.shape.splitsBackward();
    for (size_t i = 0; i != stages.size(); ++i) {
      assert(stages[i].position == orders[i].size() && "no stage is stuck");
      double from = apart ? result.starts[i] : 0;
      result.step = std::max(result.step, stages[i].last - from);
    }
    return std::move(result);
  }

private:
  using Message = std::tuple<PipelineOpKind, int64_t, int64_t>;
  struct StageState {
    size_t position = 0;
    bool computes = false, sends = false;
    std::deque<PipelineOp> outbox;
    std::set<Message> inbox; ///< results of other virtual stages, by those
    double live = 0, last = 0;
  };
  struct Running {
    SimulatedEvent event;
    int64_t number;
    bool operator<(const Running &other) const {
      return std::tie(event.end, number) >
             std::tie(other.event.end, other.number);
    }
  };

  void start(SimulatedEvent event, double seconds) {
    event.end = event.start + seconds;
    running.push({event, count++});
  }

  static bool isForward(const PipelineOp &op) {
    return op.kind == PipelineOpKind::Forward;
  }
  int64_t getVirtual(size_t stage, const PipelineOp &op) const {
    return step.shape.getVirtualStage(int64_t(stage), op.chunk);
  }
  /// The virtual stage that an op's result goes to, or -1.
  int64_t getTarget(size_t stage, const PipelineOp &op) const {
    if (op.kind == PipelineOpKind::BackwardWeight)
      return -1;
    int64_t to = getVirtual(stage, op) + (isForward(op) ? 1 : -1);
    return to < step.shape.getVirtualStages() ? to : -1;
  }

  void startCompute(size_t stage, double now) {
    StageState &state = stages[stage];
    if (state.computes || state.position == orders[stage].size())
      return;
    const PipelineOp &op = orders[stage][state.position];
    int64_t virtualStage = getVirtual(stage, op);
    int64_t source = virtualStage + (isForward(op) ? -1 : 1);
    bool needsInput = op.kind != PipelineOpKind::BackwardWeight &&
                      source >= 0 && source < step.shape.getVirtualStages();
    PipelineOpKind kind =
        isForward(op) ? PipelineOpKind::Forward : PipelineOpKind::Backward;
    if (needsInput && !state.inbox.erase({kind, source, op.microBatch}))
      return;
    ++state.position;
    state.computes = true;
    if (result.starts[stage] < 0)
      result.starts[stage] = now;
    const StageTimes &times = step.times[size_t(virtualStage)];
    double seconds = 0;
    switch (op.kind) {
    case PipelineOpKind::Forward:
      seconds = times.forward;
      if (!step.activations.empty())
        state.live += step.activations[size_t(virtualStage)];
      result.peaks[stage] = std::max(result.peaks[stage], state.live);
      break;
    case PipelineOpKind::Backward:
      seconds = times.getBackward();
      break;
    case PipelineOpKind::BackwardInput:
      seconds = times.backwardInput;
      break;
    case PipelineOpKind::BackwardWeight:
      seconds = times.backwardWeight;
      break;
    }
    start({SimulatedEvent::Compute, op, int64_t(stage), now, 0}, seconds);
  }

  void startSend(size_t stage, double now) {
    StageState &state = stages[stage];
    if (state.sends || state.outbox.empty())
      return;
    PipelineOp op = state.outbox.front();
    state.outbox.pop_front();
    state.sends = true;
    start({SimulatedEvent::Send, op, int64_t(stage), now, 0}, step.send);
  }

  void deliver(size_t from, const PipelineOp &op, double now) {
    int64_t to = getTarget(from, op);
    PipelineOpKind kind =
        isForward(op) ? PipelineOpKind::Forward : PipelineOpKind::Backward;
    size_t stage = size_t(step.shape.getStage(to));
    stages[stage].inbox.insert({kind, getVirtual(from, op), op.microBatch});
    startCompute(stage, now);
  }

  void finish(const SimulatedEvent &event) {
    size_t stage = size_t(event.stage);
    StageState &state = stages[stage];
    state.last = std::max(state.last, event.end);
    switch (event.kind) {
    case SimulatedEvent::Compute: {
      state.computes = false;
      result.busy[stage] += event.end - event.start;
      bool frees = event.op.kind == PipelineOpKind::Backward ||
                   event.op.kind == PipelineOpKind::BackwardWeight;
      if (frees && !step.activations.empty())
        state.live -= step.activations[size_t(getVirtual(stage, event.op))];
      int64_t to = getTarget(stage, event.op);
      if (to >= 0 && step.shape.getStage(to) != event.stage) {
        state.outbox.push_back(event.op);
        startSend(stage, event.end);
      } else if (to >= 0) {
        deliver(stage, event.op, event.end);
      }
      startCompute(stage, event.end);
      if (state.position == orders[stage].size() && !state.computes) {
        result.ends[stage] = event.end;
        double data = step.data.empty() ? 0 : step.data[stage];
        start({SimulatedEvent::Data, {}, event.stage, event.end, 0}, data);
      }
      break;
    }
    case SimulatedEvent::Send:
      state.sends = false;
      deliver(stage, event.op, event.end);
      startSend(stage, event.end);
      break;
    case SimulatedEvent::Data:
      start({SimulatedEvent::Optimizer, {}, event.stage, event.end, 0},
            step.optimizer);
      break;
    case SimulatedEvent::Optimizer:
      break;
    }
  }

  const PipelineStep &step;
  const std::vector<std::vector<PipelineOp>> orders;
  std::vector<StageState> stages;
  std::priority_queue<Running> running;
  int64_t count = 0;
  Simulation result;
};
} // namespace

Simulation cleave::simulate(const PipelineStep &step) {
  return Simulator(step).run();
}
