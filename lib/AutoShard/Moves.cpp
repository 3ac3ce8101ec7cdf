//===- Moves.cpp - What a choice of placements moves ----------------------===//
#include "cleave/AutoShard/Moves.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace cleave;

double Move::getSeconds() const {
  double seconds = 0;
  for (const MoveStep &step : steps)
    seconds += step.seconds;
  return times * seconds;
}

static Move makeMove(const ShardingProblem &problem, size_t number,
                     const Placement &from, const Placement &to,
                     CollectivePricer price) {
  const PlacedTensor &tensor = problem.tensors[number];
  Move move{number, from, to, {}, tensor.moves, {}};
  // There is one, or it would not have been chosen.
  Placement at = from;
  for (Step &step : llvm::cantFail(planReshard(
           problem.mesh, tensor.shape, from, to, tensor.elementBytes, price))) {
    MoveStep each;
    each.seconds = getStepSeconds(problem.mesh, tensor, at, step, price,
                                  problem.getMoveSeconds(tensor));
    each.input = tensor.getBytes(problem.mesh, at);
    each.bytes =
        std::max(each.input, tensor.getBytes(problem.mesh, step.after));
    at = step.after;
    each.step = std::move(step);
    move.steps.push_back(std::move(each));
  }
  return move;
}

std::vector<Move> cleave::getMoves(const ShardingProblem &problem,
                                   const ShardingChoice &choice,
                                   CollectivePricer price) {
  std::vector<std::vector<Move>> byTensor(problem.tensors.size());
  for (auto [number, op, strategy] :
       llvm::enumerate(problem.ops, choice.strategies))
    for (auto [tensor, need] : llvm::zip_equal(
             op.operands, op.strategies[strategy].placements.operands)) {
      const Placement &made = choice.placements[tensor];
      if (need == made)
        continue;
      std::vector<Move> &moves = byTensor[tensor];
      auto known = llvm::find_if(moves, [&, &need = need](const Move &move) {
        return move.to == need;
      });
      if (known == moves.end())
        known =
            moves.insert(known, makeMove(problem, tensor, made, need, price));
      if (!llvm::is_contained(known->ops, number))
        known->ops.push_back(number);
    }
  std::vector<Move> all;
  for (std::vector<Move> &moves : byTensor)
    for (Move &move : moves)
      all.push_back(std::move(move));
  return all;
}

std::vector<CollectiveTotal> cleave::getTotals(llvm::ArrayRef<Move> moves) {
  std::map<std::pair<Step::Kind, AxisList>, CollectiveTotal> totals;
  for (const Move &move : moves)
    for (const MoveStep &each : move.steps) {
      if (each.seconds == 0)
        continue;
      CollectiveTotal &total = totals[{each.step.kind, each.step.axes}];
      total.kind = each.step.kind;
      total.axes = each.step.axes;
      total.count += move.times;
      total.bytes += move.times * each.bytes;
      total.seconds += move.times * each.seconds;
      total.exposed += each.exposed;
    }
  std::vector<CollectiveTotal> all;
  for (auto &[key, total] : totals)
    all.push_back(std::move(total));
  llvm::sort(all, [](const CollectiveTotal &a, const CollectiveTotal &b) {
    return std::tie(b.seconds, a.kind, a.axes) <
           std::tie(a.seconds, b.kind, b.axes);
  });
  return all;
}
