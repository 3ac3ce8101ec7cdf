//===- Simulate.cpp - One training step, event by event -------------------===//
//
// A pipeline's step as tasks: for each kind of op of each virtual stage a
// segment, which receives what the op needs of another stage, computes, and
// sends what another one needs, in a stream of its own. The order of a stage is
// its table of runs; behind it come the reductions and the optimizer.
//
//===----------------------------------------------------------------------===//
#include "cleave/Simulate/Simulate.h"
#include "cleave/Simulate/SimulateTasks.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>

using namespace cleave;

namespace {
constexpr int64_t sends = 1; ///< the stream of messages

class PipelineTasks {
public:
  explicit PipelineTasks(const PipelineStep &step)
      : step(step), orders(getOrders(step.shape)) {
    for (size_t stage = 0; stage != orders.size(); ++stage)
      addStage(int64_t(stage));
  }

  Simulation run() {
    TaskSimulation played = simulate(program, times, /*keepSpans=*/true);
    Simulation result;
    size_t count = orders.size();
    result.starts.assign(count, -1);
    result.ends.assign(count, 0);
    result.busy.assign(count, 0);
    result.peaks.assign(count, 0);
    std::vector<double> live(count), last(count);
    for (const TaskSpan &span : played.spans) {
      size_t stage = size_t(span.stage);
      const Task &task = program.stages[stage].tasks[size_t(span.task)];
      if (task.shape.kind == TaskShape::Kind::Recv)
        continue;
      SimulatedEvent event = {kinds[stage][size_t(span.task)],
                              {},
                              span.stage,
                              span.start,
                              span.end};
      last[stage] = std::max(last[stage], span.end);
      if (size_t(span.run) < orders[stage].size())
        event.op = orders[stage][size_t(span.run)];
      if (event.kind == SimulatedEvent::Compute) {
        if (result.starts[stage] < 0)
          result.starts[stage] = span.start;
        result.ends[stage] = span.end;
        result.busy[stage] += span.end - span.start;
        result.peaks[stage] =
            std::max(result.peaks[stage], countKept(event, live[stage]));
      }
      result.events.push_back(event);
    }
    llvm::sort(result.events,
               [](const SimulatedEvent &a, const SimulatedEvent &b) {
                 return std::tie(a.end, a.start, a.stage, a.kind) <
                        std::tie(b.end, b.start, b.stage, b.kind);
               });
    for (size_t stage = 0; stage != count; ++stage) {
      double from = step.shape.endsAlone() ? result.starts[stage] : 0;
      result.step = std::max(result.step, last[stage] - from);
    }
    return result;
  }

private:
  static bool isForward(PipelineOpKind kind) {
    return kind == PipelineOpKind::Forward;
  }

  /// The virtual stage that the op's result goes to, or whose result it needs,
  /// if that is of another stage.
  std::optional<int64_t> findOther(int64_t stage, const PipelineOp &op,
                                   bool isTarget) const {
    if (op.kind == PipelineOpKind::BackwardWeight)
      return std::nullopt;
    int64_t at = step.shape.getVirtualStage(stage, op.chunk);
    int64_t other = at + (isForward(op.kind) == isTarget ? 1 : -1);
    if (other < 0 || other >= step.shape.getVirtualStages() ||
        step.shape.getStage(other) == stage)
      return std::nullopt;
    return other;
  }

  double getSeconds(int64_t stage, const PipelineOp &op) const {
    const StageTimes &each =
        step.times[size_t(step.shape.getVirtualStage(stage, op.chunk))];
    switch (op.kind) {
    case PipelineOpKind::Forward:
      return each.forward;
    case PipelineOpKind::Backward:
      return each.getBackward();
    case PipelineOpKind::BackwardInput:
      return each.backwardInput;
    case PipelineOpKind::BackwardWeight:
      return each.backwardWeight;
    }
    llvm_unreachable("unknown kind of op");
  }

  void add(SimulatedEvent::Kind kind, double seconds, Task task = {}) {
    program.stages.back().tasks.push_back(std::move(task));
    times.seconds.back().push_back(seconds);
    times.links.back().push_back(-1);
    kinds.back().push_back(kind);
  }

  /// Of a channel for each virtual stage and direction.
  Task makeMessage(TaskShape::Kind kind, int64_t peer, int64_t sender,
                   PipelineOpKind op) const {
    Task task;
    task.shape.kind = kind;
    task.shape.peer = step.shape.getStage(peer);
    task.shape.channel = 2 * sender + isForward(op);
    task.stream = kind == TaskShape::Kind::Send ? sends : 0;
    return task;
  }

  /// The tasks of an op, whatever its micro-batch.
  void addOp(int64_t stage, const PipelineOp &op) {
    if (std::optional<int64_t> from = findOther(stage, op, false))
      add(SimulatedEvent::Send, 0,
          makeMessage(TaskShape::Kind::Recv, *from, *from, op.kind));
    add(SimulatedEvent::Compute, getSeconds(stage, op));
    if (std::optional<int64_t> to = findOther(stage, op, true))
      add(SimulatedEvent::Send, step.send,
          makeMessage(TaskShape::Kind::Send, *to,
                      step.shape.getVirtualStage(stage, op.chunk), op.kind));
  }

  void addStage(int64_t number) {
    StageTasks &stage = program.stages.emplace_back();
    times.seconds.emplace_back();
    times.links.emplace_back();
    kinds.emplace_back();
    std::map<std::pair<PipelineOpKind, int32_t>, TaskRun> segments;
    for (const PipelineOp &op : orders[size_t(number)]) {
      auto [it, isNew] = segments.try_emplace({op.kind, op.chunk});
      if (isNew) {
        it->second.begin = int64_t(stage.tasks.size());
        addOp(number, op);
        it->second.end = int64_t(stage.tasks.size());
      }
      stage.runs.push_back(it->second);
      stage.runs.back().microBatch = op.microBatch;
    }
    int64_t begin = int64_t(stage.tasks.size());
    add(SimulatedEvent::Data,
        step.data.empty() ? 0 : step.data[size_t(number)]);
    add(SimulatedEvent::Optimizer, step.optimizer);
    stage.runs.push_back({begin, begin + 2, 0});
    stage.updateRun = int64_t(stage.runs.size());
  }

  /// Adds what the op keeps to `live`, or takes it away; the most of both.
  double countKept(const SimulatedEvent &event, double &live) const {
    if (step.activations.empty())
      return 0;
    auto at = size_t(step.shape.getVirtualStage(event.stage, event.op.chunk));
    double bytes = step.activations[at];
    double between = step.between.empty() ? 0 : step.between[at];
    double before = live;
    if (isForward(event.op.kind))
      live += bytes;
    else if (event.op.kind == PipelineOpKind::BackwardInput)
      live += between;
    else
      live -= event.op.kind == PipelineOpKind::BackwardWeight ? bytes + between
                                                              : bytes;
    return std::max(before, live);
  }

  const PipelineStep &step;
  const std::vector<std::vector<PipelineOp>> orders;
  TaskProgram program;
  TaskTimes times;
  PerTask<SimulatedEvent::Kind> kinds; ///< of a receive without meaning
};
} // namespace

Simulation cleave::simulate(const PipelineStep &step) {
  return PipelineTasks(step).run();
}
