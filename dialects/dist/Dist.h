//===- Dist.h - The dist dialect ------------------------------------------===//
#ifndef CLEAVE_DIALECTS_DIST_DIST_H
#define CLEAVE_DIALECTS_DIST_DIST_H

#include "cleave/Mesh/Mesh.h"
#include "cleave/Placement/Placement.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dist/DistDialect.h.inc"
#include "dialects/dist/DistEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.h.inc"

namespace cleave::dist {
/// A dim of an operand or a result that a collective's ranks each have a shard
/// of.
struct Shard {
  mlir::Value value;
  int64_t dim = 0;
  /// Of the dim, of each of which the shard has a piece; 1: it is one piece.
  int64_t blocks = 1;
};
} // namespace cleave::dist

#include "dialects/dist/CollectiveInterface.h.inc"

namespace cleave::dist {
/// Checks the axes of a collective against the mesh of its module and, in the
/// local program, its shapes against the number of ranks.
mlir::LogicalResult verifyGroup(CollectiveOpInterface op);
} // namespace cleave::dist

#define GET_OP_CLASSES
#include "dialects/dist/Dist.h.inc"

#endif // CLEAVE_DIALECTS_DIST_DIST_H
