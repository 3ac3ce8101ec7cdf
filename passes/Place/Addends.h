//===- Addends.h - Biases that a product gives away -----------------------===//
#ifndef CLEAVE_PASSES_PLACE_ADDENDS_H
#define CLEAVE_PASSES_PLACE_ADDENDS_H

#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Where a summed factor of a product is split, each rank would add the whole
/// of its bias. Takes the addends of its rule off an op that has some; an add
/// of its shape that alone reads the result, as that of the residual stream,
/// adds them instead, when the sum is whole. Returns what nobody adds now: all
/// of them if there is no such add, or else none.
mlir::SmallVector<mlir::Value> moveAddends(xf::ShardingRuleOpInterface op);

/// The same of all ops of a function whose result such an add reads.
void moveAddends(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_PASSES_PLACE_ADDENDS_H
