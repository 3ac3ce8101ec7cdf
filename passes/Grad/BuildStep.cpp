//===- BuildStep.cpp - From the forward function to a training step -------===//
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Grad/Optimizers.h"
#include "passes/Grad/Passes.h"
#include "passes/Grad/ReverseMode.h"
#include "llvm/ADT/StringSwitch.h"

namespace cleave {
#define GEN_PASS_DEF_BUILDSTEPPASS
#include "passes/Grad/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
/// A parameter as the step sees it.
struct Parameter {
  xf::StateOp state;
  Value master; ///< what `xf.get` gave
  Value leaf;   ///< what the forward pass computes with
  Value grad;   ///< summed over micro-batches
};

class BuildStep : public cleave::impl::BuildStepPassBase<BuildStep> {
  using BuildStepPassBase::BuildStepPassBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward) {
      getOperation().emitError("expects a function named \"forward\"");
      return signalPassFailure();
    }
    startStep(forward);
    hoistParameters(forward);
    if (failed(buildAccumulate(forward)))
      return signalPassFailure();
    buildUpdate();
    func::ReturnOp::create(*builder, step.getLoc());
    forward.erase();
  }

  void startStep(func::FuncOp forward);
  void hoistParameters(func::FuncOp forward);
  LogicalResult buildAccumulate(func::FuncOp forward);
  void buildUpdate();
  double getHyperparameter(StringRef name);
  void updateParameter(Parameter &parameter, const Optimizer &rule,
                       Value factor, Value rates);
  void output(StringRef name, Value value, FlatSymbolRefAttr state = {}) {
    xf::OutputOp::create(*builder, value.getLoc(), name, value, state,
                         DenseI64ArrayAttr());
  }

  RankedTensorType scalar() {
    return RankedTensorType::get({}, Float32Type::get(&getContext()));
  }
  /// Marks ops from `first` (null: the block's begin) on as part of `phase`.
  void markPhase(Block *block, Operation *after, xf::Phase phase) {
    for (Operation &op : llvm::make_range(
             after ? std::next(after->getIterator()) : block->begin(),
             block->end()))
      xf::setPhase(&op, phase);
  }
  Location at(StringRef name) {
    return NameLoc::get(StringAttr::get(&getContext(), name));
  }

  func::FuncOp step;
  Value scale; ///< d loss / d sum of losses
  Value sum;   ///< of losses
  SmallVector<Parameter> parameters;
  std::optional<OpBuilder> builder;
};
} // namespace

/// Creates `@step` and what the micro-batches share: the number of tokens.
void BuildStep::startStep(func::FuncOp forward) {
  MLIRContext *context = &getContext();
  builder.emplace(context);
  builder->setInsertionPoint(forward);
  SmallVector<Type> inputs;
  for (Type type : forward.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape{microBatches};
    llvm::append_range(shape, tensor.getShape());
    inputs.push_back(tensor.clone(shape));
  }
  step = func::FuncOp::create(*builder, forward.getLoc(), "step",
                              builder->getFunctionType(inputs, {}));
  parameters.clear();
  Block *entry = step.addEntryBlock();
  builder->setInsertionPointToStart(entry);
  Value count = xf::CountTokensOp::create(*builder, at("count_tokens"),
                                          scalar(), entry->getArgument(1));
  output("local_tokens", count);
  scale = xf::ReciprocalOp::create(*builder, at("loss_scale"), scalar(), count);
  markPhase(entry, nullptr, xf::Phase::Forward);
}

/// Moves state reads, and the casts of parameters, out of the micro-batch.
void BuildStep::hoistParameters(func::FuncOp forward) {
  Block *entry = &step.getBody().front();
  for (auto get : llvm::make_early_inc_range(forward.getOps<xf::GetOp>())) {
    get->moveBefore(entry, entry->end());
    xf::setPhase(get, xf::Phase::Forward);
    auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
        getOperation(), get.getStateAttr());
    if (state.getRole() != xf::StateRole::Parameter)
      continue;
    Value leaf = get;
    if (get->hasOneUse())
      if (auto cast = dyn_cast<CastOpInterface>(*get->user_begin())) {
        cast->moveBefore(entry, entry->end());
        xf::setPhase(cast, xf::Phase::Forward);
        leaf = cast->getResult(0);
      }
    parameters.push_back({state, get, leaf, Value()});
  }
}

