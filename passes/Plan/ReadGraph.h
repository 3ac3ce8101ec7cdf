//===- ReadGraph.h - What a step trains, read from its ops ----------------===//
#ifndef CLEAVE_PASSES_PLAN_READGRAPH_H
#define CLEAVE_PASSES_PLAN_READGRAPH_H

#include "cleave/Cost/Architecture.h"
#include "cleave/Cost/Workload.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// What the planner asks of a step.
struct StepGraph {
  Architecture model;
  Workload work;
  int64_t microBatches = 1;
  /// By name of a dim: what all sizes of tensors' dims of that name have as
  /// divisors in common.
  llvm::StringMap<int64_t> dims;
};

/// Of a module with a function `step`, as cleave-build-step makes it. Layers
/// and what their ops are for are those of `xf.provenance`, sizes those of
/// states' dims by their names; so a model is read that no configuration is
/// known of. Fails, and says what is missing.
llvm::Expected<StepGraph> readGraph(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_PASSES_PLAN_READGRAPH_H
