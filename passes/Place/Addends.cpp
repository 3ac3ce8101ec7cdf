//===- Addends.cpp - Biases that a product gives away ---------------------===//
#include "passes/Place/Addends.h"

using namespace mlir;
using namespace cleave;

/// The add that alone reads the op's first result, which has its shape; null if
/// there is none.
static xf::AdditionOpInterface findReadingAdd(Operation *op) {
  Value result = op->getResult(0);
  auto getShape = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  if (!result.hasOneUse())
    return nullptr;
  auto add = dyn_cast<xf::AdditionOpInterface>(*result.user_begin());
  return add && getShape(add->getResult(0)) == getShape(result) ? add : nullptr;
}

SmallVector<Value> cleave::moveAddends(xf::ShardingRuleOpInterface op) {
  ShardingRule rule = op.getShardingRule();
  SmallVector<Value> addends;
  for (unsigned addend : rule.addends)
    addends.push_back(op->getOperand(addend));
  for (unsigned addend : llvm::reverse(rule.addends))
    op->eraseOperand(addend);
  if (xf::AdditionOpInterface add = findReadingAdd(op)) {
    add.getAddendsMutable().append(addends);
    addends.clear();
  }
  return addends;
}

void cleave::moveAddends(func::FuncOp function) {
  function.walk([](xf::ShardingRuleOpInterface op) {
    if (!op.getShardingRule().addends.empty() && findReadingAdd(op))
      moveAddends(op);
  });
}
