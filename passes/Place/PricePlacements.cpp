//===- PricePlacements.cpp - What the placements of a function cost -------===//
//
// The sums that cleave-choose-placements makes least where nothing runs beside
// compute, of placements that are there.
//
//===----------------------------------------------------------------------===//
#include "cleave/AutoShard/Choose.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Reshard/Price.h"
#include "dialects/dist/Placements.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Place/OpPricer.h"
#include "passes/Place/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {
#define GEN_PASS_DEF_PRICEPLACEMENTSPASS
#include "passes/Place/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class Pricer {
public:
  Pricer(func::FuncOp function, const Mesh &mesh, const Machine &machine,
         const Profile &profile)
      : function(function), mesh(mesh), machine(machine), profile(profile),
        network(this->mesh, machine) {}

  LogicalResult run() {
    WalkResult walked = function.walk([&](Operation *op) {
      return failed(add(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
    auto remark = emitRemark(function.getLoc());
    remark << llvm::formatv("{0:F2} us, {1:F2} of them in reshards; keeps "
                            "{2:F3} MB",
                            (seconds + moves) * 1e6, moves * 1e6, bytes * 1e-6)
                  .str();
    return success();
  }

private:
  Placement getPlacement(Value value) const {
    return dist::getPlacement(dist::getPlacementAttr(value.getType()), mesh);
  }
  double getBytes(Value value) const {
    return getPlacedTensor(value).getBytes(mesh, getPlacement(value));
  }
  static bool isBackward(Operation *op) {
    return isa<xf::AccumulateOp>(op->getParentOp()) &&
           xf::getPhase(op) == xf::Phase::Backward;
  }

  LogicalResult add(Operation *op) {
    double times = 1;
    if (auto accumulate = dyn_cast<xf::AccumulateOp>(op->getParentOp()))
      times = double(accumulate.getCount());
    if (auto ruled = dyn_cast<xf::ShardingRuleOpInterface>(op)) {
      FailureOr<double> own = price(ruled);
      if (failed(own))
        return failure();
      seconds += times * *own;
    } else if (op->hasAttr(dist::replicateName)) {
      seconds += times * getWholeSeconds(machine.device, op);
    }
    if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
      Value from = op->getOperand(0), to = op->getResult(0);
      std::optional<ByStepKind> own =
          getReshardSeconds(mesh, getPlacedTensor(from), getPlacement(from),
                            getPlacement(to), network, getMoves(reshard));
      if (!own)
        return op->emitOpError("cannot be done");
      moves += times * getSum(*own);
    }
    addKept(op);
    return success();
  }

  MoveSeconds getMoves(dist::ReshardOp op) {
    MoveSeconds seconds = getMoveSeconds(machine.device, profile);
    if (isInput(op->getOperand(0)))
      seconds.ofSlice = 0;
    if (xf::getPhase(op) == xf::Phase::Optimizer)
      seconds.ofSkew = 0;
    return seconds;
  }

  /// Tokens and constants, whose cuts are not counted.
  bool isInput(Value value) {
    if (isa<BlockArgument>(value))
      return true;
    auto get = value.getDefiningOp<xf::GetOp>();
    return get && llvm::none_of(function.getOps<xf::SetOp>(), [&](auto set) {
             return set.getStateAttr() == get.getStateAttr();
           });
  }

  void addKept(Operation *op) {
    if (auto set = dyn_cast<xf::SetOp>(op))
      bytes += getBytes(set.getValue());
    for (Value result : op->getResults()) {
      bool isOutside = op->getParentOp() == function;
      if (isa<xf::AccumulateOp>(op) ||
          llvm::any_of(result.getUsers(), [&](Operation *user) {
            return isOutside ? isa<xf::AccumulateOp>(user->getParentOp()) &&
                                   !isa<xf::GetOp>(op)
                             : isBackward(user) && !isBackward(op);
          }))
        bytes += getBytes(result);
    }
  }

  FailureOr<double> price(xf::ShardingRuleOpInterface op) {
    ShardingRule rule = op.getShardingRule();
    Strategy strategy;
    strategy.axes.resize(rule.factors.size());
    auto take = [&](ValueRange values, ArrayRef<TensorFactors> tensors,
                    auto &placements) -> LogicalResult {
      for (auto [value, tensor] : llvm::zip_equal(values, tensors)) {
        placements.push_back(getPlacement(value));
        llvm::Expected<FactorAxes> axes =
            getFactorAxes(mesh, rule, tensor, placements.back());
        if (!axes)
          return op->emitOpError(llvm::toString(axes.takeError()));
        for (auto [all, own] : llvm::zip_equal(strategy.axes, *axes))
          if (all.empty())
            all = own;
      }
      return success();
    };
    if (failed(take(op->getOperands(), rule.operands,
                    strategy.placements.operands)) ||
        failed(
            take(op->getResults(), rule.results, strategy.placements.results)))
      return failure();
    return OpPricer(mesh, machine.device, profile).price(op, rule, strategy);
  }

  func::FuncOp function;
  const Mesh mesh;
  const Machine &machine;
  const Profile &profile;
  NetworkPricer network;
  double seconds = 0, moves = 0, bytes = 0;
};

class PricePlacements
    : public cleave::impl::PricePlacementsPassBase<PricePlacements> {
public:
  using PricePlacementsPassBase::PricePlacementsPassBase;

  void runOnOperation() override {
    llvm::Expected<Machine> machine = getMachine(cluster);
    if (!machine) {
      getOperation().emitError(llvm::toString(machine.takeError()));
      return signalPassFailure();
    }
    llvm::Expected<Profile> profile = loadOwnProfile(machine->device);
    if (!profile) {
      getOperation().emitError(llvm::toString(profile.takeError()));
      return signalPassFailure();
    }
    dist::MeshOp mesh = dist::lookupMesh(getOperation());
    if (!mesh) {
      getOperation().emitError("expects a dist.mesh");
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(Pricer(function, mesh.getMesh(), *machine, *profile).run()))
        return signalPassFailure();
  }
};
} // namespace
