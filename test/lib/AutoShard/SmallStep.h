//===- SmallStep.h - A step of a few ops for tests ------------------------===//
#ifndef CLEAVE_TEST_LIB_AUTOSHARD_SMALLSTEP_H
#define CLEAVE_TEST_LIB_AUTOSHARD_SMALLSTEP_H

#include "cleave/AutoShard/Beside.h"
#include "llvm/Support/Error.h"
#include <cmath>

namespace cleave {

/// Ops with one strategy each, on an axis `a` of two ranks and another `b`.
struct SmallStep {
  SmallStep() { problem.mesh = Mesh({{"a", 2}, {"b", 2}}); }

  static Placement whole() { return Placement::getReplicated(2); }
  static Placement split(Axis axis) {
    Placement placement = whole();
    placement.dims[0] = {axis};
    return placement;
  }
  static Placement partial() {
    Placement placement = whole();
    placement.partial = {0};
    return placement;
  }

  size_t addTensor() {
    problem.tensors.emplace_back();
    problem.tensors.back().shape = {64, 4};
    choice.placements.push_back(whole());
    return problem.tensors.size() - 1;
  }
  size_t addInput(const Placement &placement) {
    size_t tensor = addTensor();
    problem.tensors[tensor].allowed = {placement};
    choice.placements[tensor] = placement;
    return tensor;
  }

  using Needs = std::vector<std::pair<size_t, Placement>>;
  /// Returns the tensor that it makes.
  size_t addOp(double seconds, const Needs &needs, const Placement &made,
               const char *phase = "forward") {
    PlacedOp op;
    op.name = "op";
    op.phase = phase;
    Strategy strategy;
    for (const auto &[tensor, placement] : needs) {
      op.operands.push_back(tensor);
      strategy.placements.operands.push_back(placement);
    }
    op.results = {addTensor()};
    choice.placements[op.results[0]] = made;
    strategy.placements.results = {made};
    op.strategies = {strategy};
    op.seconds = {seconds};
    op.at = double(problem.ops.size());
    problem.ops.push_back(op);
    choice.strategies.push_back(0);
    return problem.ops.back().results[0];
  }
  size_t yield(size_t gradient) {
    size_t sum = addOp(0, {{gradient, partial()}}, partial(), "forward");
    problem.ops.back().keeps = Keeps::Gradients;
    return sum;
  }

  /// Of rows that they may be cut along.
  void makeProducts() {
    for (PlacedOp &op : problem.ops) {
      op.rowsOf = 1;
      op.isProduct = true;
    }
  }

  /// A collective takes four seconds for whole tensors, and in parts no longer.
  static double price(Step::Kind kind, llvm::ArrayRef<Axis> axes,
                      double bytes) {
    double share = bytes / (4 * 64 * 4);
    switch (kind) {
    case Step::Kind::AllGather:
      return 4 * share * std::pow(2, axes.size()); // what comes of it
    case Step::Kind::AllToAll:
      return 1000.;
    default:
      return 4 * share;
    }
  }
  double time() {
    moves = getMoves(problem, choice, price);
    return timeBeside(problem, choice, moves, price, beside);
  }
  std::vector<double> getExposed() const {
    std::vector<double> exposed;
    for (const Move &move : moves)
      for (const MoveStep &step : move.steps)
        exposed.push_back(step.exposed);
    return exposed;
  }

  ShardingProblem problem;
  ShardingChoice choice;
  std::vector<Move> moves;
  BesideCompute beside{[](llvm::ArrayRef<Axis>) { return 0; }, 0};
};

} // namespace cleave

#endif // CLEAVE_TEST_LIB_AUTOSHARD_SMALLSTEP_H
