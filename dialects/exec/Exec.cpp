//===- Exec.cpp - The exec dialect and its verifiers ----------------------===//
#include "dialects/exec/Exec.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::exec;

#include "dialects/exec/ExecDialect.cpp.inc"
#include "dialects/exec/ExecEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttrs.cpp.inc"

#include "dialects/exec/InstructionInterface.cpp.inc"

/// A kernel's body, whose names are its own. As `$body` it would share them
/// with kernels beside it: one that uses a name of another, whose body then
/// turns out to be wrong and is thrown away, would be left with a use of what
/// is gone.
static ParseResult parseKernelBody(OpAsmParser &parser, Region &body) {
  if (parser.parseRegion(body, /*arguments=*/{}, /*enableNameShadowing=*/true))
    return failure();
  if (body.empty())
    body.emplaceBlock();
  return success();
}

static void printKernelBody(OpAsmPrinter &printer, Operation *, Region &body) {
  printer.printRegion(body);
}

#define GET_OP_CLASSES
#include "dialects/exec/Exec.cpp.inc"

void ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/exec/ExecTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/exec/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/Exec.cpp.inc"
      >();
}

/// The scalar type a kernel body sees for a stored element type.
static Type getComputeType(Type stored) {
  return isa<FloatType>(stored) ? Float32Type::get(stored.getContext())
                                : stored;
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError("expects its body to end in exec.yield");
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("expects ")
           << getInputs().size() << " block arguments, one per input, got "
           << block.getNumArguments();
  if (yield.getNumOperands() != getOutputs().size())
    return emitOpError("expects ")
           << getOutputs().size() << " yielded values, one per output, got "
           << yield.getNumOperands();

  auto check = [&](AccessAttr access, Type seen, const char *what,
                   size_t i) -> LogicalResult {
    if (seen != getComputeType(access.getType()))
      return emitOpError("expects ")
             << what << " " << i << " to be "
             << getComputeType(access.getType()) << ", got " << seen;
    if (access.getColStride() < 0 || access.getColStride() > 1)
      return emitOpError("expects the colStride of ")
             << what << " " << i << " to be 0 or 1, got "
             << access.getColStride();
    if (access.getRowDiv() < 1 || access.getRowMod() < 0)
      return emitOpError("expects the rowDiv of ")
             << what << " " << i << " to be at least 1 and rowMod at least 0";
    return success();
  };
  for (auto [i, attr] : llvm::enumerate(getInputs()))
    if (failed(check(cast<AccessAttr>(attr), block.getArgument(i).getType(),
                     "input", i)))
      return failure();
  for (auto [i, attr] : llvm::enumerate(getOutputs()))
    if (failed(check(cast<AccessAttr>(attr), yield.getOperand(i).getType(),
                     "output", i)))
      return failure();

  if (getAccumulate() != "never" && getAccumulate() != "always" &&
      getAccumulate() != "after_first")
    return emitOpError("expects accumulate to be \"never\", \"always\" or "
                       "\"after_first\", got \"")
           << getAccumulate() << "\"";
  if (getMode() == KernelMode::Flat && getColumns() != 1)
    return emitOpError("expects one column in flat mode, got ") << getColumns();
  if (getMode() != KernelMode::Row && !block.getOps<RowReduceOp>().empty())
    return emitOpError("expects exec.row_reduce in row mode only");
  if (getMode() == KernelMode::Column)
    for (auto [i, attr] : llvm::enumerate(getOutputs())) {
      auto access = cast<AccessAttr>(attr);
      if (access.getColStride() != 1 || access.getRowStride() != 0)
        return emitOpError("expects output ")
               << i << " to be a vector along the columns in column mode";
    }
  return success();
}

LogicalResult BufferOp::verify() {
  if (int64_t(getBytes()) < 1)
    return emitOpError("expects at least one byte, got ") << getBytes();
  if (getOffset() && (int64_t(*getOffset()) < 0 || *getOffset() % 64 != 0))
    return emitOpError("expects an offset that is a multiple of 64, got ")
           << *getOffset();
  return success();
}

void BufferOp::build(OpBuilder &b, OperationState &state, StringRef category,
                     int64_t bytes) {
  build(b, state, BufferType::get(b.getContext()), b.getStringAttr(category),
        b.getI64IntegerAttr(bytes), IntegerAttr(), UnitAttr(),
        FlatSymbolRefAttr());
}
