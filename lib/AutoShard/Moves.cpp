//===- Moves.cpp - What a choice of placements moves ----------------------===//
#include "cleave/AutoShard/Moves.h"
#include "Costs.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace cleave;

double Move::getSeconds() const {
  double seconds = 0;
  for (const MoveStep &step : steps)
    seconds += step.seconds;
  return times * seconds;
}

std::vector<MoveStep>
cleave::priceSteps(const Mesh &mesh, const PlacedTensor &tensor,
                   const Placement &from, std::vector<Step> steps,
                   CollectivePricer price, MoveSeconds besides) {
  std::vector<MoveStep> priced;
  priced.reserve(steps.size());
  const Placement *at = &from;
  for (Step &step : steps) {
    MoveStep &each = priced.emplace_back();
    double after = tensor.getBytes(mesh, step.after);
    each.input = tensor.getBytes(mesh, *at);
    each.bytes = std::max(each.input, after);
    each.seconds = step.kind == Step::Kind::Slice
                       ? autoshard::roundSeconds(besides.ofSlice * after)
                       : getStepSeconds(mesh, tensor.shape, *at, step,
                                        tensor.elementBytes, price) +
                             autoshard::roundSeconds(besides.ofSkew);
    each.step = std::move(step);
    at = &each.step.after;
  }
  return priced;
}

namespace {
/// Plans moves; those of equal layers once.
class Mover {
public:
  Mover(const ShardingProblem &problem, CollectivePricer price)
      : problem(problem), price(price) {}

  Move make(size_t number, const Placement &from, const Placement &to) {
    const PlacedTensor &tensor = problem.tensors[number];
    MoveSeconds besides = problem.getMoveSeconds(tensor);
    Kind &kind = kinds
                     .try_emplace({{tensor.shape.begin(), tensor.shape.end()},
                                   tensor.elementBytes,
                                   besides},
                                  problem.mesh, tensor, price)
                     .first->second;
    auto known = llvm::find_if(kind.all, [&](const Planned &planned) {
      return planned.from == from && planned.to == to;
    });
    if (known == kind.all.end()) {
      // There is a way, or it would not have been chosen.
      std::vector<Step> steps = llvm::cantFail(kind.planner.plan(from, to));
      known = kind.all.insert(known,
                              {from, to,
                               priceSteps(problem.mesh, tensor, from,
                                          std::move(steps), price, besides)});
    }
    return {number, from, to, {}, tensor.moves, known->steps};
  }

private:
  struct Planned {
    Placement from, to;
    std::vector<MoveStep> steps;
  };
  /// Tensors whose moves cost the same.
  struct Kind {
    Kind(const Mesh &mesh, const PlacedTensor &tensor, CollectivePricer price)
        : planner(mesh, tensor.shape, tensor.elementBytes, price) {}

    ReshardPlanner planner;
    std::vector<Planned> all;
  };

  const ShardingProblem &problem;
  CollectivePricer price;
  std::map<std::tuple<std::vector<int64_t>, int64_t, MoveSeconds>, Kind> kinds;
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
