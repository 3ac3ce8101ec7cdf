//===- CheckMeaning.h - Whether passes keep what a step means -------------===//
#ifndef CLEAVE_PASSES_INTERPRET_CHECKMEANING_H
#define CLEAVE_PASSES_INTERPRET_CHECKMEANING_H

#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "passes/Interpret/RunStep.h"

namespace cleave {

/// Runs the training step in f64 before and after every pass, and emits an
/// error where they part: what types cannot see, such as a wrong scale, a
/// gradient that is added twice or a collective over the wrong ranks.
///
/// A pass that makes the step from `@forward` is checked by difference
/// quotients of the loss; any other by three steps from random states and
/// tokens, of which the second is bad and changes nothing: all states and
/// outputs must stay the same. Small models take milliseconds a pass; real ones
/// are refused, and must be shrunken first.
class MeaningCheck : public mlir::PassInstrumentation {
public:
  struct Result {
    int64_t passes = 0; ///< that changed the step, and were checked
    bool failed = false;
  };
  /// `result` outlives the check.
  explicit MeaningCheck(Result &result) : result(result) {}

  void runBeforePass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *op) override;

private:
  llvm::LogicalResult check(mlir::ModuleOp module);

  Result &result;
  mlir::OwningOpRef<mlir::ModuleOp> before;
  std::optional<mlir::OperationFingerPrint> fingerPrint; ///< at that time
  /// Of the step as it was first seen.
  std::optional<StepInputs> inputs;
};

/// Compares the gradients that the updates of `step` are given with difference
/// quotients of the loss of `forward`, along a random direction for each
/// parameter. Emits an error at the update whose gradient is another.
llvm::LogicalResult checkGradients(mlir::ModuleOp forward, mlir::ModuleOp step,
                                   const StepInputs &inputs);

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_CHECKMEANING_H
