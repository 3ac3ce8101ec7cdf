//===- ExpandComposites.cpp - Ops that are computed by others -------------===//
#include "dialects/xf/Provenance.h"
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

namespace {
struct ExpandComposites
    : public cleave::impl::ExpandCompositesPassBase<ExpandComposites> {
  void runOnOperation() override {
    getOperation()->walk([](CompositeOpInterface op) { expand(op); });
  }
};
} // namespace
