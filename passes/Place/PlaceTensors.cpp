//===- PlaceTensors.cpp - Placements from a plan --------------------------===//
//
// State: every value before the current op has its final placement.
//
// For an op with a sharding rule:
//  1. A bias that would be added more than once, and partial operands of an add
//     that would be reduced one by one, become ops of their own. What has been
//     reduced for an op before is read as that.
//  2. Axes go to factors: from pinned operands (parameters, in the placement
//     that ops compute with) and pinned results (gradients of parameters), then
//     from the other operands, then from the residual stream's placement where
//     a partial operand has to become whole. The first factor to claim an axis
//     keeps it.
//  3. lib infers operand and result placements; operands that have another get
//     a `dist.reshard`, shared by the users of one phase.
//
// Example, "intermediate" and "sequence" over tp, x = [{dp}, {tp}, {}]:
//   up(x, w1): w1 claims f for tp, so s stays whole:   x -> [{dp}, {}, {}]
//   down(h, w2): w2 claims f, reduced: z partial over tp
//   add(x, z): x claims s for tp; an add is linear in all operands or none, so
//   z becomes whole:                                   z -> [{dp}, {tp}, {}]
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Log.h"
#include "passes/Place/Addends.h"
#include "passes/Place/LoadPlan.h"
#include "passes/Place/Passes.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "cleave-place-tensors"

namespace cleave {
#define GEN_PASS_DEF_PLACETENSORSPASS
#include "passes/Place/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class Placer {
public:
  Placer(ModuleOp module, const Plan &plan)
      : module(module), plan(plan), mesh(plan.mesh), b(module.getContext()),
        meshName(FlatSymbolRefAttr::get(module.getContext(), "mesh")) {}

  LogicalResult run();

private:
  void placeStates();
  LogicalResult placeBlock(Block &block);
  LogicalResult place(Operation &op);
  LogicalResult placeByRule(Operation &op);
  LogicalResult placeAccumulate(xf::AccumulateOp op);
  void placeParameter(xf::GetOp op);

  Operation *splitAddend(Operation &op);
  void readWholes(Operation &op);
  void groupPartials(xf::AdditionOpInterface op);
  FactorAxes claimAxes(Operation &op, const ShardingRule &rule);

  Placement getPlacement(Value value) {
    return dist::getPlacement(dist::getPlacementAttr(value.getType()), mesh);
  }
  void setPlacement(Value value, const Placement &placement) {
    value.setType(
        dist::withPlacement(cast<RankedTensorType>(value.getType()),
                            dist::getPlacementAttr(meshName, mesh, placement)));
  }
  /// `value`, which is partial, made whole for an earlier op of the block.
  Value getWhole(Value value, Operation *user) {
    Value whole = wholes.lookup(value);
    return whole && whole.getParentBlock() == user->getBlock() ? whole
                                                               : Value();
  }
  /// `value` under `placement`, where `builder` stands.
  Value reshard(Value value, const Placement &placement, Operation *user);

  static ArrayRef<int64_t> getShape(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }
  static SmallVector<std::string> getDimNames(xf::StateOp state) {
    SmallVector<std::string> names;
    if (std::optional<ArrayAttr> dims = state.getDims())
      for (auto name : dims->getAsValueRange<StringAttr>())
        names.push_back(name.str());
    else
      names.assign(state.getTensorType().getRank(), "");
    return names;
  }

  ModuleOp module;
  const Plan &plan;
  const Mesh &mesh;
  OpBuilder b;
  FlatSymbolRefAttr meshName;
  /// Parameters, in the placement in which the micro-batch's ops see them.
  llvm::DenseMap<Value, Placement> seenAs;
  /// Gradients of parameters, in the placement in which they are computed.
  llvm::DenseMap<Value, Placement> computedAs;
  /// Reshards of this phase, by value and placement.
  llvm::DenseMap<std::pair<Value, Type>, Value> reshards;
  /// Of partial values: the first reshard that made them whole. A later phase
  /// reads that one; it would gather a value again, but not reduce it again.
  llvm::DenseMap<Value, Value> wholes;
  std::optional<xf::Phase> phase;
};
} // namespace

