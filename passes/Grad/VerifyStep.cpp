//===- VerifyStep.cpp - The contract of a training step -------------------===//
//
// What the types of a step cannot say:
//  1. Each parameter and moment is set once, outside of the micro-batches, and
//     a constant never; what an optimizer updated is set where it was got.
//  2. What each op says of itself in a step, see StepCheckOpInterface: that a
//     gradient is of the forward op with its attributes, and that a
//     cross-entropy counts the columns that its head has without padding.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/Origins.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Grad/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace cleave {
#define GEN_PASS_DEF_VERIFYSTEPPASS
#include "passes/Grad/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class StepVerifier {
public:
  StepVerifier(ModuleOp module, func::FuncOp step)
      : module(module), step(step) {}

  LogicalResult verify() {
    if (failed(verifySets()))
      return failure();
    xf::Origins origins;
    step.walk([&](Operation *op) { origins.note(op); });
    step.walk([&](xf::StepCheckOpInterface op) {
      if (!xf::isBackward(op) && !xf::isRecomputed(op))
        op.noteForward(origins);
    });
    WalkResult walk = step.walk([&](xf::StepCheckOpInterface op) {
      return failed(op.verifyInStep(origins)) ? WalkResult::interrupt()
                                              : WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
  }

private:
  LogicalResult verifySets();
  static LogicalResult verifyUpdate(xf::SetOp set);

  ModuleOp module;
  func::FuncOp step;
};
} // namespace

/// Each parameter and moment is set once, and a constant never.
LogicalResult StepVerifier::verifySets() {
  llvm::MapVector<StringAttr, SmallVector<xf::SetOp>> sets;
  WalkResult walk = step.walk([&](xf::SetOp set) {
    if (set->getParentOp() != step) {
      set.emitOpError("expects to stand in the step itself: state is set once");
      return WalkResult::interrupt();
    }
    sets[set.getStateAttr().getAttr()].push_back(set);
    return failed(verifyUpdate(set)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  for (auto state : module.getOps<xf::StateOp>()) {
    ArrayRef<xf::SetOp> found = sets[state.getSymNameAttr()];
    size_t expected = state.getRole() == xf::StateRole::Constant ? 0 : 1;
    if (found.size() == expected)
      continue;
    InFlightDiagnostic error = state.emitOpError("expects a step to set it ")
                               << (expected ? "once" : "never") << ", got "
                               << found.size() << " times";
    for (xf::SetOp set : found)
      error.attachNote(set.getLoc()) << "set here";
    return error;
  }
  return success();
}

/// The new value that an optimizer made is of the state that is set.
LogicalResult StepVerifier::verifyUpdate(xf::SetOp set) {
  auto value = dyn_cast<OpResult>(xf::getUnmoved(set.getValue()));
  auto update =
      value ? dyn_cast<xf::OptimizerOpInterface>(value.getOwner()) : nullptr;
  if (!update)
    return success();
  auto get = xf::getMaker<xf::GetOp>(update.getOldValue(value).get());
  if (get && get.getStateAttr() == set.getStateAttr())
    return success();
  InFlightDiagnostic error = set.emitOpError("expects the new value of ")
                             << set.getStateAttr() << ", got that of ";
  if (get)
    error << get.getStateAttr();
  else
    error << "no state";
  error.attachNote(update->getLoc()) << "updated here";
  return error;
}

namespace {
class VerifyStep : public cleave::impl::VerifyStepPassBase<VerifyStep> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step || step.isExternal()) {
      getOperation().emitError("expects a function named \"step\"");
      return signalPassFailure();
    }
    if (failed(StepVerifier(getOperation(), step).verify()))
      signalPassFailure();
  }
};
} // namespace
