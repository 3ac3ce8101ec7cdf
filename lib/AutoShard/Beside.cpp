//===- Beside.cpp - What a choice takes where collectives run aside -------===//
#include "cleave/AutoShard/Beside.h"
#include "StepLists.h"
#include "cleave/Reshard/Price.h"
#include "cleave/Simulate/SimulateTasks.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using namespace cleave::autoshard;

BesideCompute cleave::getBesideCompute(const Mesh &mesh, const Machine &machine,
                                       const Profile &profile,
                                       llvm::StringRef mode) {
  BesideCompute beside;
  beside.slowdown =
      getCommunicationShare(&machine.device, profile.overlapSlowdown);
  bool onlyBetweenNodes = mode == "auto" && machine.device.cores > 0;
  if (mode != "never")
    beside.getLevel = [&mesh, &machine, onlyBetweenNodes](
                          llvm::ArrayRef<Axis> axes) -> std::optional<int64_t> {
      if (onlyBetweenNodes && !leavesNode(mesh, machine, axes))
        return std::nullopt;
      return getLevel(mesh, machine, axes);
    };
  return beside;
}

namespace {
/// Adds up the lists of a step.
class Timer {
public:
  Timer(const ShardingProblem &problem, const ShardingChoice &choice,
        llvm::MutableArrayRef<Move> moves, CollectivePricer price,
        const BesideCompute &beside)
      : moves(moves), price(price), beside(beside),
        cutter(problem, choice, moves, price) {
    for (Move &move : moves)
      for (MoveStep &step : move.steps)
        step.exposed = 0;
  }

  void add(List list, double times);

  double seconds = 0;

private:
  MoveStep &getStep(const Source &source) const {
    return moves[source.move].steps[source.step];
  }
  double play(llvm::ArrayRef<ListOp> list, llvm::ArrayRef<OverlapOp> ops,
              const OverlapResult &result) const;
  double priceBucket(llvm::ArrayRef<ListOp> list,
                     llvm::ArrayRef<int64_t> bucket) const;

  llvm::MutableArrayRef<Move> moves;
  CollectivePricer price;
  const BesideCompute &beside;
  PartsCutter cutter;
};
} // namespace

double Timer::priceBucket(llvm::ArrayRef<ListOp> list,
                          llvm::ArrayRef<int64_t> bucket) const {
  double input = 0;
  for (int64_t op : bucket) {
    const Source &source = list[size_t(op)].source;
    input += getStep(source).input / double(source.parts);
  }
  const Step &first = getStep(list[size_t(bucket.front())].source).step;
  return price(first.kind, first.axes, input);
}

/// Ops in their order, those together that begin together.
static std::vector<llvm::SmallVector<int64_t, 1>>
getBuckets(const OverlapResult &result) {
  std::vector<llvm::SmallVector<int64_t, 1>> buckets;
  bool isOpen = false;
  for (int64_t number : result.order) {
    if (!isOpen)
      buckets.emplace_back();
    buckets.back().push_back(number);
    isOpen = result.withNext[size_t(number)];
  }
  return buckets;
}

/// What a list takes in that order, as the simulator plays it: what is on one
/// level of the network at the same time shares it, and compute is slower
/// beside communication.
double Timer::play(llvm::ArrayRef<ListOp> list, llvm::ArrayRef<OverlapOp> ops,
                   const OverlapResult &result) const {
  std::vector<llvm::SmallVector<int64_t, 4>> before = findDependences(ops);
  auto getStream = [&](int64_t op) { return result.streams[size_t(op)]; };
  TaskProgram program;
  StageTasks &stage = program.stages.emplace_back();
  TaskTimes times;
  times.mostSlowdown = beside.slowdown;
  std::vector<double> &seconds = times.seconds.emplace_back();
  std::vector<double> &skews = times.skews.emplace_back();
  std::vector<double> &slowdowns = times.slowdowns.emplace_back();
  std::vector<int64_t> &links = times.links.emplace_back();
  std::vector<llvm::SmallVector<int64_t, 1>> buckets = getBuckets(result);
  std::vector<int64_t> events(ops.size()); ///< by op, that of its bucket
  for (auto [i, bucket] : llvm::enumerate(buckets))
    for (int64_t number : bucket)
      events[size_t(number)] = int64_t(i) + 1;
  for (auto [i, bucket] : llvm::enumerate(buckets)) {
    auto first = size_t(bucket.front());
    const OverlapOp &op = ops[first];
    Task &task = stage.tasks.emplace_back();
    task.stream = getStream(bucket.front());
    if (task.stream > 0)
      task.event = int64_t(i) + 1;
    for (int64_t number : bucket)
      for (llvm::ArrayRef<int64_t> others :
           {llvm::ArrayRef(before[size_t(number)]),
            llvm::ArrayRef(result.joins[size_t(number)])})
        for (int64_t other : others)
          if (getStream(other) > 0 && getStream(other) != task.stream)
            task.waits.push_back(events[size_t(other)]);
    if (op.stream > 0)
      task.shape.kind = TaskShape::Kind::Collective;
    double own = bucket.size() > 1 ? priceBucket(list, bucket) : op.seconds;
    seconds.push_back(own + (task.stream == 0 ? op.skew : 0));
    skews.push_back(op.skew);
    slowdowns.push_back(task.stream > 0 ? beside.slowdown * own : 0);
    links.push_back(list[first].level);
  }
  stage.runs.push_back({0, int64_t(stage.tasks.size())});
  stage.updateRun = 1;
  return simulate(program, times).step;
}

