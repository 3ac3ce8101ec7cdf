//===- Scan.cpp - An op that Cleave has never seen ------------------------===//
//
// What an op says of itself so that placements are chosen for it: a sharding
// rule, and what it costs. That is all of it; see README.md.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/XfInterfaces.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Support/Compiler.h"

#include "ScanDialect.h.inc"
#define GET_OP_CLASSES
#include "Scan.h.inc"

using namespace mlir;

#include "ScanDialect.cpp.inc"
#define GET_OP_CLASSES
#include "Scan.cpp.inc"

void scan::ScanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Scan.cpp.inc"
      >();
}

/// Batch and hidden may be split; a step needs the one before it, so the
/// sequence may not. The result is linear in x: sums that are yet to be reduced
/// may pass from there.
cleave::ShardingRule scan::LinearOp::getShardingRule() {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(getX().getType()).getShape();
  return llvm::cantFail(cleave::ShardingRule::parse(
      "b s h, b s h -> b s h | pass 0 | block s: a step needs the one before "
      "it",
      {{"b", shape[0]}, {"s", shape[1]}, {"h", shape[2]}}));
}

/// In chunks, whose states are read and written once more than x, gate and h.
double scan::LinearOp::getBytes() {
  return cleave::xf::getTensorBytes(*this) * 5 / 3;
}

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {
      MLIR_PLUGIN_API_VERSION, "scan", LLVM_VERSION_STRING,
      [](DialectRegistry *registry) { registry->insert<scan::ScanDialect>(); }};
}