LogicalResult Placer::run() {
  dist::createMesh(module, mesh,
                   plan.pipeline ? std::optional(plan.pipeline->axis)
                                 : std::nullopt);
  placeStates();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step)
    return module.emitError("expects a function named \"step\"");
  Block &entry = step.getBody().front();
  // ids and targets: [micro-batches, batch, sequence]
  for (BlockArgument argument : entry.getArguments()) {
    Placement placement = Placement::getReplicated(3);
    placement.dims[1] = plan.getAxes("batch");
    setPlacement(argument, placement);
  }
  if (failed(placeBlock(entry)))
    return failure();
  step.setFunctionType(
      b.getFunctionType(entry.getArgumentTypes(), step.getResultTypes()));
  // The runtime gives each rank its samples.
  for (auto work : module.getOps<exec::WorkloadOp>())
    work.setBatchAxesAttr(
        dist::getAxesAttr(b.getContext(), mesh, plan.getAxes("batch")));
  return success();
}

void Placer::placeStates() {
  for (auto state : module.getOps<xf::StateOp>()) {
    RankedTensorType type = state.getTensorType();
    // Constants are small, and read in every micro-batch.
    bool isConstant = state.getRole() == xf::StateRole::Constant;
    Placement placement =
        plan.getKept(getDimNames(state), type.getShape(),
                     isConstant ? AxisList() : plan.optimizerAxes);
    state.setType(dist::withPlacement(
        type, dist::getPlacementAttr(meshName, mesh, placement)));
  }
}

LogicalResult Placer::placeBlock(Block &block) {
  // Ops that a step adds lie before the op at hand and are placed by it.
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (xf::getPhase(&op) != phase) {
      phase = xf::getPhase(&op);
      reshards.clear();
    }
    if (failed(place(op)))
      return failure();
  }
  return success();
}

LogicalResult Placer::place(Operation &op) {
  if (auto get = dyn_cast<xf::GetOp>(op))
    return placeParameter(get), success();
  if (auto set = dyn_cast<xf::SetOp>(op)) {
    auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
        &op, set.getStateAttr());
    Placement target =
        dist::getPlacement(dist::getPlacementAttr(state.getType()), mesh);
    set.getValueMutable().assign(reshard(set.getValue(), target, &op));
    return success();
  }
  if (isa<xf::OutputOp, xf::YieldOp, func::ReturnOp>(op))
    return success();
  if (auto accumulate = dyn_cast<xf::AccumulateOp>(op))
    return placeAccumulate(accumulate);
  // A parameter's move to where ops see it, placed with the parameter.
  if (isa<dist::ReshardOp>(op) && seenAs.contains(op.getResult(0)))
    return success();
  if (isa<xf::ShardingRuleOpInterface>(op))
    return placeByRule(op);
  return op.emitOpError("has no sharding rule");
}

/// State is read as it is kept between steps; what ops see is pinned.
void Placer::placeParameter(xf::GetOp op) {
  auto state =
      SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(op, op.getStateAttr());
  op.getResult().setType(cast<RankedTensorType>(state.getType()));
  if (state.getRole() != xf::StateRole::Parameter)
    return;

  SmallVector<std::string> names = getDimNames(state);
  Placement parameter =
      plan.getKept(names, state.getTensorType().getShape(), plan.parameterAxes);
  // Cast before moving: fewer bytes.
  Operation *last = op;
  for (Operation *user : op->getUsers())
    if (isa<CastOpInterface>(user))
      last = user;
  Value value = last->getResult(0);
  setPlacement(value, getPlacement(op));

  b.setInsertionPointAfter(last);
  Value stored = value;
  if (getPlacement(value) != parameter) {
    auto type =
        dist::withPlacement(cast<RankedTensorType>(value.getType()),
                            dist::getPlacementAttr(meshName, mesh, parameter));
    stored = dist::ReshardOp::create(b, value.getLoc(), type, value);
    xf::copyProvenance(op, stored.getDefiningOp());
    // The optimizer updates what is kept; everything else reads the copy.
    value.replaceUsesWithIf(stored, [&](OpOperand &use) {
      return use.getOwner() != stored.getDefiningOp() &&
             use.getOwner() != last &&
             !isa<xf::OptimizerOpInterface>(use.getOwner());
    });
  }
  seenAs[stored] = plan.getCompute(names);
}

