//===- Beside.cpp - What a choice takes where collectives run aside -------===//
#include "cleave/AutoShard/Beside.h"
#include "StepLists.h"
#include "cleave/Reshard/Price.h"
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
  double getLost(const OverlapResult &result) const;
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

/// What compute loses to what is beside it.
double Timer::getLost(const OverlapResult &result) const {
  double waited = result.seconds - result.compute;
  return beside.slowdown * std::max(0., result.communication - waited);
}

void Timer::add(List list, double times) {
  if (times <= 0 || list.empty())
    return;
  list = cutter.cut(std::move(list));
  std::vector<OverlapOp> ops = getOverlapOps(list);
  OverlapResult first = overlap(ops);
  // Compute takes longer by about what it loses to what is beside it.
  double lost = getLost(first), aside = 0;
  for (auto [op, each] : llvm::zip_equal(ops, list))
    if (each.source.op != Source::none)
      op.seconds *= 1 + lost / first.compute;
  for (const OverlapOp &op : ops)
    aside += op.stream > 0 ? op.seconds : 0;
  OverlapResult result =
      overlapInBuckets(ops, [&](llvm::ArrayRef<int64_t> bucket) {
        return priceBucket(list, bucket);
      });
  // What begins together takes less, and so compute loses less to it.
  double sum = result.seconds - lost;
  lost = getLost(result);
  seconds += times * (sum + lost);
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
  llvm::append_range(first, lists.inside);
  if (lists.microBatches > 1) {
    timer.add(std::move(first), 1);
    timer.add(lists.inside, lists.microBatches - 2);
    last = std::move(lists.inside);
  } else {
    last = std::move(first);
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
