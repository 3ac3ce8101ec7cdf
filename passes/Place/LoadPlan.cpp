//===- LoadPlan.cpp - The plan of a step, from a file ---------------------===//
//
// By itself, since the planner and MLIR each call something a Block.
//
//===----------------------------------------------------------------------===//
#include "passes/Place/LoadPlan.h"
#include "cleave/Search/Format.h"
#include "cleave/Search/PlanFile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

/// Whether the step computes in bf16.
static bool isBF16(mlir::func::FuncOp step) {
  bool found = false;
  step.walk([&](mlir::Operation *op) {
    found |= llvm::any_of(op->getResultTypes(), [](mlir::Type type) {
      return mlir::getElementTypeOrSelf(type).isBF16();
    });
  });
  return found;
}

llvm::Expected<Plan> cleave::loadPlanForStep(llvm::StringRef path,
                                             mlir::ModuleOp module) {
  auto step = module.lookupSymbol<mlir::func::FuncOp>("step");
  // Without a step the pass has an error of its own.
  if (!step || step.isExternal() || step.getNumArguments() == 0)
    return Plan();
  auto ids =
      llvm::dyn_cast<mlir::RankedTensorType>(step.getArgumentTypes().front());
  if (!ids || ids.getRank() != 3)
    return llvm::createStringError(
        "expects a step on ids of [micro-batches, batch, sequence]");
  const Workload work{ids.getDimSize(2), ids.getDimSize(0) * ids.getDimSize(1),
                      isBF16(step) ? DType::BF16 : DType::F32};
  llvm::Expected<PlanFile> file = loadPlanFile(path);
  if (!file)
    return file.takeError();
  llvm::Expected<Plan> plan = getPlan(*file, /*model=*/"", work);
  if (plan && plan->microBatches != ids.getDimSize(0))
    return llvm::createStringError(
        llvm::formatv("{0}: the plan has {1}, the step {2}: expects "
                      "--cleave-build-step=micro-batches={3}",
                      path, formatNumber(plan->microBatches, "micro-batch"),
                      ids.getDimSize(0), plan->microBatches));
  return plan;
}
