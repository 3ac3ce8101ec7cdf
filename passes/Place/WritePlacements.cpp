//===- WritePlacements.cpp - A choice of placements, written back ---------===//
#include "cleave/AutoShard/BytesInUse.h"
#include "dialects/xf/Provenance.h"
#include "passes/Place/PlacementGraph.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;

void PlacementGraph::report(const ShardingChoice &choice) {
  double computes = 0;
  for (auto [site, placed, number] :
       llvm::zip_equal(sites, problem.ops, choice.strategies)) {
    const Strategy &strategy = placed.strategies[number];
    computes += placed.seconds[number];
    if (site.kind != Site::Ruled)
      continue;
    ShardingRule rule =
        cast<xf::ShardingRuleOpInterface>(site.op).getShardingRule();
    std::string splits;
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, strategy.axes))
      if (!axes.empty())
        splits += (splits.empty() ? "splits " : ", ") + factor.name +
                  " along " + mesh.toString(axes);
    emitRemark(site.op->getLoc())
        << (splits.empty() ? "splits nothing" : splits) << "; "
        << llvm::formatv("{0:F2} us", placed.seconds[number] * 1e6).str();
  }
  auto remark = emitRemark(function.getLoc());
  remark << llvm::formatv("{0:F2} us, {1:F2} of them in reshards; ",
                          choice.seconds * 1e6,
                          std::max(0., choice.seconds - computes) * 1e6)
                .str();
  if (choice.bytes > 0)
    remark << llvm::formatv("keeps {0:F3} MB; ", choice.bytes * 1e-6).str();
  if (choice.bound == choice.seconds)
    remark << "no choice takes less";
  else
    remark << "no choice takes less than "
           << llvm::formatv("{0:F2} us", choice.bound * 1e6).str();
  if (choice.besideSeconds != choice.seconds)
    remark << llvm::formatv("; {0:F2} us with collectives beside compute",
                            choice.besideSeconds * 1e6)
                  .str();
  double bytesInUse =
      getBytesInUse(problem, choice, getMoves(problem, choice, price));
  remark
      << llvm::formatv("; {0:F3} MB in use at most", bytesInUse * 1e-6).str();
}

RankedTensorType PlacementGraph::getPlaced(Value value,
                                           const Placement &placement) const {
  return dist::withPlacement(cast<RankedTensorType>(value.getType()),
                             dist::getPlacementAttr(meshName, mesh, placement));
}

Value PlacementGraph::move(Value value, const Placement &placement, When when,
                           Operation *before, Operation *origin) {
  Type type = getPlaced(value, placement);
  if (type == value.getType())
    return value;
  Value &known = moved[{value, type, unsigned(when)}];
  if (!known) {
    b.setInsertionPoint(before);
    auto reshard = dist::ReshardOp::create(b, value.getLoc(), type, value);
    xf::copyProvenance(origin, reshard);
    known = reshard;
  }
  return known;
}

void PlacementGraph::moveOperand(OpOperand &operand, const Placement &need,
                                 When when, Operation *before,
                                 Operation *origin) {
  Value value = operand.get();
  Placement placement = need;
  if (isStacked(value))
    placement.dims.insert(placement.dims.begin(), AxisList());
  if (Value other = now.lookup(see(value, when)))
    value = other;
  operand.set(move(value, placement, when, before, origin));
}

/// Puts a part back where it is read as it is made, of what is there, too.
void PlacementGraph::joinSums() {
  for (Operation *part : parts) {
    Value sum = part->getResult(0);
    auto user = dyn_cast<xf::AdditionOpInterface>(*sum.getUsers().begin());
    if (!user || !llvm::all_of(part->getOperandTypes(), [&](Type type) {
          return type == sum.getType() && type == user->getResult(0).getType();
        }))
      continue;
    SmallVector<Value> all;
    for (Value operand : user->getOperands())
      if (operand == sum)
        llvm::append_range(all, part->getOperands());
      else
        all.push_back(operand);
    user.getAddendsMutable().assign(all);
    part->erase();
  }
}

/// Adds those that are partial along the same axes, and reduces each such sum
/// once.
void PlacementGraph::writeSum(xf::AdditionOpInterface op) {
  Type whole = op->getResult(0).getType();
  llvm::MapVector<Type, SmallVector<Value>> groups;
  for (Value operand : op->getOperands())
    groups[operand.getType()].push_back(operand);
  SmallVector<Value> all;
  for (auto &[type, values] : groups) {
    if (type == whole) {
      llvm::append_range(all, values);
      continue;
    }
    Value part = values[0];
    if (values.size() > 1) {
      b.setInsertionPoint(op);
      Operation *sum = b.clone(*op);
      cast<xf::AdditionOpInterface>(sum).getAddendsMutable().assign(values);
      part = sum->getResult(0);
      part.setType(type);
    }
    all.push_back(move(part, Placement(), getWhen(op), op, op));
  }
  op.getAddendsMutable().assign(all);
}

void PlacementGraph::write(const ShardingChoice &choice) {
  for (auto [state, tensor] : states) {
    auto op = cast<xf::StateOp>(state);
    op.setType(dist::withPlacement(
        op.getTensorType(),
        dist::getPlacementAttr(meshName, mesh, choice.placements[tensor])));
  }
  for (auto [seen, tensor] : numbers) {
    auto [value, when] = seen;
    if (when != unsigned(getWhen(value)))
      continue;
    Placement placement = choice.placements[tensor];
    if (isStacked(value))
      placement.dims.insert(placement.dims.begin(), AxisList());
    setPlacement(value, placement);
  }
  for (auto [site, placed, number] :
       llvm::zip_equal(sites, problem.ops, choice.strategies)) {
    ArrayRef<Placement> needs = placed.strategies[number].placements.operands;
    switch (site.kind) {
    case Site::Ruled:
    case Site::Replicated:
      for (auto [operand, need] :
           llvm::zip_equal(site.op->getOpOperands(), needs))
        moveOperand(operand, need, getWhen(site.op), site.op, site.op);
      break;
    case Site::End:
      moveOperand(site.op->getOpOperand(site.operand), needs[0],
                  getWhen(site.op), site.op, site.op);
      break;
    case Site::Summed:
      writeSum(cast<xf::AdditionOpInterface>(site.op));
      break;
    case Site::Held: {
      Value held = move(site.value, needs[0], When::Once, accumulate,
                        site.value.getDefiningOp());
      for (When when : {When::Forward, When::Backward})
        now[see(site.value, when)] = held;
      break;
    }
    case Site::Kept: {
      Operation *made = site.value.getDefiningOp();
      When when = getWhen(site.value);
      Value kept = move(site.value, needs[0], when, made->getNextNode(), made);
      now[see(site.value, When::Backward)] = kept;
      break;
    }
    case Site::Yielded: {
      OpOperand &operand = site.op->getOpOperand(site.operand);
      Operation *made = operand.get().getDefiningOp();
      // Where it is made, so that only one is held whole at a time.
      moveOperand(operand, needs[0], getWhen(made), made->getNextNode(), made);
      break;
    }
    }
  }
  joinSums();
  Operation *end = function.getBody().front().getTerminator();
  function.setFunctionType(b.getFunctionType(
      function.getBody().front().getArgumentTypes(), end->getOperandTypes()));
}

AxisList PlacementGraph::getBatchAxes(const ShardingChoice &choice) const {
  return tokens ? choice.placements[*tokens].dims[0] : AxisList();
}