LogicalResult Placer::placeAccumulate(xf::AccumulateOp op) {
  Block &body = op.getBody().front();
  for (auto [argument, input] :
       llvm::zip(body.getArguments(), op.getInputs())) {
    Placement placement = getPlacement(input);
    placement.dims.erase(placement.dims.begin());
    setPlacement(argument, placement);
  }

  // A yielded gradient is computed under the placement in which ops see its
  // parameter, and kept under the plan's. Its parameter is the one whose update
  // reads the sum.
  auto yield = cast<xf::YieldOp>(body.getTerminator());
  SmallVector<std::pair<xf::StateOp, Value>> gradients;
  llvm::DenseMap<Value, Placement> kept;
  for (auto [value, result] : llvm::zip(yield.getValues(), op.getResults()))
    for (Operation *user : result.getUsers())
      if (auto update = dyn_cast<xf::OptimizerOpInterface>(user)) {
        auto get = update.getParameter().getDefiningOp<xf::GetOp>();
        auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
            op, get.getStateAttr());
        gradients.push_back({state, result});
        SmallVector<std::string> names = getDimNames(state);
        Placement compute = plan.getCompute(names);
        computedAs[value] = compute;
        if (auto sum = value.getDefiningOp<xf::AdditionOpInterface>())
          for (Value part : sum->getOperands())
            computedAs[part] = compute;
        Placement keep = plan.getKept(names, state.getTensorType().getShape(),
                                      plan.gradientAxes);
        if (keep != compute)
          kept[value] = keep;
      }

  if (failed(placeBlock(body)))
    return failure();

  for (OpOperand &operand : yield->getOpOperands()) {
    // A gradient stays partial unless the plan splits it further.
    // It is moved where it is made: so only one is held whole at a time.
    Value value = operand.get();
    auto it = kept.find(value);
    if (it != kept.end()) {
      Operation *made = value.getDefiningOp();
      // Between shard groups it stays partial.
      Placement &keep = it->second;
      dist::OnAttr given = dist::getPlacementAttr(value.getType());
      for (Axis axis : dist::getPlacement(given, mesh).partial)
        if (!keep.isSplitBy(axis))
          keep.partial.push_back(axis);
      operand.set(reshard(value, keep, made->getNextNode()));
      // It is of the gradient, whatever comes after it.
      if (operand.get() != value)
        xf::copyProvenance(made, operand.get().getDefiningOp());
    }
  }
  for (auto [value, result] : llvm::zip(yield.getValues(), op.getResults()))
    result.setType(cast<RankedTensorType>(value.getType()));

  // After the last micro-batch, gradients go where the optimizer's state is.
  b.setInsertionPointAfter(op);
  for (auto [state, result] : gradients) {
    Type type = dist::withPlacement(cast<RankedTensorType>(result.getType()),
                                    dist::getPlacementAttr(state.getType()));
    if (type == result.getType())
      continue;
    auto moved = dist::ReshardOp::create(b, result.getLoc(), type, result);
    xf::setPhase(moved, xf::Phase::Optimizer);
    result.replaceAllUsesExcept(moved.getResult(), moved);
  }
  return success();
}

Value Placer::reshard(Value value, const Placement &placement,
                      Operation *user) {
  auto type =
      dist::withPlacement(cast<RankedTensorType>(value.getType()),
                          dist::getPlacementAttr(meshName, mesh, placement));
  if (type == value.getType())
    return value;
  if (Value whole = getWhole(value, user); whole && !placement.isPartial())
    return reshard(whole, placement, user);
  Value &known = reshards[{value, type}];
  if (known && known.getParentBlock() == user->getBlock())
    return known;
  b.setInsertionPoint(user);
  auto op = dist::ReshardOp::create(b, value.getLoc(), type, value);
  xf::copyProvenance(user, op);
  if (getPlacement(value).isPartial() && !placement.isPartial())
    wholes.try_emplace(value, op);
  return known = op;
}