void Timer::add(List list, double times) {
  if (times <= 0 || list.empty())
    return;
  list = cutter.cut(std::move(list));
  std::vector<OverlapOp> ops = getOverlapOps(list);
  double aside = 0;
  for (const OverlapOp &op : ops)
    aside += op.stream > 0 ? op.seconds : 0;
  OverlapResult result =
      overlapInBuckets(ops, [&](llvm::ArrayRef<int64_t> bucket) {
        return priceBucket(list, bucket);
      });
  double played = play(list, ops, result);
  seconds += times * played;
  // Whatever more than what was planned is waited for.
  double lost = std::max(0., played - result.seconds);
  for (auto [number, each] : llvm::enumerate(list)) {
    if (each.source.move == Source::none)
      continue;
    const OverlapOp &op = ops[number];
    double exposed = op.seconds;
    if (op.stream > 0)
      exposed = std::min(result.waited[number], op.seconds + op.skew) +
                each.source.longer + lost * op.seconds / aside;
    getStep(each.source).exposed += times * exposed;
  }
  // What goes on when compute is done is waited for, too: the last of it.
  double behind = result.seconds - result.compute - result.exposed;
  for (int64_t number : llvm::reverse(result.order)) {
    const OverlapOp &op = ops[size_t(number)];
    if (behind <= 0)
      break;
    if (op.stream == 0)
      continue;
    double share = std::min(behind, op.seconds);
    getStep(list[size_t(number)].source).exposed += times * share;
    behind -= share;
  }
}

double cleave::timeBeside(const ShardingProblem &problem,
                          const ShardingChoice &choice,
                          llvm::MutableArrayRef<Move> moves,
                          CollectivePricer price, const BesideCompute &beside) {
  StepLists lists = listStep(problem, choice, moves, beside);
  Timer timer(problem, choice, moves, price, beside);
  List first = std::move(lists.before), last;
  if (lists.microBatches == 1) {
    last = std::move(first);
    llvm::append_range(last, lists.inside);
  } else {
    // But for the last one, and the first if it has more to move than others.
    double alike = lists.microBatches - 1;
    if (llvm::any_of(first,
                     [](const ListOp &each) { return each.op.stream > 0; })) {
      llvm::append_range(first, lists.inside);
      alike -= 1;
    }
    timer.add(std::move(first), 1);
    timer.add(lists.inside, alike);
    last = std::move(lists.inside);
  }
  llvm::append_range(last, lists.sums);
  timer.add(std::move(last), 1);
  timer.add(std::move(lists.update), 1);
  return timer.seconds;
}

std::vector<Reason> cleave::findReasons(const ShardingProblem &problem) {
  std::vector<Reason> reasons(problem.tensors.size(),
                              Reason::ForwardActivations);
  for (const PlacedOp &op : problem.ops)
    for (size_t tensor : op.results)
      reasons[tensor] =
          isOnce(op) ? Reason::Sums
          : op.phase == "backward" || op.keeps == Keeps::Activations
              ? Reason::BackwardActivations
              : Reason::ForwardActivations;
  for (const PlacedOp &op : problem.ops) {
    if (op.keeps == Keeps::Gradients) {
      reasons[op.operands[0]] = Reason::Gradients;
      reasons[op.results[0]] = Reason::Sums;
    }
    if (op.keeps != Keeps::Parameters)
      continue;
    reasons[op.operands[0]] = Reason::States;
    for (size_t tensor : op.results)
      reasons[tensor] = Reason::ForwardParameters;
  }
  for (const PlacedOp &op : problem.ops)
    if (op.phase == "backward")
      for (size_t tensor : op.operands)
        if (reasons[tensor] == Reason::ForwardParameters)
          reasons[tensor] = Reason::BackwardParameters;
  return reasons;
}
