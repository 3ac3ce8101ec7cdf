//===- KeepCopies.cpp - Casts of parameters as state ----------------------===//
#include "dialects/xf/Parameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "passes/Partition/Passes.h"

namespace cleave {
#define GEN_PASS_DEF_KEEPCOPIESPASS
#include "passes/Partition/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class KeepCopies : public cleave::impl::KeepCopiesPassBase<KeepCopies> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step || step.isExternal()) {
      getOperation().emitError("expects a function named \"step\"");
      return signalPassFailure();
    }
    for (auto set : step.getOps<xf::SetOp>())
      sets[set.getStateAttr().getAttr()] = set;
    for (auto cast : llvm::make_early_inc_range(step.getOps<CastOpInterface>()))
      if (xf::StateOp parameter = findParameter(cast))
        keep(cast, parameter);
  }

  xf::StateOp findParameter(CastOpInterface cast);
  void keep(CastOpInterface cast, xf::StateOp parameter);
  xf::StateOp makeCopy(CastOpInterface cast, xf::StateOp parameter);

  llvm::DenseMap<StringAttr, xf::SetOp> sets;
};
} // namespace

/// The parameter that a cast gives for the whole step in fewer bits; null where
/// it is none, or is cast to be gathered: then each rank casts its shard, and
/// the gathered one lives no longer than it is needed.
xf::StateOp KeepCopies::findParameter(CastOpInterface cast) {
  xf::StateOp state = xf::getRoundedParameter(cast);
  if (!state || !sets.contains(state.getSymNameAttr()))
    return {};
  bool isGathered = llvm::any_of(cast->getUsers(), [](Operation *user) {
    return isa<dist::CollectiveOpInterface>(user);
  });
  return isGathered ? xf::StateOp() : state;
}

/// Declares the copy, and sets it where the parameter is set.
xf::StateOp KeepCopies::makeCopy(CastOpInterface cast, xf::StateOp parameter) {
  auto type = mlir::cast<RankedTensorType>(cast->getResult(0).getType());
  std::string name;
  llvm::raw_string_ostream(name)
      << parameter.getSymName() << "/" << type.getElementType();
  if (auto made = getOperation().lookupSymbol<xf::StateOp>(name))
    return made;
  OpBuilder b(parameter);
  b.setInsertionPointAfter(parameter);
  auto copy = xf::StateOp::create(
      b, parameter.getLoc(), b.getStringAttr(name),
      xf::StateRoleAttr::get(b.getContext(), xf::StateRole::Copy),
      TypeAttr::get(type),
      xf::InitAttr::get(b.getContext(), xf::InitKind::Zeros,
                        b.getF64FloatAttr(0), DenseElementsAttr()),
      parameter.getLogicalAttr(), parameter.getDimsAttr(), xf::PieceAttr(),
      UnitAttr(), IntegerAttr(), ArrayAttr(),
      FlatSymbolRefAttr::get(parameter.getSymNameAttr()));

  // Beside the update, with which it becomes one kernel.
  xf::SetOp set = sets.lookup(parameter.getSymNameAttr());
  b.setInsertionPointAfterValue(set.getValue());
  IRMapping mapping;
  mapping.map(cast->getOperand(0), set.getValue());
  Operation *rounded = b.clone(*cast, mapping);
  rounded->setLoc(set.getValue().getLoc());
  rounded->setDiscardableAttrs(set->getDiscardableAttrDictionary());
  b.setInsertionPointAfter(set);
  auto setCopy = xf::SetOp::create(b, set.getLoc(), copy.getSymName(),
                                   rounded->getResult(0));
  setCopy->setDiscardableAttrs(set->getDiscardableAttrDictionary());
  return copy;
}

void KeepCopies::keep(CastOpInterface cast, xf::StateOp parameter) {
  xf::StateOp copy = makeCopy(cast, parameter);
  OpBuilder b(cast);
  auto get = xf::GetOp::create(b, cast->getLoc(), cast->getResult(0).getType(),
                               copy.getSymName());
  get->setDiscardableAttrs(cast->getDiscardableAttrDictionary());
  Operation *whole = cast->getOperand(0).getDefiningOp();
  cast->getResult(0).replaceAllUsesWith(get);
  cast->erase();
  if (whole->use_empty())
    whole->erase();
  ++numCopies;
}
