//===- InsertCollectives.cpp - From reshards to collectives ---------------===//
#include "cleave/Hardware/Cluster.h"
#include "cleave/Reshard/Price.h"
#include "dialects/dist/Placements.h"
#include "dialects/xf/Provenance.h"
#include "passes/Log.h"
#include "passes/Partition/Passes.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "cleave-insert-collectives"

namespace cleave {
#define GEN_PASS_DEF_INSERTCOLLECTIVESPASS
#include "passes/Partition/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class InsertCollectives
    : public cleave::impl::InsertCollectivesPassBase<InsertCollectives> {
public:
  using InsertCollectivesPassBase::InsertCollectivesPassBase;

private:
  void runOnOperation() override {
    dist::MeshOp op = dist::lookupMesh(getOperation());
    if (!op) {
      getOperation().emitError("expects a dist.mesh");
      return signalPassFailure();
    }
    // A reshard stays in its stage; how far ranks are apart is the mesh's.
    mesh = op.getStageMesh();
    whole = op.getMesh();
    meshName = FlatSymbolRefAttr::get(op.getSymNameAttr());
    llvm::Expected<Network> joined = getNetwork(cluster, whole.getNumRanks());
    if (!joined) {
      op.emitError(llvm::toString(joined.takeError()));
      return signalPassFailure();
    }
    network = std::move(*joined);
    WalkResult result = getOperation().walk([&](dist::ReshardOp reshard) {
      return succeeded(expand(reshard)) ? WalkResult::advance()
                                        : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult expand(dist::ReshardOp op) {
    auto type = cast<RankedTensorType>(op.getInput().getType());
    for (Type side : {Type(type), Type(op.getType())})
      if (failed(dist::verifyPlaced(op, side, meshName.getValue(), mesh)))
        return failure();
    Placement from = dist::getPlacement(dist::getPlacementAttr(type), mesh);
    Placement to =
        dist::getPlacement(dist::getPlacementAttr(op.getType()), mesh);
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    NetworkPricer price(whole, network);
    llvm::Expected<std::vector<Step>> steps =
        planReshard(mesh, type.getShape(), from, to, bytes, price);
    if (!steps)
      return op.emitOpError(llvm::toString(steps.takeError()));

    OpBuilder b(op);
    Value value = op.getInput();
    double seconds = 0;
    const Placement *before = &from;
    for (const Step &step : *steps) {
      double own =
          getStepSeconds(mesh, type.getShape(), *before, step, bytes, price);
      value = build(b, op, value, step);
      LDBG() << before->toString(mesh) << " -> " << step.after.toString(mesh)
             << " by " << value.getDefiningOp()->getName() << " along "
             << dist::getAxesAttr(&getContext(), mesh, step.axes) << ", "
             << llvm::formatv("{0:F1} us", own * 1e6);
      seconds += own;
      before = &step.after;
      if (step.kind != Step::Kind::Slice) {
        ++numCollectives;
        numBytes += getLocalBytes(value.getDefiningOp()->getOperand(0));
      }
    }
    emitRemark(op.getLoc())
        << from.toString(mesh) << " -> " << to.toString(mesh) << " takes "
        << steps->size() << (steps->size() == 1 ? " step, " : " steps, ")
        << llvm::formatv("{0:F1} us on ", seconds * 1e6).str()
        << getNetworkName();
    op.replaceAllUsesWith(value);
    op.erase();
    return success();
  }

  /// `h100-sxm:16 (nvlink4, ib-ndr400)`
  std::string getNetworkName() const {
    std::string name = cluster.empty() ? "threads" : cluster.getValue();
    for (const Level &level : network.levels)
      name +=
          (&level == &network.levels.front() ? " (" : ", ") + level.link.name;
    return name + ")";
  }

  int64_t getLocalBytes(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    for (int64_t size : dist::getPlacement(dist::getPlacementAttr(type), mesh)
                            .getLocalShape(mesh, type.getShape()))
      bytes *= size;
    return bytes;
  }

  Value build(OpBuilder &b, dist::ReshardOp op, Value value, const Step &step) {
    auto type = cast<RankedTensorType>(value.getType());
    RankedTensorType result = dist::withPlacement(
        type, dist::getPlacementAttr(meshName, mesh, step.after));
    ArrayAttr axes = dist::getAxesAttr(&getContext(), mesh, step.axes);
    IntegerAttr dim = b.getI64IntegerAttr(step.dim);
    auto reduction = dist::ReductionKindAttr::get(
        &getContext(), dist::getPlacementAttr(type).getReduction());
    Operation *built = nullptr;
    switch (step.kind) {
    case Step::Kind::AllReduce:
      built = dist::AllReduceOp::create(b, op.getLoc(), result, value, axes,
                                        reduction);
      break;
    case Step::Kind::ReduceScatter:
      built = dist::ReduceScatterOp::create(b, op.getLoc(), result, value, axes,
                                            dim, reduction);
      break;
    case Step::Kind::AllGather:
      built =
          dist::AllGatherOp::create(b, op.getLoc(), result, value, axes, dim);
      break;
    case Step::Kind::AllToAll:
      built = dist::AllToAllOp::create(b, op.getLoc(), result, value, axes, dim,
                                       b.getI64IntegerAttr(step.splitDim));
      break;
    case Step::Kind::Slice:
      built = dist::SliceOp::create(b, op.getLoc(), result, value, axes, dim);
      break;
    }
    xf::copyProvenance(op, built);
    return built->getResult(0);
  }

  Mesh mesh, whole;
  FlatSymbolRefAttr meshName;
  Network network;
};
} // namespace