//===----------------------------------------------------------------------===//
// Ops with a rule
//===----------------------------------------------------------------------===//

/// Where a reduced factor is split, each rank would add the whole of an addend
/// that the rule has, a bias. Takes it out of the op; returns the add of its
/// own that it became, if it did.
Operation *Placer::splitAddend(Operation &op) {
  ShardingRule rule = cast<xf::ShardingRuleOpInterface>(op).getShardingRule();
  if (rule.addends.empty())
    return nullptr;
  bool split = false;
  for (auto [value, tensor] : llvm::zip(op.getOperands(), rule.operands)) {
    auto pin = seenAs.find(value);
    if (pin == seenAs.end())
      continue;
    llvm::Expected<FactorAxes> axes =
        getFactorAxes(mesh, rule, tensor, pin->second);
    if (!axes) {
      llvm::consumeError(axes.takeError());
      continue;
    }
    for (auto [factor, list] : llvm::zip(rule.factors, *axes))
      split |= factor.reduction && !list.empty();
  }
  if (!split)
    return nullptr;
  // The add that takes them can add partial results before it reduces them.
  SmallVector<Value> parts = moveAddends(cast<xf::ShardingRuleOpInterface>(op));
  if (parts.empty())
    return nullptr;
  Value result = op.getResult(0);
  parts.insert(parts.begin(), result);
  b.setInsertionPointAfter(&op);
  auto sum = xf::AddOp::create(b, op.getLoc(), result.getType(), parts);
  xf::copyProvenance(&op, sum);
  result.replaceAllUsesExcept(sum.getResult(), sum);
  return sum;
}

/// An op that lets a partial operand pass gives a partial result, which is
/// reduced in its turn. An operand that another op needed whole is read whole:
/// of a residual stream, only what a layer adds is reduced.
void Placer::readWholes(Operation &op) {
  for (OpOperand &operand : op.getOpOperands())
    if (Value whole = getWhole(operand.get(), &op))
      operand.set(whole);
}

/// In an add of partial and whole operands, those that are partial over the
/// same axes are added first, to be reduced once.
void Placer::groupPartials(xf::AdditionOpInterface op) {
  Value result = op->getResult(0);
  ArrayRef<int64_t> shape = getShape(result);
  llvm::MapVector<Attribute, SmallVector<Value>> groups;
  SmallVector<Value> inputs;
  for (Value value : op->getOperands()) {
    ArrayAttr partial = dist::getPlacementAttr(value.getType()).getPartial();
    if (partial.empty() || getShape(value) != shape)
      inputs.push_back(value);
    else
      groups[partial].push_back(value);
  }
  if (groups.empty() || (groups.size() == 1 && inputs.empty()))
    return;
  // A sum goes first where only it has the result's shape.
  for (auto &[partial, values] : groups) {
    Value part = values[0];
    if (values.size() > 1) {
      b.setInsertionPoint(op);
      auto sum = xf::AddOp::create(b, op.getLoc(), result.getType(), values);
      xf::copyProvenance(op, sum);
      if (failed(placeByRule(*sum)))
        return;
      part = sum;
    }
    bool first = inputs.empty() || getShape(inputs[0]) != shape;
    inputs.insert(first ? inputs.begin() : inputs.end(), part);
  }
  op.getAddendsMutable().assign(inputs);
}

