//===- XfInterfaces.h - What passes may ask of a training-graph op --------===//
#ifndef CLEAVE_DIALECTS_XF_XFINTERFACES_H
#define CLEAVE_DIALECTS_XF_XFINTERFACES_H

#include "cleave/Cost/Work.h"
#include "cleave/Placement/ShardingRule.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace cleave::xf {

class Origins;

/// Checks the placements of an op's types against its rule; succeeds where no
/// type has one.
mlir::LogicalResult verifyShardingRule(mlir::Operation *op);

/// Checks what OptimizerOpInterface says of shapes.
mlir::LogicalResult verifyUpdate(mlir::Operation *op);

/// Bytes of all tensor operands and results.
double getTensorBytes(mlir::Operation *op);

} // namespace cleave::xf

#include "dialects/xf/XfInterfaces.h.inc"

#endif // CLEAVE_DIALECTS_XF_XFINTERFACES_H
