//===- Xf.h - The training-graph dialect ----------------------------------===//
#ifndef CLEAVE_DIALECTS_XF_XF_H
#define CLEAVE_DIALECTS_XF_XF_H

#include "dialects/xf/XfInterfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/xf/XfDialect.h.inc"
#include "dialects/xf/XfEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/xf/XfAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/xf/Xf.h.inc"

#endif // CLEAVE_DIALECTS_XF_XF_H