FactorAxes Placer::claimAxes(Operation &op, const ShardingRule &rule) {
  FactorAxes claimed(rule.factors.size());
  llvm::SmallSetVector<Axis, 4> taken;
  auto claim = [&](const TensorFactors &tensor, const Placement &placement,
                   const char *from) {
    llvm::Expected<FactorAxes> axes =
        getFactorAxes(mesh, rule, tensor, placement);
    if (!axes) {
      llvm::consumeError(axes.takeError());
      return;
    }
    for (auto [factor, list] : llvm::enumerate(*axes)) {
      bool free =
          llvm::none_of(list, [&](Axis axis) { return taken.contains(axis); });
      if (list.empty() || !claimed[factor].empty())
        continue;
      bool isBlocked = !rule.factors[factor].blocked.empty();
      LDBG() << op.getName()
             << (free && !isBlocked ? ": splits " : ": does not split ")
             << rule.factors[factor].name << " along "
             << dist::getAxesAttr(b.getContext(), mesh, list) << ", as its "
             << from << " under " << placement.toString(mesh) << " asks"
             << (isBlocked ? "; it has to be whole"
                 : !free   ? "; the axis is taken"
                           : "");
      if (!free || isBlocked)
        continue;
      claimed[factor] = list;
      taken.insert(list.begin(), list.end());
    }
  };
  bool pinned = isa<xf::AccumulateOp>(op.getParentOp());
  auto getPin = [&](Value value) {
    auto it = seenAs.find(value);
    return pinned && it != seenAs.end() ? it->second
                                        : std::optional<Placement>();
  };

  for (auto [i, value] : llvm::enumerate(op.getOperands()))
    if (std::optional<Placement> pin = getPin(value))
      claim(rule.operands[i], *pin, "parameter");
  for (auto [i, value] : llvm::enumerate(op.getResults()))
    if (auto it = computedAs.find(value); it != computedAs.end())
      claim(rule.results[i], it->second, "gradient");
  for (auto [i, value] : llvm::enumerate(op.getOperands()))
    if (!getPin(value))
      claim(rule.operands[i], getPlacement(value), "operand");

  // A partial operand that cannot pass goes to the residual stream's placement.
  FactorAxes known = claimed;
  llvm::SmallVector<Placement> given;
  for (Value value : op.getOperands())
    given.push_back(getPlacement(value));
  llvm::Expected<RulePlacements> inferred =
      inferPlacements(mesh, rule, known, given);
  if (!inferred) {
    llvm::consumeError(inferred.takeError());
    return claimed;
  }
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() < 3 || !given[i].isPartial() ||
        inferred->operands[i].isPartial())
      continue;
    Placement home = Placement::getReplicated(type.getRank());
    home.dims[1] = plan.getAxes("sequence");
    claim(rule.operands[i], home, "residual stream");
  }
  return claimed;
}

LogicalResult Placer::placeByRule(Operation &op) {
  Operation *addition = splitAddend(op);
  readWholes(op);
  if (auto add = dyn_cast<xf::AdditionOpInterface>(op))
    groupPartials(add);

  ShardingRule rule = cast<xf::ShardingRuleOpInterface>(op).getShardingRule();
  FactorAxes axes = claimAxes(op, rule);
  SmallVector<Placement> given;
  for (Value value : op.getOperands())
    given.push_back(getPlacement(value));
  llvm::Expected<RulePlacements> inferred =
      inferPlacements(mesh, rule, axes, given);
  if (!inferred)
    return op.emitOpError(llvm::toString(inferred.takeError()));

  for (auto [operand, placement] :
       llvm::zip(op.getOpOperands(), inferred->operands))
    operand.set(reshard(operand.get(), placement, &op));
  for (auto [result, placement] : llvm::zip(op.getResults(), inferred->results))
    setPlacement(result, placement);
  return addition ? placeByRule(*addition) : success();
}

namespace {
class PlaceTensors : public cleave::impl::PlaceTensorsPassBase<PlaceTensors> {
public:
  using PlaceTensorsPassBase::PlaceTensorsPassBase;

  void runOnOperation() override {
    llvm::Expected<Plan> decided = loadPlanForStep(plan, getOperation());
    if (!decided) {
      getOperation().emitError(llvm::toString(decided.takeError()));
      return signalPassFailure();
    }
    if (failed(Placer(getOperation(), *decided).run()))
      signalPassFailure();
  }
};
} // namespace
