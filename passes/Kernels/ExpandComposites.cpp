//===- ExpandComposites.cpp - Ops that are computed by others -------------===//
#include "dialects/xf/Provenance.h"
#include "dialects/xf/Xf.h"
#include "passes/Kernels/LoweringInterfaces.h"
#include "passes/Kernels/Passes.h"

namespace cleave {
#define GEN_PASS_DEF_EXPANDCOMPOSITESPASS
#include "passes/Kernels/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// Builds the parts of `op` in its place; they are of what it is of.
static void expand(CompositeOpInterface op) {
  Operation *before = op->getPrevNode();
  OpBuilder b(op);
  SmallVector<Value> results = op.buildParts(b);
  for (Operation *part = before ? before->getNextNode()
                                : &op->getBlock()->front();
       part != op; part = part->getNextNode())
    xf::copyProvenance(op, part);
  op->replaceAllUsesWith(results);
  op->erase();
}

/// Leaves the sum no more than `most` addends: the first ones are added by
/// others before it, so that all are added in the same order.
static void splitSum(xf::AdditionOpInterface op, size_t most) {
  SmallVector<Value> left(op->getOperands());
  OpBuilder b(op);
  while (left.size() > most) {
    Operation *part = b.clone(*op);
    cast<xf::AdditionOpInterface>(part).getAddendsMutable().assign(
        ArrayRef(left).take_front(most));
    left.erase(left.begin(), left.begin() + most);
    left.insert(left.begin(), part->getResult(0));
  }
  op.getAddendsMutable().assign(left);
}

namespace {
struct ExpandComposites
    : public cleave::impl::ExpandCompositesPassBase<ExpandComposites> {
  using ExpandCompositesPassBase::ExpandCompositesPassBase;

  void runOnOperation() override {
    if (mostAddends < 2) {
      getOperation()->emitError("expects most-addends to be at least 2");
      return signalPassFailure();
    }
    getOperation()->walk([](CompositeOpInterface op) { expand(op); });
    SmallVector<xf::AdditionOpInterface> sums;
    getOperation()->walk(
        [&](xf::AdditionOpInterface op) { sums.push_back(op); });
    for (xf::AdditionOpInterface sum : sums)
      if (sum->getNumOperands() > mostAddends)
        splitSum(sum, mostAddends);
  }
};
} // namespace
