//===- AssignStages.cpp - Which virtual stage an op is on -----------------===//
#include "passes/Pipeline/AssignStages.h"
#include "dialects/xf/Provenance.h"

using namespace mlir;
using namespace cleave;

static int64_t getLayer(Operation *op) {
  xf::ProvenanceAttr provenance = xf::getProvenance(op);
  return provenance ? provenance.getLayer() : -1;
}

int64_t cleave::countLayers(Block &body) {
  int64_t layers = 0;
  for (Operation &op : body)
    layers = std::max(layers, getLayer(&op) + 1);
  return layers;
}

namespace {
/// The stages of some ops; none if they are of none.
struct Range {
  std::optional<int64_t> first, last;
  int64_t count = 0;

  void include(int64_t stage) {
    first = std::min(first.value_or(stage), stage);
    last = std::max(last.value_or(stage), stage);
    ++count;
  }
  /// Where an op of no layer is.
  std::optional<int64_t> choose(Operation *op) const {
    return xf::getPhase(op) == xf::Phase::Backward ? first : last;
  }
};
} // namespace

VirtualStages cleave::assignStages(Block &body, ArrayRef<int64_t> layers) {
  SmallVector<int64_t> stageOfLayer;
  for (auto [stage, count] : llvm::enumerate(layers))
    stageOfLayer.append(size_t(count), int64_t(stage));

  VirtualStages stages;
  auto note = [&](Range &range, Operation *op) {
    if (auto it = op ? stages.find(op) : stages.end(); it != stages.end())
      range.include(it->second);
  };
  for (Operation &op : body.without_terminator()) {
    Range operands;
    for (Value value : op.getOperands())
      note(operands, value.getDefiningOp());
    int64_t layer = getLayer(&op);
    if (layer >= 0 && layer < int64_t(stageOfLayer.size())) {
      int64_t own = stageOfLayer[size_t(layer)];
      bool joins = operands.count > 1 && operands.first == operands.last;
      stages[&op] = joins ? *operands.first : own;
    } else if (std::optional<int64_t> stage = operands.choose(&op)) {
      stages[&op] = *stage;
    }
  }
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (stages.contains(&op))
      continue;
    Range users;
    for (Operation *user : op.getUsers())
      note(users, user);
    // Where nobody says: with the data.
    stages[&op] = users.first.value_or(0);
  }
  return stages;
}
