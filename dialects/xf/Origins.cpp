//===- Origins.cpp - What holds of each op in a training step -------------===//
//
// An op of the backward pass has the attributes of the forward op that it is a
// gradient of, and reads what that one saved; a cross-entropy counts the
// columns that its head has without padding.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/Origins.h"
#include "dialects/dist/Dist.h"
#include "dialects/xf/Provenance.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

bool xf::isRecomputed(Operation *op) {
  ProvenanceAttr provenance = getProvenance(op);
  return provenance && provenance.getRecomputed();
}

Value xf::getUnmoved(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<dist::ReshardOp, dist::CollectiveOpInterface>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static double toNumber(int64_t value) { return double(value); }
static double toNumber(const APFloat &value) { return value.convertToDouble(); }

bool xf::isBackward(Operation *op) {
  ProvenanceAttr provenance = getProvenance(op);
  return provenance && provenance.getPhase() == Phase::Backward &&
         !provenance.getRecomputed();
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// The attributes of an op, but for what it is part of.
static DictionaryAttr getOwnAttributes(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.erase(provenanceName);
  return attributes.getDictionary(op->getContext());
}

Origins::Structure Origins::describe(Operation *op) {
  std::vector<const void *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(getOriginal(operand).getAsOpaquePointer());
  return {op->getName().getAsOpaquePointer(),
          getOwnAttributes(op).getAsOpaquePointer(), std::move(operands)};
}

void Origins::note(Operation *op) {
  ProvenanceAttr provenance = getProvenance(op);
  if (op->getNumResults() == 0 || !provenance)
    return;
  if (!provenance.getRecomputed()) {
    if (provenance.getPhase() == Phase::Forward)
      structures.try_emplace(describe(op), op);
    return;
  }
  auto it = structures.find(describe(op));
  if (it != structures.end())
    originals[op] = it->second;
}

Value Origins::getOriginal(Value value) const {
  value = getUnmoved(value);
  auto result = dyn_cast<OpResult>(value);
  Operation *original = result ? originals.lookup(result.getOwner()) : nullptr;
  return original ? original->getResult(result.getResultNumber()) : value;
}

LogicalResult Origins::expectSame(Operation *op, Operation *origin,
                                  StringRef name, Value got, Value want) const {
  if (isSame(got, want))
    return success();
  InFlightDiagnostic error = op->emitOpError("expects the ")
                             << name << " of the forward op";
  error.attachNote(origin->getLoc()) << "the forward op";
  return error;
}

//===----------------------------------------------------------------------===//
// Forward ops
//===----------------------------------------------------------------------===//

Origins::Signature Origins::sign(StringRef kind, ArrayRef<Value> values,
                                 ArrayRef<double> attributes) const {
  std::vector<const void *> ids;
  for (Value value : values)
    ids.push_back(getOriginal(value).getAsOpaquePointer());
  return {kind, ids, {attributes.begin(), attributes.end()}};
}

LogicalResult Origins::take(Operation *op, StringRef kind,
                            ArrayRef<Value> values, ArrayRef<double> attributes,
                            const Twine &what) {
  int &left = forward[sign(kind, values, attributes)];
  if (left-- > 0)
    return success();
  return op->emitOpError("expects a forward op that it is the gradient of: ")
         << kind << " " << what;
}

/// The attribute `name` of a gradient is that of the forward op.
template <typename T>
static LogicalResult expectEqual(Operation *op, Operation *origin,
                                 StringRef name, const T &got, const T &want) {
  if (got == want)
    return success();
  InFlightDiagnostic error = op->emitOpError("expects ")
                             << name << " " << toNumber(want)
                             << " of the forward op, got " << toNumber(got);
  error.attachNote(origin->getLoc()) << "the forward op";
  return error;
}

static LogicalResult expectSaved(Operation *op, StringRef what,
                                 StringRef kind) {
  return op->emitOpError("expects the ") << what << " of an " << kind;
}

//===----------------------------------------------------------------------===//
// What gradients will know of a forward op
//===----------------------------------------------------------------------===//

void LinearOp::noteForward(Origins &origins) {
  double leading = getNumLeading(), outs = getNumOuts();
  double first = getInputsFirst(), last = 1 - first;
  origins.add("xf.linear", getWeight(), {outs, last});
  origins.add("xf.linear", getX(), {leading, first});
}

void RopeOp::noteForward(Origins &origins) {
  origins.add("xf.rope", {getCos(), getSin()}, {double(!getInverse())});
}

void ActivationOp::noteForward(Origins &origins) {
  origins.add("xf.activation", getX(), {double(getKind())});
}

void GluOp::noteForward(Origins &origins) {
  origins.add("xf.glu", {getGate(), getUp()}, {double(getKind())});
}

void ScaleOp::noteForward(Origins &origins) {
  origins.add("xf.scale", {}, {toNumber(getFactor())});
}

void SliceRowsOp::noteForward(Origins &origins) {
  origins.add("xf.slice_rows", {},
              {double(getStart()), double(getX().getType().getDimSize(0)),
               double(getType().getDimSize(0))});
}

void EmbeddingOp::noteForward(Origins &origins) {
  // No id is -1.
  origins.add("xf.embedding", getIds(),
              {double(int64_t(getPadding().value_or(-1)))});
}

//===----------------------------------------------------------------------===//
// What a gradient knows of its forward op
//===----------------------------------------------------------------------===//

LogicalResult AttentionGradOp::verifyInStep(Origins &origins) {
  auto origin = getMaker<AttentionOp>(getLse());
  if (!origin)
    return expectSaved(*this, "log-sum-exp", "xf.attention");
  if (failed(origins.expectSame(*this, origin, "q", getQ(), origin.getQ())) ||
      failed(origins.expectSame(*this, origin, "k", getK(), origin.getK())) ||
      failed(origins.expectSame(*this, origin, "v", getV(), origin.getV())) ||
      failed(origins.expectSame(*this, origin, "result", getOut(),
                                origin.getResult())) ||
      failed(
          expectEqual(*this, origin, "scale", getScale(), origin.getScale())) ||
      failed(expectEqual(*this, origin, "window", int64_t(getWindow()),
                         int64_t(origin.getWindow()))))
    return failure();
  return expectEqual(*this, origin, "softcap", getSoftcap(),
                     origin.getSoftcap());
}

LogicalResult RMSNormGradOp::verifyInStep(Origins &origins) {
  auto origin = getMaker<RMSNormOp>(getRstd());
  if (!origin)
    return expectSaved(*this, "rstd", "xf.rms_norm");
  if (failed(origins.expectSame(*this, origin, "x", getX(), origin.getX())) ||
      failed(origins.expectSame(*this, origin, "weight", getWeight(),
                                origin.getWeight())))
    return failure();
  return expectEqual(*this, origin, "offset", getOffset(), origin.getOffset());
}

LogicalResult LayerNormGradOp::verifyInStep(Origins &origins) {
  auto origin = getMaker<LayerNormOp>(getRstd());
  if (!origin)
    return expectSaved(*this, "rstd", "xf.layer_norm");
  if (failed(origins.expectSame(*this, origin, "x", getX(), origin.getX())) ||
      failed(origins.expectSame(*this, origin, "weight", getWeight(),
                                origin.getWeight())))
    return failure();
  return origins.expectSame(*this, origin, "mean", getMean(), origin.getMean());
}

LogicalResult NormWeightGradOp::verifyInStep(Origins &origins) {
  if (auto origin = getMaker<RMSNormOp>(getRstd())) {
    if (getMean())
      return emitOpError("expects no mean: xf.rms_norm has none");
    return origins.expectSame(*this, origin, "x", getX(), origin.getX());
  }
  auto origin = getMaker<LayerNormOp>(getRstd());
  if (!origin)
    return expectSaved(*this, "rstd", "xf.rms_norm or xf.layer_norm");
  if (!getMean())
    return emitOpError("expects the mean of the forward op");
  if (failed(origins.expectSame(*this, origin, "x", getX(), origin.getX())))
    return failure();
  return origins.expectSame(*this, origin, "mean", getMean(), origin.getMean());
}

LogicalResult LinearWeightGradOp::verifyInStep(Origins &origins) {
  return origins.take(*this, "xf.linear", getX(),
                      {double(getLeading()), double(getInputsFirst())},
                      Twine("of the same x, with ") + Twine(getLeading()) +
                          " dims that are not contracted and " +
                          (getInputsFirst() ? "inputs" : "outputs") +
                          " first in the weight");
}

LogicalResult ActivationGradOp::verifyInStep(Origins &origins) {
  return origins.take(*this, "xf.activation", getX(), {double(getKind())},
                      "of the same x, with kind " +
                          stringifyActivationKind(getKind()));
}

LogicalResult GluGradOp::verifyInStep(Origins &origins) {
  return origins.take(*this, "xf.glu", {getGate(), getUp()},
                      {double(getKind())},
                      "of the same gate and up, with kind " +
                          stringifyActivationKind(getKind()));
}

LogicalResult PadRowsOp::verifyInStep(Origins &origins) {
  return origins.take(*this, "xf.slice_rows", {},
                      {double(getStart()), double(getType().getDimSize(0)),
                       double(getX().getType().getDimSize(0))},
                      "of the same rows, from " + Twine(getStart()) + " on");
}

LogicalResult EmbeddingGradOp::verifyInStep(Origins &origins) {
  int64_t padding = -1;
  auto mask = getMaker<MaskRowsOp>(getDy());
  if (mask && origins.isSame(mask.getIds(), getIds()))
    padding = mask.getId();
  return origins.take(*this, "xf.embedding", getIds(), {double(padding)},
                      "of the same ids, with " +
                          (padding < 0
                               ? Twine("no padding")
                               : Twine("the padding ") + Twine(padding)));
}

LogicalResult LinearOp::verifyInStep(Origins &origins) {
  // It serves in both passes.
  if (!isBackward(*this))
    return success();
  return origins.take(*this, "xf.linear", getWeight(),
                      {double(getContract()), double(getInputsFirst())},
                      Twine("of the same weight, with ") +
                          Twine(getContract()) + " output dims and " +
                          (getInputsFirst() ? "outputs" : "inputs") +
                          " first in the weight");
}

LogicalResult RopeOp::verifyInStep(Origins &origins) {
  if (!isBackward(*this))
    return success();
  return origins.take(*this, "xf.rope", {getCos(), getSin()},
                      {double(getInverse())},
                      Twine("of the same tables, ") +
                          (getInverse() ? "not inverse" : "inverse"));
}

LogicalResult ScaleOp::verifyInStep(Origins &origins) {
  if (!isBackward(*this))
    return success();
  return origins.take(*this, "xf.scale", {}, {toNumber(getFactor())},
                      llvm::formatv("by {0}", toNumber(getFactor())).str());
}

//===----------------------------------------------------------------------===//
// The loss
//===----------------------------------------------------------------------===//

/// The parameter that a linear multiplies with; null if it is no state's value.
static StateOp findState(Value weight) {
  weight = getUnmoved(weight);
  if (auto cast = weight.getDefiningOp<CastOpInterface>())
    weight = getUnmoved(cast->getOperand(0));
  auto get = weight.getDefiningOp<GetOp>();
  return get ? SymbolTable::lookupNearestSymbolFrom<StateOp>(get,
                                                             get.getStateAttr())
             : StateOp();
}

/// The columns of logits that count are those that their head has without
/// padding.
static LogicalResult verifyVocab(Operation *op, Value logits, int64_t vocab) {
  Value x = getUnmoved(logits);
  while (Operation *maker = x.getDefiningOp()) {
    if (!isa<ScaleOp, CastOpInterface>(maker))
      break;
    x = getUnmoved(maker->getOperand(0));
  }
  auto head = x.getDefiningOp<LinearOp>();
  StateOp state = head ? findState(head.getWeight()) : StateOp();
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
static LogicalResult verifyParts(CrossEntropyGradOp grad, TokenLossOp loss,
                                 Origins &origins) {
  auto max = getMaker<RowMaxOp>(loss.getMax());
  auto sum = getMaker<SumExpOp>(loss.getSumExp());
  auto pick = getMaker<PickOp>(loss.getPicked());
  if (!max || !sum || !pick)
    return loss.emitOpError("expects the results of xf.row_max, xf.sum_exp and "
                            "xf.pick");
  for (auto [part, x] : {std::pair<Operation *, Value>(max, max.getX()),
                         {sum, sum.getX()},
                         {pick, pick.getX()}})
    if (failed(origins.expectSame(grad, part, "logits", grad.getLogits(), x)))
      return failure();
  for (auto [part, vocab] :
       {std::pair<Operation *, int64_t>(max, max.getVocab()),
        {sum, sum.getVocab()}})
    if (failed(
            expectEqual<int64_t>(grad, part, "vocab", grad.getVocab(), vocab)))
      return failure();
  if (failed(origins.expectSame(sum, max, "maximum", sum.getMax(),
                                max.getResult())) ||
      failed(origins.expectSame(grad, pick, "targets", grad.getTargets(),
                                pick.getTargets())))
    return failure();
  return origins.expectSame(grad, loss, "targets", grad.getTargets(),
                            loss.getTargets());
}

LogicalResult CrossEntropyOp::verifyInStep(Origins &) {
  return verifyVocab(*this, getLogits(), getVocab());
}

LogicalResult RowMaxOp::verifyInStep(Origins &) {
  return verifyVocab(*this, getX(), getVocab());
}

LogicalResult SumExpOp::verifyInStep(Origins &) {
  return verifyVocab(*this, getX(), getVocab());
}

LogicalResult CrossEntropyGradOp::verifyInStep(Origins &origins) {
  if (failed(verifyVocab(*this, getLogits(), getVocab())))
    return failure();
  if (auto loss = getMaker<TokenLossOp>(getLse()))
    return verifyParts(*this, loss, origins);
  auto origin = getMaker<CrossEntropyOp>(getLse());
  if (!origin)
    return expectSaved(*this, "log-sum-exp", "xf.cross_entropy");
  if (failed(origins.expectSame(*this, origin, "logits", getLogits(),
                                origin.getLogits())) ||
      failed(origins.expectSame(*this, origin, "targets", getTargets(),
                                origin.getTargets())))
    return failure();
  return expectEqual<int64_t>(*this, origin, "vocab", getVocab(),
                              origin.getVocab());
}
