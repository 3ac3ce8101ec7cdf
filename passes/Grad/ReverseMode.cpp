//===- ReverseMode.cpp - Gradients of a straight line of ops --------------===//
//
// State: for each value, the gradients that its users have contributed so far.
// Invariant: when an op is visited, all of its users have been, so the sum of
// the contributions to its results is d loss / d result.
//
//  1. Forward: mark the values that depend on a leaf.
//  2. Backward: sum each result's contributions; ask the op for its operands'.
//
//===----------------------------------------------------------------------===//
#include "passes/Grad/ReverseMode.h"
#include "dialects/xf/Provenance.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave;

namespace {
class ReverseMode {
public:
  ReverseMode(OpBuilder &builder, ValueRange leaves) : builder(builder) {
    for (Value leaf : leaves)
      active.insert(leaf);
  }

  void markActive(Block &block) {
    for (Operation &op : block)
      if (llvm::any_of(op.getOperands(),
                       [&](Value value) { return active.contains(value); }))
        for (Value result : op.getResults())
          active.insert(result);
  }

  void contribute(Value value, Value grad) {
    contributions[value].push_back(grad);
  }

  /// Builds the gradients of an op, which are of its layer.
  LogicalResult visit(Operation &op) {
    Operation *last = &op.getBlock()->back();
    if (failed(differentiate(op)))
      return failure();
    while ((last = last->getNextNode()))
      xf::copyProvenance(&op, last);
    return success();
  }

  LogicalResult differentiate(Operation &op) {
    SmallVector<Value> resultGrads;
    for (Value result : op.getResults())
      resultGrads.push_back(getSum(result));
    if (llvm::none_of(resultGrads, [](Value value) { return bool(value); }))
      return success();
    SmallVector<bool> wanted;
    for (Value operand : op.getOperands())
      wanted.push_back(active.contains(operand));
    if (!llvm::is_contained(wanted, true))
      return success();
    auto gradient = dyn_cast<xf::GradientOpInterface>(op);
    if (!gradient)
      return op.emitOpError("has no gradient");
    SmallVector<Value> operandGrads(op.getNumOperands());
    gradient.buildGradient(builder, resultGrads, wanted, operandGrads);
    for (auto [operand, grad] : llvm::zip(op.getOperands(), operandGrads))
      if (grad && active.contains(operand))
        contribute(operand, grad);
    return success();
  }

  /// d loss / d value; null if nothing contributed.
  Value getSum(Value value) {
    SmallVector<Value> &parts = contributions[value];
    if (parts.size() > 1)
      parts = {xf::AddOp::create(builder, value.getLoc(), parts[0].getType(),
                                 parts)};
    return parts.empty() ? Value() : parts[0];
  }

private:
  OpBuilder &builder;
  llvm::DenseSet<Value> active;
  llvm::DenseMap<Value, SmallVector<Value>> contributions;
};
} // namespace

FailureOr<SmallVector<Value>>
cleave::buildReverseMode(OpBuilder &builder, Block &block, ValueRange leaves,
                         Value result, Value seed) {
  ReverseMode mode(builder, leaves);
  mode.markActive(block);
  mode.contribute(result, seed);

  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (failed(mode.visit(*op)))
      return failure();

  SmallVector<Value> grads;
  for (Value leaf : leaves)
    grads.push_back(mode.getSum(leaf));
  return grads;
}
