//===- AssignStages.cpp - Which virtual stage an op is on -----------------===//
#include "passes/Pipeline/AssignStages.h"
#include "dialects/xf/Provenance.h"

using namespace mlir;
using namespace cleave;

static bool isBackward(Operation *op) {
  return xf::getPhase(op) == xf::Phase::Backward;
}

namespace {
class Assigner {
public:
  Assigner(Block &body, ArrayRef<int64_t> layers)
      : body(body), last(int64_t(layers.size()) - 1) {
    for (auto [stage, count] : llvm::enumerate(layers))
      stageOfLayer.append(size_t(count), int64_t(stage));
  }

  VirtualStages run() {
    findNeighbours();
    for (Operation &op : body.without_terminator())
      if (std::optional<int64_t> stage = choose(&op))
        stages[&op] = *stage;
    for (Operation &op : llvm::reverse(body.without_terminator()))
      if (!stages.contains(&op))
        stages[&op] = getUsersStage(&op);
    return std::move(stages);
  }

private:
  /// Whether ops of layers come before an op, in its own pass over the model,
  /// and after it in the forward pass.
  struct Neighbours {
    bool before = false, after = false;
  };

  void findNeighbours();
  std::optional<int64_t> choose(Operation *op);
  std::optional<int64_t> getJoinedStage(Operation *op);
  int64_t getUsersStage(Operation *op);

  Block &body;
  int64_t last;
  SmallVector<int64_t> stageOfLayer;
  llvm::DenseMap<Operation *, Neighbours> neighbours;
  VirtualStages stages;
};
} // namespace

void Assigner::findNeighbours() {
  for (Operation &op : body)
    for (Value value : op.getOperands()) {
      Operation *from = value.getDefiningOp();
      if (from && from->getBlock() == &body &&
          isBackward(from) == isBackward(&op))
        neighbours[&op].before |=
            xf::getLayer(from) >= 0 || neighbours.lookup(from).before;
    }
  for (Operation &op : llvm::reverse(body))
    for (Operation *user : op.getUsers())
      if (!isBackward(user))
        neighbours[&op].after |=
            xf::getLayer(user) >= 0 || neighbours.lookup(user).after;
}

/// The one stage that all of two values or more are of.
std::optional<int64_t> Assigner::getJoinedStage(Operation *op) {
  SmallVector<int64_t> of;
  for (Value value : op->getOperands())
    if (auto it = stages.find(value.getDefiningOp()); it != stages.end())
      of.push_back(it->second);
  return of.size() > 1 && llvm::all_equal(of) ? std::optional(of.front())
                                              : std::nullopt;
}

/// None for what reads nothing of the micro-batch, itself or through others: a
/// parameter's move in several steps.
std::optional<int64_t> Assigner::choose(Operation *op) {
  int64_t layer = xf::getLayer(op);
  if (layer >= 0 && layer < int64_t(stageOfLayer.size())) {
    std::optional<int64_t> joined = getJoinedStage(op);
    return joined ? *joined : stageOfLayer[size_t(layer)];
  }
  auto isOfMicroBatch = [&](Value value) {
    Operation *from = value.getDefiningOp();
    return from ? stages.contains(from) : value.getParentBlock() == &body;
  };
  if (llvm::none_of(op->getOperands(), isOfMicroBatch))
    return std::nullopt;
  Neighbours around = neighbours.lookup(op);
  if (isBackward(op))
    return around.before ? 0 : last;
  if (!around.before)
    return around.after ? 0 : last;
  return around.after ? getJoinedStage(op).value_or(last) : last;
}

/// The first of those that use it.
int64_t Assigner::getUsersStage(Operation *op) {
  std::optional<int64_t> first;
  for (Operation *user : op->getUsers())
    if (auto it = stages.find(user); it != stages.end())
      first = std::min(first.value_or(it->second), it->second);
  return first.value_or(0);
}

VirtualStages cleave::assignStages(Block &body, ArrayRef<int64_t> layers) {
  return Assigner(body, layers).run();
}
