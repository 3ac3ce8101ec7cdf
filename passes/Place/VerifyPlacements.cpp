//===- VerifyPlacements.cpp - The contract of the placed program ----------===//
#include "dialects/dist/Placements.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Place/Passes.h"

namespace cleave {
#define GEN_PASS_DEF_VERIFYPLACEMENTSPASS
#include "passes/Place/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class VerifyPlacements
    : public cleave::impl::VerifyPlacementsPassBase<VerifyPlacements> {
  void runOnOperation() override {
    auto meshes = getOperation().getOps<dist::MeshOp>();
    if (!llvm::hasSingleElement(meshes)) {
      getOperation().emitError("expects one dist.mesh");
      return signalPassFailure();
    }
    dist::MeshOp op = *meshes.begin();
    name = op.getSymName();
    mesh = op.getMesh();
    WalkResult result = getOperation().walk([&](Operation *inner) {
      return succeeded(check(inner)) ? WalkResult::advance()
                                     : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult check(Operation *op) {
    for (Type type : op->getOperandTypes())
      if (failed(checkType(op, type)))
        return failure();
    for (Type type : op->getResultTypes())
      if (failed(checkType(op, type)))
        return failure();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          if (failed(checkType(op, argument.getType())))
            return failure();
    if (auto state = dyn_cast<xf::StateOp>(op))
      if (failed(checkType(op, state.getType())))
        return failure();
    bool moves = isa_and_nonnull<dist::DistDialect>(op->getDialect()) ||
                 isa<xf::GetOp, xf::SetOp, xf::OutputOp, xf::AccumulateOp,
                     xf::YieldOp, func::FuncOp, func::ReturnOp>(op);
    bool hasTensors = op->getNumOperands() || op->getNumResults();
    if (hasTensors && !moves && !isa<xf::ShardingRuleOpInterface>(op))
      return checkReplicated(op);
    if (auto ruled = dyn_cast<xf::ShardingRuleOpInterface>(op))
      if (failed(checkSizes(ruled)))
        return failure();
    return checkState(op);
  }

  /// Where every rank does the same, no rule is needed, if a person says so.
  LogicalResult checkReplicated(Operation *op) {
    if (!op->hasAttr(dist::replicateName))
      return op->emitOpError("has no sharding rule");
    auto isWhole = [&](Type type) {
      Placement placement =
          dist::getPlacement(dist::getPlacementAttr(type), mesh);
      return !placement.isPartial() &&
             llvm::all_of(placement.dims,
                          [](const AxisList &axes) { return axes.empty(); });
    };
    if (!llvm::all_of(op->getOperandTypes(), isWhole) ||
        !llvm::all_of(op->getResultTypes(), isWhole))
      return op->emitOpError("has no sharding rule, and not all of it is "
                             "replicated, as ")
             << dist::replicateName << " says";
    return success();
  }

  LogicalResult checkType(Operation *op, Type type) {
    return isa<RankedTensorType>(type)
               ? dist::verifyPlaced(op, type, name, mesh)
               : success();
  }

  /// The op's verifier has checked its rule, but not knowing the axes' sizes:
  /// whether an axis splits key heads, or query heads within a key head, say,
  /// depends on them.
  LogicalResult checkSizes(xf::ShardingRuleOpInterface op) {
    auto getPlacements = [&](TypeRange types) {
      return llvm::map_to_vector(types, [&](Type type) {
        return dist::getPlacement(dist::getPlacementAttr(type), mesh);
      });
    };
    if (llvm::Error error = checkRule(mesh, op.getShardingRule(),
                                      getPlacements(op->getOperandTypes()),
                                      getPlacements(op->getResultTypes())))
      return op->emitOpError(llvm::toString(std::move(error)));
    return success();
  }

  /// State is never an addend.
  LogicalResult checkState(Operation *op) {
    if (auto state = dyn_cast<xf::StateOp>(op))
      if (dist::getPlacement(dist::getPlacementAttr(state.getType()), mesh)
              .isPartial())
        return op->emitOpError("expects state that is not partial");
    return success();
  }

  StringRef name;
  Mesh mesh;
};
} // namespace
