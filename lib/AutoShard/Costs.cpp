//===- Costs.cpp - A problem of placements as numbers ---------------------===//
#include "Costs.h"
#include "cleave/AutoShard/Moves.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <numeric>

using namespace cleave;
using namespace cleave::autoshard;

double PlacedTensor::getBytes(const Mesh &mesh,
                              const Placement &placement) const {
  double bytes = double(elementBytes);
  for (int64_t size : placement.getLocalShape(mesh, shape))
    bytes *= double(size);
  return bytes;
}

uint32_t PlacedOp::getSplitDims(const Strategy &strategy, Axis axis) const {
  uint32_t split = 0;
  for (auto [own, axes] : llvm::zip_equal(dims, strategy.axes))
    if (llvm::is_contained(axes, axis))
      split |= own;
  return split;
}

double cleave::autoshard::roundSeconds(double seconds) {
  return std::ldexp(std::round(std::ldexp(seconds, 40)), -40);
}

static ByStepKind addUp(llvm::ArrayRef<MoveStep> steps) {
  ByStepKind seconds = {};
  for (const MoveStep &each : steps)
    seconds[size_t(each.step.kind)] += each.seconds;
  return seconds;
}

std::optional<ByStepKind>
cleave::getReshardSeconds(const Mesh &mesh, const PlacedTensor &tensor,
                          const Placement &from, const Placement &to,
                          CollectivePricer price, MoveSeconds besides) {
  llvm::Expected<std::vector<Step>> steps =
      planReshard(mesh, tensor.shape, from, to, tensor.elementBytes, price);
  if (!steps) {
    llvm::consumeError(steps.takeError());
    return std::nullopt;
  }
  return addUp(priceSteps(mesh, tensor, from, *steps, price, besides));
}

ByStepKind Places::computeSeconds(const Placement &from, const Placement &to) {
  llvm::Expected<std::vector<Step>> steps = planner.plan(from, to);
  if (!steps) {
    llvm::consumeError(steps.takeError());
    return {impossible};
  }
  return addUp(priceSteps(mesh, tensor, from, *steps, price, besides));
}

llvm::Error Costs::prepare() {
  for (const PlacedTensor &tensor : problem.tensors) {
    std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    MoveSeconds besides = problem.getMoveSeconds(tensor);
    auto at = shapes
                  ->try_emplace({shape, tensor.elementBytes, besides},
                                problem.mesh, tensor, besides, price)
                  .first;
    places.push_back(&at->second);
    homes.emplace_back();
    for (const Placement &placement : tensor.allowed)
      homes.back().push_back(places.back()->add(placement));
    // Of equally good ones the one that takes the least memory comes first.
    llvm::sort(homes.back(), [&](Place a, Place b) {
      return std::pair(places.back()->getBytes(a), a) <
             std::pair(places.back()->getBytes(b), b);
    });
  }
  for (const PlacedOp &op : problem.ops) {
    if (op.strategies.empty())
      return llvm::createStringError(op.name + ": has no strategy");
    std::vector<Touches> &each = touches.emplace_back();
    for (const Strategy &strategy : op.strategies) {
      Touches own;
      auto add = [&](auto &list, size_t tensor, const Placement &placement) {
        std::pair<size_t, Place> touch{tensor, places[tensor]->add(placement)};
        if (!llvm::is_contained(list, touch))
          list.push_back(touch);
        return touch.second;
      };
      for (auto [tensor, placement] :
           llvm::zip_equal(op.operands, strategy.placements.operands))
        add(own.needs, tensor, placement);
      for (auto [tensor, placement] :
           llvm::zip_equal(op.results, strategy.placements.results)) {
        Place made = add(own.makes, tensor, placement);
        if (!llvm::is_contained(homes[tensor], made))
          homes[tensor].push_back(made);
      }
      each.push_back(std::move(own));
    }
    std::vector<double> &own = seconds.emplace_back();
    for (double time : op.seconds)
      own.push_back(roundSeconds(time));
  }
  setExposed({});
  for (size_t tensor = 0; tensor != problem.tensors.size(); ++tensor)
    isFree.push_back(isInput(tensor) && isFreeInput(tensor));
  // What is kept is whole, so nobody finds it partial.
  for (const std::vector<Touches> &each : touches) {
    std::vector<uint32_t> &own = usable.emplace_back();
    for (auto [strategy, touched] : llvm::enumerate(each))
      if (llvm::all_of(touched.needs, [&](auto touch) {
            auto [tensor, need] = touch;
            return !isInput(tensor) ||
                   getBestHome(tensor, need).second != impossible;
          }))
        own.push_back(uint32_t(strategy));
    if (own.empty())
      return llvm::createStringError(
          problem.ops[usable.size() - 1].name +
          ": no strategy finds its operands where it needs them");
    plain.push_back(own);
    llvm::erase_if(plain.back(), [&](uint32_t strategy) {
      return llvm::any_of(each[strategy].needs, [&](auto touch) {
        auto [tensor, need] = touch;
        return places[tensor]->get(need).isPartial();
      });
    });
  }
  return llvm::Error::success();
}

