//===- Exec.h - The exec dialect ------------------------------------------===//
#ifndef CLEAVE_DIALECTS_EXEC_EXEC_H
#define CLEAVE_DIALECTS_EXEC_EXEC_H

#include "cleave/Streams/Share.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/exec/ExecDialect.h.inc"
#include "dialects/exec/ExecEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttrs.h.inc"

namespace cleave::exec {
/// What an operand of an instruction holds.
struct OperandShape {
  mlir::Type type; ///< of its elements; none: bytes, whatever they are
  /// At least these, of a launch; just as many else. Of bytes none are told.
  int64_t elements = 0;
  /// Those of an output that are sure to be written.
  int64_t written = 0;
  bool isAtLeast = false;
};

/// The pieces of a shard, or of a part of it.
struct Pieces {
  int64_t blocks = 1; ///< of the dim: each has a piece of every shard
  int64_t count = 1;  ///< of all blocks that there are, one behind the other
};

} // namespace cleave::exec

#include "dialects/exec/InstructionInterface.h.inc"

namespace cleave::exec {
/// The discardable attribute of an instruction that holds its OrderAttr.
constexpr llvm::StringLiteral orderName = "exec.order";
/// Events are numbered from 1 up to this.
constexpr int64_t maxEvent = 0xffffff;
/// Stream 0 and no waits where it has none.
OrderAttr getOrder(mlir::Operation *op);
/// Takes the attribute away where it says nothing.
void setOrder(mlir::Operation *op, OrderAttr order);

/// Checks what an instruction names: the types of its elements, the axes of its
/// group, which are distinct ones of the module's mesh, and the kernel of a
/// launch.
mlir::LogicalResult verifyInstruction(InstructionOpInterface op,
                                      mlir::SymbolTableCollection &table);
} // namespace cleave::exec

#define GET_OP_CLASSES
#include "dialects/exec/Exec.h.inc"

namespace cleave::exec {
/// The buffer that a value is, or is a view of; and its own bytes.
BufferOp getBuffer(mlir::Value value);
int64_t getBytes(mlir::Value value);
} // namespace cleave::exec

#endif // CLEAVE_DIALECTS_EXEC_EXEC_H