/// Moves the forward ops into `xf.accumulate`, and appends the backward ones.
LogicalResult BuildStep::buildAccumulate(func::FuncOp forward) {
  Block *body = &forward.getBody().front();
  auto results = cast<func::ReturnOp>(body->getTerminator());
  Value loss = results.getOperand(0);
  results.erase();
  markPhase(body, nullptr, xf::Phase::Forward);
  Operation *lastForward = body->empty() ? nullptr : &body->back();

  OpBuilder inner(body, body->end());
  SmallVector<Value> leaves;
  for (Parameter &parameter : parameters)
    leaves.push_back(parameter.leaf);
  FailureOr<SmallVector<Value>> grads =
      buildReverseMode(inner, *body, leaves, loss, scale);
  if (failed(grads))
    return failure();

  SmallVector<Value> yields{loss};
  for (auto [parameter, grad] : llvm::zip(parameters, *grads)) {
    if (!grad)
      return parameter.state.emitOpError("does not reach the loss");
    yields.push_back(grad);
  }
  xf::YieldOp::create(inner, step.getLoc(), yields);
  markPhase(body, lastForward, xf::Phase::Backward);

  SmallVector<Type> types;
  for (Value value : yields)
    types.push_back(value.getType());
  Block *entry = &step.getBody().front();
  builder->setInsertionPointToEnd(entry);
  auto accumulate = xf::AccumulateOp::create(
      *builder, at("accumulate"), types, microBatches, entry->getArguments());
  accumulate.getBody().takeBody(forward.getBody());
  xf::setPhase(accumulate, xf::Phase::Backward);
  for (auto [parameter, grad] :
       llvm::zip(parameters, accumulate.getResults().drop_front()))
    parameter.grad = grad;
  sum = accumulate.getResult(0);
  return success();
}

void BuildStep::buildUpdate() {
  Block *entry = &step.getBody().front();
  Operation *last = &entry->back();
  OpBuilder &b = *builder;

  auto f64 = [&](double value) { return b.getF64FloatAttr(value); };
  std::optional<xf::ScheduleKind> kind = xf::symbolizeScheduleKind(schedule);
  if (!kind) {
    getOperation().emitError("unknown schedule \"")
        << schedule << "\"; legal are constant, cosine, linear, wsd";
    return signalPassFailure();
  }
  const Optimizer *rule = findOptimizer(optimizer);
  if (!rule) {
    getOperation().emitError("unknown optimizer \"")
        << optimizer << "\"; legal are " << listOptimizers();
    return signalPassFailure();
  }
  if (moments != "f32" && moments != "bf16") {
    getOperation().emitError("unknown type of moments \"")
        << moments << "\"; legal are f32, bf16";
    return signalPassFailure();
  }
  // The bias corrections are of what the optimizer has.
  auto getBeta = [&](StringRef name) {
    return f64(rule->getStandard(name) ? getHyperparameter(name) : 0);
  };
  // Ahead of the norm: what computes that, clips and judges is one kernel, if
  // nothing stands in between.
  Value rates = xf::ScheduleOp::create(
      b, at("schedule"),
      RankedTensorType::get({xf::ScheduleOp::size}, b.getF32Type()),
      xf::ScheduleKindAttr::get(b.getContext(), *kind), f64(lr), f64(minLr),
      b.getI64IntegerAttr(warmupSteps), b.getI64IntegerAttr(decaySteps),
      b.getI64IntegerAttr(stableSteps), getBeta("beta1"), getBeta("beta2"));
  output("schedule", rates);

  // The mean loss, and the part of its sum that this rank has seen.
  output("local_loss_sum", sum);
  Value loss = xf::MulOp::create(b, at("loss"), scalar(), sum, scale);
  output("loss", loss);

  SmallVector<Value> squares;
  for (Parameter &parameter : parameters) {
    if (gradients)
      output("grad." + parameter.state.getSymName().str(), parameter.grad,
             FlatSymbolRefAttr::get(parameter.state.getSymNameAttr()));
    squares.push_back(
        xf::SquareSumOp::create(b, at("grad_norm"), scalar(), parameter.grad));
  }
  Value total = xf::AddOp::create(b, at("grad_norm"), scalar(), squares);
  auto clipping =
      xf::ClipFactorOp::create(b, at("clip"), TypeRange{scalar(), scalar()},
                               total, b.getF64FloatAttr(clip));
  output("grad_norm", clipping.getNorm());

  Value factor =
      xf::GuardOp::create(b, at("guard"), scalar(), clipping.getFactor(), loss,
                          clipping.getNorm(), rates);
  output("update_factor", factor);
  for (Parameter &parameter : parameters)
    updateParameter(parameter, rule->getFor(parameter.state), factor, rates);
  markPhase(entry, last, xf::Phase::Optimizer);
}

