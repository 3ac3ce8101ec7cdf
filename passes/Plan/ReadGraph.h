//===- ReadGraph.h - What a step trains, read from its ops ----------------===//
#ifndef CLEAVE_PASSES_PLAN_READGRAPH_H
#define CLEAVE_PASSES_PLAN_READGRAPH_H

#include "cleave/Cost/Architecture.h"
#include "cleave/Cost/Workload.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// What a step is given.
struct StepWorkload {
  Workload work;
  int64_t microBatches = 1;
};

/// Fails unless the step's first argument is ids of [micro-batches, batch,
/// sequence].
llvm::Expected<StepWorkload> readWorkload(mlir::func::FuncOp step);

/// What the planner asks of a step.
struct StepGraph : StepWorkload {
  Architecture model;
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