void Costs::setExposed(const std::vector<ByStepKind> &shares) {
  exposed = shares;
  kindsByCost.clear();
  kinds.clear();
  for (auto [number, own] : llvm::enumerate(places)) {
    const PlacedTensor &tensor = problem.tensors[number];
    Kind &kind =
        kindsByCost[{own, tensor.moves, tensor.movedTo,
                     exposed.empty() ? ByStepKind{} : exposed[number]}];
    kind.places = own;
    kinds.push_back(&kind);
  }
  setByteCost(byteCost);
}

void Costs::setByteCost(double seconds) {
  byteCost = seconds;
  for (auto &[cost, kind] : kindsByCost)
    kind.moves.assign(kind.places->size() * kind.places->size(), -1);
}

double Costs::getMoveSeconds(size_t tensor, Place from, Place to) {
  const ByStepKind &once = places[tensor]->getSeconds(from, to);
  double moves = problem.tensors[tensor].moves;
  if (exposed.empty() || once[0] == impossible)
    return getSum(once) * moves;
  return roundSeconds(std::inner_product(once.begin(), once.end(),
                                         exposed[tensor].begin(), 0.) *
                      moves);
}

double Costs::computeMove(size_t tensor, Place from, Place to) {
  if (from == to)
    return 0;
  const PlacedTensor &moved = problem.tensors[tensor];
  double cost = getMoveSeconds(tensor, from, to);
  if (byteCost > 0 && moved.movedTo > 0)
    cost += roundSeconds(byteCost * moved.movedTo * getBytes(tensor, to));
  return cost;
}

double Costs::getKeep(size_t tensor, Place place) {
  double copies = problem.tensors[tensor].copies;
  return byteCost > 0 && copies > 0
             ? roundSeconds(byteCost * copies * getBytes(tensor, place))
             : 0;
}

bool Costs::isFreeInput(size_t tensor) {
  return problem.tensors[tensor].copies == 0 &&
         problem.tensors[tensor].movedTo == 0 &&
         llvm::any_of(homes[tensor], [&](Place home) {
           for (Place need = 0; need != places[tensor]->size(); ++need)
             if (getMove(tensor, home, need) != 0)
               return false;
           return true;
         });
}

std::pair<Place, double> Costs::getBestHome(size_t tensor,
                                            llvm::ArrayRef<Place> needs) {
  std::pair<Place, double> best{homes[tensor].front(), impossible};
  for (Place home : homes[tensor]) {
    double sum = getKeep(tensor, home);
    for (Place need : needs)
      sum += getMove(tensor, home, need);
    if (sum < best.second)
      best = {home, sum};
  }
  return best;
}
