//===- Localize.cpp - From global types to local ones ---------------------===//
#include "dialects/dist/Placements.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Partition/Passes.h"

namespace cleave {
#define GEN_PASS_DEF_LOCALIZEPASS
#include "passes/Partition/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class Localize : public cleave::impl::LocalizePassBase<Localize> {
  void runOnOperation() override {
    dist::MeshOp op = dist::lookupMesh(getOperation());
    if (!op) {
      getOperation().emitError("expects a dist.mesh");
      return signalPassFailure();
    }
    mesh = op.getMesh();
    stageMesh = op.getStageMesh();
    name = op.getSymName();
    WalkResult result = getOperation().walk([&](Operation *inner) {
      return succeeded(check(inner)) ? WalkResult::advance()
                                     : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      // What depends on placements is written down before they go.
      function.walk([&](Operation *inner) {
        recordShard(inner);
        recordOrder(inner);
      });
      for (BlockArgument argument : function.getArguments())
        function.setArgAttr(argument.getArgNumber(), "dist.global",
                            TypeAttr::get(argument.getType()));
      function.walk([&](Operation *inner) { localizeTypes(inner); });
      auto local = [&](TypeRange types) {
        return llvm::map_to_vector(
            types, [&](Type type) { return getLocalType(type); });
      };
      function.setFunctionType(
          FunctionType::get(&getContext(), local(function.getArgumentTypes()),
                            local(function.getResultTypes())));
    }
  }

  /// A local program has no reshards, and its shapes follow from placements.
  LogicalResult check(Operation *op) {
    if (isa<dist::ReshardOp>(op))
      return op->emitOpError("expects collectives in place of reshards");
    SmallVector<Type> types(op->getResultTypes());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::append_range(types, block.getArgumentTypes());
    for (Type type : types)
      if (isa<RankedTensorType>(type) &&
          failed(dist::verifyPlaced(op, type, name, mesh)))
        return failure();
    return success();
  }

  /// Notes the axes that split the dim by which `op` tells its shard.
  void recordShard(Operation *op) {
    if (auto sharded = dyn_cast<xf::ShardIndexOpInterface>(op)) {
      auto [value, dim] = sharded.getShardedDim();
      dist::OnAttr placement = dist::getPlacementAttr(value.getType());
      op->setAttr("shard_axes", placement.getDims()[dim]);
    }
    if (auto output = dyn_cast<xf::OutputOp>(op))
      op->setAttr("global", TypeAttr::get(output.getValue().getType()));
  }

  /// Fixes the order of sums where ranks compute `op` on the same values.
  void recordOrder(Operation *op) {
    auto ordered = dyn_cast<xf::FixedOrderOpInterface>(op);
    if (!ordered)
      return;
    for (Axis axis = 0; axis < stageMesh.getNumAxes(); ++axis)
      if (stageMesh.getSize(axis) > 1 && areCopiesAlong(axis, op))
        return ordered.setFixedOrder(true);
  }

  /// Whether ranks that differ along `axis` only have copies of all operands
  /// and results of `op`.
  bool areCopiesAlong(Axis axis, Operation *op) {
    SmallVector<Type> types(op->getOperandTypes());
    llvm::append_range(types, op->getResultTypes());
    return llvm::all_of(types, [&](Type type) {
      dist::OnAttr attr = dist::getPlacementAttr(type);
      if (!attr)
        return true;
      return dist::getPlacement(attr, mesh).isCopiedAlong(axis);
    });
  }

  void localizeTypes(Operation *op) {
    for (Value result : op->getResults())
      result.setType(getLocalType(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(getLocalType(argument.getType()));
  }

  Type getLocalType(Type type) {
    dist::OnAttr attr = dist::getPlacementAttr(type);
    if (!attr)
      return type;
    auto tensor = cast<RankedTensorType>(type);
    return RankedTensorType::get(
        dist::getPlacement(attr, mesh).getLocalShape(mesh, tensor.getShape()),
        tensor.getElementType());
  }

  StringRef name;
  Mesh mesh;
  Mesh stageMesh; ///< as the ranks of one pipeline stage see it
};
} // namespace
