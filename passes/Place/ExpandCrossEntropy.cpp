//===- ExpandCrossEntropy.cpp - Take cross-entropies apart ----------------===//
#include "dialects/xf/Provenance.h"
#include "passes/Place/Passes.h"

namespace cleave {
#define GEN_PASS_DEF_EXPANDCROSSENTROPYPASS
#include "passes/Place/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// Builds the parts of `op` in its place.
static void expand(xf::CrossEntropyOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type rows = op.getLse().getType();
  Value x = op.getLogits(), targets = op.getTargets();
  Value max = xf::RowMaxOp::create(b, loc, rows, x, op.getVocabAttr());
  Value sum = xf::SumExpOp::create(b, loc, rows, x, max, op.getVocabAttr());
  Value picked = xf::PickOp::create(b, loc, rows, x, targets);
  auto parts = xf::TokenLossOp::create(b, loc, TypeRange{rows, rows}, max, sum,
                                       picked, targets);
  Value loss =
      xf::SumOp::create(b, loc, op.getLoss().getType(), parts.getLoss());
  for (Operation *part = max.getDefiningOp(); part != op;
       part = part->getNextNode())
    xf::copyProvenance(op, part);
  op.getLoss().replaceAllUsesWith(loss);
  op.getLse().replaceAllUsesWith(parts.getLse());
  op.erase();
}

namespace {
struct ExpandCrossEntropy
    : public cleave::impl::ExpandCrossEntropyPassBase<ExpandCrossEntropy> {
  void runOnOperation() override {
    getOperation()->walk([](xf::CrossEntropyOp op) { expand(op); });
  }
};
} // namespace
