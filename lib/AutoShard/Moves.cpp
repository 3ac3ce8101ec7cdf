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

namespace {
/// Plans moves; those of equal layers once.
class Mover {
public:
  Mover(const ShardingProblem &problem, CollectivePricer price)
      : problem(problem), price(price) {}

  Move make(size_t number, const Placement &from, const Placement &to) {
    const PlacedTensor &tensor = problem.tensors[number];
    std::vector<Planned> &all =
        byKind[{{tensor.shape.begin(), tensor.shape.end()},
                tensor.elementBytes,
                problem.getMoveSeconds(tensor)}];
    auto known = llvm::find_if(all, [&](const Planned &planned) {
      return planned.from == from && planned.to == to;
    });
    if (known == all.end())
      known = all.insert(known, {from, to, plan(tensor, from, to)});
    return {number, from, to, {}, tensor.moves, known->steps};
  }

private:
  struct Planned {
    Placement from, to;
    std::vector<MoveStep> steps;
  };

  std::vector<MoveStep> plan(const PlacedTensor &tensor, const Placement &from,
                             const Placement &to) const {
    std::vector<MoveStep> steps;
    Placement at = from;
    // There is a way, or it would not have been chosen.
    for (Step &step :
         llvm::cantFail(planReshard(problem.mesh, tensor.shape, from, to,
                                    tensor.elementBytes, price))) {
      MoveStep each;
      each.seconds = getStepSeconds(problem.mesh, tensor, at, step, price,
                                    problem.getMoveSeconds(tensor));
      each.input = tensor.getBytes(problem.mesh, at);
      each.bytes =
          std::max(each.input, tensor.getBytes(problem.mesh, step.after));
      at = step.after;
      each.step = std::move(step);
      steps.push_back(std::move(each));
    }
    return steps;
  }

  const ShardingProblem &problem;
  CollectivePricer price;
  /// By what moves cost the same.
  std::map<std::tuple<std::vector<int64_t>, int64_t, MoveSeconds>,
           std::vector<Planned>>
      byKind;
};
} // namespace

std::vector<Move> cleave::getMoves(const ShardingProblem &problem,
                                   const ShardingChoice &choice,
                                   CollectivePricer price) {
  std::vector<std::vector<Move>> byTensor(problem.tensors.size());
  Mover mover(problem, price);
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
        known = moves.insert(known, mover.make(tensor, made, need));
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
