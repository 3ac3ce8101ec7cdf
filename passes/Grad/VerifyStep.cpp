//===- VerifyStep.cpp - The contract of a training step -------------------===//
//
// What the types of a step cannot say:
//  1. Each parameter and moment is set once, outside of the micro-batches, and
//     a constant never; what an optimizer updated is set where it was got.
//  2. An op of the backward pass has the attributes of the forward op that it
//     is a gradient of.
//  3. A cross-entropy counts the columns that its head has without padding.
//
// The forward op of a gradient is found by what both read. Where the gradient
// reads something that the forward pass saved (the log-sum-exp of attention,
// the rstd of a norm), it is the op that made it. Else it is one of the forward
// ops on the same operands; each is the origin of one gradient at most. Values
// count as the same where they differ by moves between ranks.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Grad/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

namespace cleave {
#define GEN_PASS_DEF_VERIFYSTEPPASS
#include "passes/Grad/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// The value that `value` is, before it was moved between ranks.
static Value getUnmoved(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<dist::ReshardOp, dist::CollectiveOpInterface>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The op of a kind that made `value`; null if another did.
template <typename Op>
static Op getMaker(Value value) {
  return getUnmoved(value).getDefiningOp<Op>();
}

static bool isSame(Value a, Value b) { return getUnmoved(a) == getUnmoved(b); }

static double toNumber(int64_t value) { return double(value); }
static double toNumber(const APFloat &value) { return value.convertToDouble(); }

namespace {
/// What a gradient and the op that it is of have in common: the kind of the
/// forward op, the values that both read, and attributes as numbers.
using Signature =
    std::tuple<StringRef, std::vector<const void *>, std::vector<double>>;

class StepVerifier {
public:
  StepVerifier(ModuleOp module, func::FuncOp step)
      : module(module), step(step) {}

  LogicalResult verify() {
    if (failed(verifySets()))
      return failure();
    step.walk([&](Operation *op) { addForward(op); });
    WalkResult walk = step.walk([&](Operation *op) {
      return failed(verifyGradient(op)) || failed(verifyLoss(op))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
  }

private:
  LogicalResult verifySets();
  static LogicalResult verifyUpdate(xf::SetOp set);
  void addForward(Operation *op);
  LogicalResult verifyGradient(Operation *op);
  LogicalResult verifyLoss(Operation *op);
  LogicalResult verifyVocab(Operation *op, Value logits, int64_t vocab);
  LogicalResult verifyParts(xf::CrossEntropyGradOp grad, xf::TokenLossOp loss);

  static bool isBackward(Operation *op) {
    auto phase = op->getAttrOfType<StringAttr>("phase");
    return phase && phase.getValue() == "backward";
  }
  static Signature sign(StringRef kind, ArrayRef<Value> values,
                        ArrayRef<double> attributes) {
    std::vector<const void *> ids;
    for (Value value : values)
      ids.push_back(getUnmoved(value).getAsOpaquePointer());
    return {kind, ids, {attributes.begin(), attributes.end()}};
  }
  /// Takes a forward op of this signature as the origin of `op`; `what` says in
  /// words what it is.
  LogicalResult expectForward(Operation *op, const Signature &signature,
                              const Twine &what) {
    int &left = forward[signature];
    if (left-- > 0)
      return success();
    return op->emitOpError("expects a forward op that it is the gradient of: ")
           << std::get<0>(signature) << " " << what;
  }
  /// The attribute `name` of a gradient is that of the forward op.
  template <typename T>
  static LogicalResult expectEqual(Operation *op, Operation *origin,
                                   StringRef name, const T &got,
                                   const T &want) {
    if (got == want)
      return success();
    InFlightDiagnostic error = op->emitOpError("expects ")
                               << name << " " << toNumber(want)
                               << " of the forward op, got " << toNumber(got);
    error.attachNote(origin->getLoc()) << "the forward op";
    return error;
  }
  static LogicalResult expectSame(Operation *op, Operation *origin,
                                  StringRef name, Value got, Value want) {
    if (isSame(got, want))
      return success();
    InFlightDiagnostic error = op->emitOpError("expects the ")
                               << name << " of the forward op";
    error.attachNote(origin->getLoc()) << "the forward op";
    return error;
  }
  static LogicalResult expectSaved(Operation *op, StringRef what,
                                   StringRef kind) {
    return op->emitOpError("expects the ") << what << " of an " << kind;
  }

  ModuleOp module;
  func::FuncOp step;
  std::map<Signature, int> forward; ///< not yet the origin of a gradient
};
} // namespace

/// Each parameter and moment is set once, and a constant never.
LogicalResult StepVerifier::verifySets() {
  llvm::MapVector<StringAttr, SmallVector<xf::SetOp>> sets;
  WalkResult walk = step.walk([&](xf::SetOp set) {
    if (set->getParentOp() != step) {
      set.emitOpError("expects to stand in the step itself: state is set once");
      return WalkResult::interrupt();
    }
    sets[set.getStateAttr().getAttr()].push_back(set);
    return failed(verifyUpdate(set)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  for (auto state : module.getOps<xf::StateOp>()) {
    ArrayRef<xf::SetOp> found = sets[state.getSymNameAttr()];
    size_t expected = state.getRole() == xf::StateRole::Constant ? 0 : 1;
    if (found.size() == expected)
      continue;
    InFlightDiagnostic error = state.emitOpError("expects a step to set it ")
                               << (expected ? "once" : "never") << ", got "
                               << found.size() << " times";
    for (xf::SetOp set : found)
      error.attachNote(set.getLoc()) << "set here";
    return error;
  }
  return success();
}

/// The new value that an optimizer made is of the state that is set.
LogicalResult StepVerifier::verifyUpdate(xf::SetOp set) {
  auto value = dyn_cast<OpResult>(getUnmoved(set.getValue()));
  auto update =
      value ? dyn_cast<xf::OptimizerOpInterface>(value.getOwner()) : nullptr;
  if (!update)
    return success();
  auto get = getMaker<xf::GetOp>(update.getOldValue(value).get());
  if (get && get.getStateAttr() == set.getStateAttr())
    return success();
  InFlightDiagnostic error = set.emitOpError("expects the new value of ")
                             << set.getStateAttr() << ", got that of ";
  if (get)
    error << get.getStateAttr();
  else
    error << "no state";
  error.attachNote(update->getLoc()) << "updated here";
  return error;
}

/// Notes an op of the forward pass by what its gradients will know of it.
void StepVerifier::addForward(Operation *op) {
  if (isBackward(op))
    return;
  if (auto linear = dyn_cast<xf::LinearOp>(op)) {
    double leading = linear.getNumLeading(), outs = linear.getNumOuts();
    double first = linear.getInputsFirst(), last = 1 - first;
    ++forward[sign("xf.linear", linear.getWeight(), {outs, last})];
    ++forward[sign("xf.linear", linear.getX(), {leading, first})];
  } else if (auto rope = dyn_cast<xf::RopeOp>(op)) {
    ++forward[sign("xf.rope", {rope.getCos(), rope.getSin()},
                   {double(!rope.getInverse())})];
  } else if (auto activation = dyn_cast<xf::ActivationOp>(op)) {
    ++forward[sign("xf.activation", activation.getX(),
                   {double(activation.getKind())})];
  } else if (auto glu = dyn_cast<xf::GluOp>(op)) {
    ++forward[sign("xf.glu", {glu.getGate(), glu.getUp()},
                   {double(glu.getKind())})];
  } else if (auto scale = dyn_cast<xf::ScaleOp>(op)) {
    ++forward[sign("xf.scale", {}, {toNumber(scale.getFactor())})];
  } else if (auto slice = dyn_cast<xf::SliceRowsOp>(op)) {
    ++forward[sign("xf.slice_rows", {},
                   {double(slice.getStart()),
                    double(slice.getX().getType().getDimSize(0)),
                    double(slice.getType().getDimSize(0))})];
  } else if (auto embedding = dyn_cast<xf::EmbeddingOp>(op)) {
    // No id is -1.
    ++forward[sign("xf.embedding", embedding.getIds(),
                   {double(int64_t(embedding.getPadding().value_or(-1)))})];
  }
}

LogicalResult StepVerifier::verifyGradient(Operation *op) {
  if (auto grad = dyn_cast<xf::AttentionGradOp>(op)) {
    auto origin = getMaker<xf::AttentionOp>(grad.getLse());
    if (!origin)
      return expectSaved(op, "log-sum-exp", "xf.attention");
    if (failed(expectSame(op, origin, "q", grad.getQ(), origin.getQ())) ||
        failed(expectSame(op, origin, "k", grad.getK(), origin.getK())) ||
        failed(expectSame(op, origin, "v", grad.getV(), origin.getV())) ||
        failed(expectSame(op, origin, "result", grad.getOut(),
                          origin.getResult())) ||
        failed(expectEqual(op, origin, "scale", grad.getScale(),
                           origin.getScale())) ||
        failed(expectEqual(op, origin, "window", int64_t(grad.getWindow()),
                           int64_t(origin.getWindow()))))
      return failure();
    return expectEqual(op, origin, "softcap", grad.getSoftcap(),
                       origin.getSoftcap());
  }
  if (auto grad = dyn_cast<xf::RMSNormGradOp>(op)) {
    auto origin = getMaker<xf::RMSNormOp>(grad.getRstd());
    if (!origin)
      return expectSaved(op, "rstd", "xf.rms_norm");
    if (failed(expectSame(op, origin, "x", grad.getX(), origin.getX())) ||
        failed(expectSame(op, origin, "weight", grad.getWeight(),
                          origin.getWeight())))
      return failure();
    return expectEqual(op, origin, "offset", grad.getOffset(),
                       origin.getOffset());
  }
  if (auto grad = dyn_cast<xf::LayerNormGradOp>(op)) {
    auto origin = getMaker<xf::LayerNormOp>(grad.getRstd());
    if (!origin)
      return expectSaved(op, "rstd", "xf.layer_norm");
    if (failed(expectSame(op, origin, "x", grad.getX(), origin.getX())) ||
        failed(expectSame(op, origin, "weight", grad.getWeight(),
                          origin.getWeight())))
      return failure();
    return expectSame(op, origin, "mean", grad.getMean(), origin.getMean());
  }
  if (auto grad = dyn_cast<xf::NormWeightGradOp>(op)) {
    if (auto origin = getMaker<xf::RMSNormOp>(grad.getRstd())) {
      if (grad.getMean())
        return op->emitOpError("expects no mean: xf.rms_norm has none");
      return expectSame(op, origin, "x", grad.getX(), origin.getX());
    }
    auto origin = getMaker<xf::LayerNormOp>(grad.getRstd());
    if (!origin)
      return expectSaved(op, "rstd", "xf.rms_norm or xf.layer_norm");
    if (!grad.getMean())
      return op->emitOpError("expects the mean of the forward op");
    if (failed(expectSame(op, origin, "x", grad.getX(), origin.getX())))
      return failure();
    return expectSame(op, origin, "mean", grad.getMean(), origin.getMean());
  }
  if (auto grad = dyn_cast<xf::LinearWeightGradOp>(op))
    return expectForward(
        op,
        sign("xf.linear", grad.getX(),
             {double(grad.getLeading()), double(grad.getInputsFirst())}),
        Twine("of the same x, with ") + Twine(grad.getLeading()) +
            " dims that are not contracted and " +
            (grad.getInputsFirst() ? "inputs" : "outputs") +
            " first in the weight");
  if (auto grad = dyn_cast<xf::ActivationGradOp>(op))
    return expectForward(
        op, sign("xf.activation", grad.getX(), {double(grad.getKind())}),
        "of the same x, with kind " +
            xf::stringifyActivationKind(grad.getKind()));
  if (auto grad = dyn_cast<xf::GluGradOp>(op))
    return expectForward(op,
                         sign("xf.glu", {grad.getGate(), grad.getUp()},
                              {double(grad.getKind())}),
                         "of the same gate and up, with kind " +
                             xf::stringifyActivationKind(grad.getKind()));
  if (auto grad = dyn_cast<xf::PadRowsOp>(op))
    return expectForward(
        op,
        sign("xf.slice_rows", {},
             {double(grad.getStart()), double(grad.getType().getDimSize(0)),
              double(grad.getX().getType().getDimSize(0))}),
        "of the same rows, from " + Twine(grad.getStart()) + " on");
  if (auto grad = dyn_cast<xf::EmbeddingGradOp>(op)) {
    int64_t padding = -1;
    auto mask = getMaker<xf::MaskRowsOp>(grad.getDy());
    if (mask && isSame(mask.getIds(), grad.getIds()))
      padding = mask.getId();
    return expectForward(
        op, sign("xf.embedding", grad.getIds(), {double(padding)}),
        "of the same ids, with " +
            (padding < 0 ? Twine("no padding")
                         : Twine("the padding ") + Twine(padding)));
  }
  if (!isBackward(op))
    return success();
  // Ops that serve in both passes.
  if (auto grad = dyn_cast<xf::LinearOp>(op))
    return expectForward(
        op,
        sign("xf.linear", grad.getWeight(),
             {double(grad.getContract()), double(grad.getInputsFirst())}),
        Twine("of the same weight, with ") + Twine(grad.getContract()) +
            " output dims and " +
            (grad.getInputsFirst() ? "outputs" : "inputs") +
            " first in the weight");
  if (auto grad = dyn_cast<xf::RopeOp>(op))
    return expectForward(op,
                         sign("xf.rope", {grad.getCos(), grad.getSin()},
                              {double(grad.getInverse())}),
                         Twine("of the same tables, ") +
                             (grad.getInverse() ? "not inverse" : "inverse"));
  if (auto grad = dyn_cast<xf::ScaleOp>(op))
    return expectForward(
        op, sign("xf.scale", {}, {toNumber(grad.getFactor())}),
        llvm::formatv("by {0}", toNumber(grad.getFactor())).str());
  return success();
}

/// The parameter that a linear multiplies with; null if it is no state's value.
static xf::StateOp findState(Value weight) {
  weight = getUnmoved(weight);
  if (auto cast = weight.getDefiningOp<CastOpInterface>())
    weight = getUnmoved(cast->getOperand(0));
  auto get = weight.getDefiningOp<xf::GetOp>();
  return get ? SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
                   get, get.getStateAttr())
             : xf::StateOp();
}

/// The columns of logits that count are those that their head has without
/// padding.
LogicalResult StepVerifier::verifyVocab(Operation *op, Value logits,
                                        int64_t vocab) {
  Value x = getUnmoved(logits);
  while (Operation *maker = x.getDefiningOp()) {
    if (!isa<xf::ScaleOp, CastOpInterface>(maker))
      break;
    x = getUnmoved(maker->getOperand(0));
  }
  auto head = x.getDefiningOp<xf::LinearOp>();
  xf::StateOp state = head ? findState(head.getWeight()) : xf::StateOp();
  if (!state)
    return success();
  ArrayRef<int64_t> rows = state.getLogicalShape();
  ArrayRef<int64_t> outs = head.getInputsFirst()
                               ? rows.drop_front(head.getContract())
                               : rows.drop_back(head.getContract());
  if (outs.empty() || outs.back() == vocab)
    return success();
  InFlightDiagnostic error =
      op->emitOpError("expects vocab ")
      << outs.back() << ", the rows of its head without padding, got " << vocab;
  error.attachNote(state.getLoc()) << "the head's weight";
  return error;
}

/// A cross-entropy that was taken apart: all parts count the same columns of
/// the same logits.
LogicalResult StepVerifier::verifyParts(xf::CrossEntropyGradOp grad,
                                        xf::TokenLossOp loss) {
  auto max = getMaker<xf::RowMaxOp>(loss.getMax());
  auto sum = getMaker<xf::SumExpOp>(loss.getSumExp());
  auto pick = getMaker<xf::PickOp>(loss.getPicked());
  if (!max || !sum || !pick)
    return loss.emitOpError("expects the results of xf.row_max, xf.sum_exp and "
                            "xf.pick");
  for (auto [part, x] : {std::pair<Operation *, Value>(max, max.getX()),
                         {sum, sum.getX()},
                         {pick, pick.getX()}})
    if (failed(expectSame(grad, part, "logits", grad.getLogits(), x)))
      return failure();
  for (auto [part, vocab] :
       {std::pair<Operation *, int64_t>(max, max.getVocab()),
        {sum, sum.getVocab()}})
    if (failed(
            expectEqual<int64_t>(grad, part, "vocab", grad.getVocab(), vocab)))
      return failure();
  if (failed(expectSame(sum, max, "maximum", sum.getMax(), max.getResult())) ||
      failed(expectSame(grad, pick, "targets", grad.getTargets(),
                        pick.getTargets())))
    return failure();
  return expectSame(grad, loss, "targets", grad.getTargets(),
                    loss.getTargets());
}

LogicalResult StepVerifier::verifyLoss(Operation *op) {
  if (auto loss = dyn_cast<xf::CrossEntropyOp>(op))
    return verifyVocab(op, loss.getLogits(), loss.getVocab());
  if (auto max = dyn_cast<xf::RowMaxOp>(op))
    return verifyVocab(op, max.getX(), max.getVocab());
  if (auto sum = dyn_cast<xf::SumExpOp>(op))
    return verifyVocab(op, sum.getX(), sum.getVocab());
  auto grad = dyn_cast<xf::CrossEntropyGradOp>(op);
  if (!grad)
    return success();
  if (failed(verifyVocab(op, grad.getLogits(), grad.getVocab())))
    return failure();
  if (auto loss = getMaker<xf::TokenLossOp>(grad.getLse()))
    return verifyParts(grad, loss);
  auto origin = getMaker<xf::CrossEntropyOp>(grad.getLse());
  if (!origin)
    return expectSaved(op, "log-sum-exp", "xf.cross_entropy");
  if (failed(expectSame(op, origin, "logits", grad.getLogits(),
                        origin.getLogits())) ||
      failed(expectSame(op, origin, "targets", grad.getTargets(),
                        origin.getTargets())))
    return failure();
  return expectEqual<int64_t>(op, origin, "vocab", grad.getVocab(),
                              origin.getVocab());
}

namespace {
class VerifyStep : public cleave::impl::VerifyStepPassBase<VerifyStep> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step || step.isExternal()) {
      getOperation().emitError("expects a function named \"step\"");
      return signalPassFailure();
    }
    if (failed(StepVerifier(getOperation(), step).verify()))
      signalPassFailure();
  }
};
} // namespace
