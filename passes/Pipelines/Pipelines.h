//===- Pipelines.h - The stages of a compilation, in order ----------------===//
#ifndef CLEAVE_PASSES_PIPELINES_PIPELINES_H
#define CLEAVE_PASSES_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "passes/Grad/Passes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Passes.h"
#include "passes/Overlap/Passes.h"
#include "passes/Partition/Passes.h"
#include "passes/Pipeline/Passes.h"
#include "passes/Place/Passes.h"
#include "passes/Plan/Passes.h"
#include "passes/Recompute/Passes.h"

namespace cleave {

struct StageOptions {
  BuildStepPassOptions step;
  ChoosePlanPassOptions plan; ///< of a module without a `dist.plan`
  /// If set, placements are chosen by cost, in place of the plan's.
  std::optional<ChoosePlacementsPassOptions> choose;
  InsertCollectivesPassOptions partition;
  LowerToExecPassOptions kernels;
  CutTurnPassOptions turn;
  OverlapPassOptions overlap;
};

/// A stage: a name, for `--dump-after-stage` and `--cleave-stage-NAME`, and its
/// passes, the last of which verifies its contract.
struct Stage {
  llvm::StringLiteral name;
  llvm::StringLiteral summary;
  void (*addPasses)(mlir::OpPassManager &, const StageOptions &);
};

/// From the forward graph to instructions with offsets.
llvm::ArrayRef<Stage> getStages();

/// The contract of the last stage: what a program must keep to, to be written.
void addContracts(mlir::OpPassManager &pm);

/// Our dialects, with the lowerings of their ops, and those that our IR is
/// written in.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers every pass, and each stage as a pipeline `cleave-stage-NAME`.
void registerAllPasses();

} // namespace cleave

#endif // CLEAVE_PASSES_PIPELINES_PIPELINES_H