double BuildStep::getHyperparameter(StringRef name) {
  return llvm::StringSwitch<double>(name)
      .Case("beta1", beta1)
      .Case("beta2", beta2)
      .Case("eps", eps)
      .Case("momentum", momentum);
}

/// Declares the optimizer's states of the parameter, and sets them and the
/// parameter to what the optimizer makes of them.
void BuildStep::updateParameter(Parameter &parameter, const Optimizer &rule,
                                Value factor, Value rates) {
  OpBuilder &b = *builder;
  xf::StateOp state = parameter.state;
  Location loc = at((rule.name + " " + state.getSymName()).str());
  RankedTensorType type = state.getTensorType();
  RankedTensorType momentType =
      moments == "bf16" ? type.clone(b.getBF16Type()) : type;

  SmallVector<FlatSymbolRefAttr> names{
      FlatSymbolRefAttr::get(state.getSymNameAttr())};
  SmallVector<Value> olds{parameter.master};
  for (const OptimizerState &each : rule.states) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(step);
    std::string name = (state.getSymName() + each.suffix).str();
    auto init =
        xf::InitAttr::get(b.getContext(), each.init, b.getF64FloatAttr(0), {});
    xf::StateOp::create(b, loc, b.getStringAttr(name),
                        xf::StateRoleAttr::get(b.getContext(), each.role),
                        TypeAttr::get(momentType), init, state.getLogicalAttr(),
                        state.getDimsAttr(), xf::PieceAttr(), UnitAttr(),
                        IntegerAttr(), ArrayAttr(), FlatSymbolRefAttr());
    names.push_back(FlatSymbolRefAttr::get(b.getContext(), name));
  }
  for (FlatSymbolRefAttr name : ArrayRef(names).drop_front())
    olds.push_back(xf::GetOp::create(b, loc, momentType, name));

  OperationState update(loc, ("xf." + rule.name).str());
  update.addOperands(olds);
  update.addOperands({parameter.grad, factor, rates});
  if (rule.buildDirection)
    update.addOperands(rule.buildDirection(
        b, loc, {state, olds, parameter.grad, factor, [&](StringRef name) {
                   return getHyperparameter(name);
                 }}));
  update.addTypes(ValueRange(olds).getTypes());
  for (const Hyperparameter &each : rule.hyperparameters)
    update.addAttribute(each.name,
                        b.getF64FloatAttr(getHyperparameter(each.name)));
  update.addAttribute(
      "decay", b.getF64FloatAttr(state.getDecay() ? double(weightDecay) : 0));
  for (auto [name, value] : llvm::zip(names, b.create(update)->getResults()))
    xf::SetOp::create(b, loc, name, value);
}
