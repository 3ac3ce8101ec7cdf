//===- Recompute.cpp - Repeat parts of a layer in its backward pass -------===//
//
// State: the copy of each op that has one. The ops of the backward pass are
// visited in their order; where one reads a result of a repeated op of its own
// layer, that op is copied before it, and before the copy those that it reads
// in turn. So a copy stands where it is first needed, and reads what is kept.
//
// A value of another layer is always kept: what a layer repeats begins at its
// input.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/PlanAttr.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Log.h"
#include "passes/Recompute/Passes.h"

#define DEBUG_TYPE "cleave-recompute"

namespace cleave {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "passes/Recompute/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class Recompute : public cleave::impl::RecomputePassBase<Recompute> {
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    if (failed(readChoice()))
      return signalPassFailure();
    if (names.empty())
      return;
    if (failed(readModules()))
      return signalPassFailure();
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step) {
      getOperation().emitError("expects a function named \"step\"");
      return signalPassFailure();
    }
    copies.clear();
    step.walk([&](Operation *op) {
      if (xf::getPhase(op) == xf::Phase::Backward && !op->getNumRegions())
        readCopies(op);
    });
    numRepeated += copies.size();
  }

  /// What is repeated: as the options say, or else the module's plan, if it has
  /// one.
  LogicalResult readChoice() {
    names.assign(modules.begin(), modules.end());
    numLayers = layers;
    perStage.assign(stageLayers.begin(), stageLayers.end());
    if (!names.empty())
      return success();
    auto plan = dist::getPlan(getOperation());
    if (!plan)
      return getOperation().emitError(llvm::toString(plan.takeError()));
    if (!*plan)
      return success();
    names = (*plan)->recompute;
    numLayers = (*plan)->recomputeBlocks;
    if ((*plan)->pipeline)
      perStage = (*plan)->getStageLayers(xf::countLayers(getOperation()));
    return success();
  }

  LogicalResult readModules() {
    repeated.clear();
    for (const std::string &name : names) {
      if (name == "full") {
        for (uint32_t i = 0; i <= xf::getMaxEnumValForModule(); ++i)
          repeated.insert(xf::Module(i));
        continue;
      }
      std::optional<xf::Module> module = xf::symbolizeModule(name);
      if (!module) {
        InFlightDiagnostic error = getOperation().emitError()
                                   << "unknown module \"" << name
                                   << "\"; legal are full";
        for (uint32_t i = 0; i <= xf::getMaxEnumValForModule(); ++i)
          error << ", " << xf::stringifyModule(xf::Module(i));
        return error;
      }
      repeated.insert(*module);
    }
    return success();
  }

  /// Whether `op` is one that its layer's backward pass repeats.
  bool isRepeated(Operation *op, xf::ProvenanceAttr user) {
    xf::ProvenanceAttr own = op ? xf::getProvenance(op) : nullptr;
    return own && user && own.getPhase() == xf::Phase::Forward &&
           own.getLayer() == user.getLayer() && own.getModule() &&
           (numLayers == 0 || getPlace(own.getLayer()) < numLayers) &&
           // What is read once a step, such as a weight, is there anyway.
           op->getBlock() == loop &&
           (repeated.contains(*own.getModule()) || addsRepeated(op));
  }

  /// Whether an op is of a residual sum of what is repeated, and of what comes
  /// from another layer: kept in place of the latter, it would be in vain that
  /// the former is repeated.
  bool addsRepeated(Operation *op) {
    xf::ProvenanceAttr own = xf::getProvenance(op);
    return own.getModule() == xf::Module::Residual &&
           llvm::all_of(op->getOperands(), [&](Value operand) {
             Operation *from = operand.getDefiningOp();
             xf::ProvenanceAttr other = from && from->getBlock() == loop
                                            ? xf::getProvenance(from)
                                            : nullptr;
             return !other || other.getLayer() != own.getLayer() ||
                    isRepeated(from, own);
           });
  }

  /// The number of a layer in its virtual stage.
  int64_t getPlace(int64_t layer) {
    for (int64_t count : perStage) {
      if (layer < count)
        return layer;
      layer -= count;
    }
    return layer;
  }

  /// Lets `op` read copies of what is not kept for it.
  void readCopies(Operation *op) {
    loop = op->getBlock();
    xf::ProvenanceAttr provenance = xf::getProvenance(op);
    for (OpOperand &operand : op->getOpOperands()) {
      auto result = dyn_cast<OpResult>(operand.get());
      if (result && isRepeated(result.getOwner(), provenance))
        operand.set(
            copy(result.getOwner(), op)->getResult(result.getResultNumber()));
    }
  }

  Operation *copy(Operation *op, Operation *before) {
    Operation *&known = copies[op];
    if (known)
      return known;
    LDBG() << "layer " << xf::getProvenance(op).getLayer() << ": repeats "
           << op->getName() << " before " << before->getName();
    OpBuilder b(before);
    Operation *made = b.clone(*op);
    xf::ProvenanceAttr old = xf::getProvenance(op);
    xf::setProvenance(
        made, xf::ProvenanceAttr::get(&getContext(), xf::Phase::Backward,
                                      old.getLayer(), old.getModule(),
                                      /*recomputed=*/true));
    known = made;
    readCopies(made);
    return made;
  }

  std::vector<std::string> names; ///< of modules that are repeated
  int64_t numLayers = 0;          ///< of each virtual stage; 0: all
  std::vector<int64_t> perStage;  ///< layers; none: one stage has all
  llvm::DenseSet<xf::Module> repeated;
  Block *loop = nullptr; ///< of a micro-batch
  llvm::DenseMap<Operation *, Operation *> copies;
};
} // namespace
