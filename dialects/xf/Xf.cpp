//===- Xf.cpp - The training-graph dialect and its verifiers --------------===//
#include "dialects/xf/Provenance.h"
#include "dialects/xf/Shapes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::xf;

#include "dialects/xf/XfDialect.cpp.inc"
#include "dialects/xf/XfEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/xf/XfAttrs.cpp.inc"

#include "dialects/xf/XfInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/xf/Xf.cpp.inc"

void XfDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/xf/XfAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/xf/Xf.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Provenance
//===----------------------------------------------------------------------===//

LogicalResult
ProvenanceAttr::verify(function_ref<InFlightDiagnostic()> emitError, Phase,
                       int64_t layer, std::optional<Module>, bool) {
  if (layer < -1)
    return emitError() << "expects a layer of at least 0, got " << layer;
  return success();
}

LogicalResult XfDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  if (attribute.getName() == AccumulateOp::segmentName) {
    auto segment = dyn_cast<IntegerAttr>(attribute.getValue());
    if (segment && segment.getType().isInteger(64) && segment.getInt() >= 0)
      return success();
    return op->emitOpError("expects ")
           << AccumulateOp::segmentName << " to be an i64 of at least 0, got "
           << attribute.getValue();
  }
  if (attribute.getName() != provenanceName)
    return op->emitOpError("has an attribute ")
           << attribute.getName() << ", which xf does not have";
  if (!isa<ProvenanceAttr>(attribute.getValue()))
    return op->emitOpError("expects ")
           << provenanceName << " to be an #xf.provenance, got "
           << attribute.getValue();
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  if (shapeOf(getTable()).size() != 2)
    return emitOpError("expects a table of 2 dims, got ")
           << formatShape(shapeOf(getTable()));
  return expectShape(*this, "a result", getResult(),
                     concat(shapeOf(getIds()), shapeOf(getTable())[1]));
}

LogicalResult LinearOp::verify() {
  int64_t contract = getContract(), rank = shapeOf(getWeight()).size();
  if (contract < 1 || contract > rank ||
      contract > int64_t(shapeOf(getX()).size()))
    return emitOpError("expects contract to be between 1 and the ranks of x "
                       "and weight, got ")
           << contract;
  ArrayRef<int64_t> w = shapeOf(getWeight());
  ArrayRef<int64_t> ins =
      getInputsFirst() ? w.take_front(contract) : w.take_back(contract);
  ArrayRef<int64_t> outs =
      getInputsFirst() ? w.drop_front(contract) : w.drop_back(contract);
  if (shapeOf(getX()).take_back(contract) != ins)
    return emitOpError("expects x to end in the weight's input dims ")
           << formatShape(ins) << ", got " << formatShape(shapeOf(getX()));
  if (getBias() && failed(expectShape(*this, "a bias", getBias(), outs)))
    return failure();
  return expectShape(*this, "a result", getResult(),
                     concat(shapeOf(getX()).drop_back(contract), outs));
}

LogicalResult RMSNormOp::verify() {
  FailureOr<ArrayRef<int64_t>> rows = getNormRows(*this, getX(), getWeight());
  if (failed(rows) ||
      failed(expectLike(*this, "a result", getResult(), getX())))
    return failure();
  return expectShape(*this, "rstd", getRstd(), *rows);
}

LogicalResult LayerNormOp::verify() {
  FailureOr<ArrayRef<int64_t>> rows = getNormRows(*this, getX(), getWeight());
  if (failed(rows) ||
      failed(expectShape(*this, "a bias", getBias(), shapeOf(getWeight()))) ||
      failed(expectLike(*this, "a result", getResult(), getX())) ||
      failed(expectShape(*this, "a mean", getMean(), *rows)))
    return failure();
  return expectShape(*this, "rstd", getRstd(), *rows);
}

LogicalResult RopeOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), cos = shapeOf(getCos());
  if (x.size() != 4 || cos.size() != 2 || cos != shapeOf(getSin()))
    return emitOpError("expects x of 4 dims and two tables of 2 dims");
  if (cos[0] != x[1] || 2 * cos[1] > x[3])
    return emitOpError("expects tables of ")
           << x[1] << " rows and at most " << x[3] / 2 << " columns, got "
           << formatShape(cos);
  return expectLike(*this, "a result", getResult(), getX());
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyHeads(*this, getQ(), getK(), getV(), getLse())))
    return failure();
  return expectLike(*this, "a result", getResult(), getQ());
}

LogicalResult AddOp::verify() {
  if (getInputs().empty())
    return emitOpError("expects at least one operand");
  ArrayRef<int64_t> shape = shapeOf(getResult());
  if (failed(expectShape(*this, "a first operand", getInputs()[0], shape)))
    return failure();
  for (auto [i, input] : llvm::enumerate(getInputs()))
    if (shapeOf(input).size() > shape.size() ||
        shape.take_back(shapeOf(input).size()) != shapeOf(input))
      return emitOpError("expects operand ")
             << i << " to have the trailing dims of " << formatShape(shape)
             << ", got " << formatShape(shapeOf(input));
  return success();
}

OpFoldResult AddOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1 && getInputs()[0].getType() == getType())
    return getInputs()[0];
  return {};
}

LogicalResult CastOp::verify() {
  return expectShape(*this, "a result", getResult(), shapeOf(getX()));
}

/// Values are the same up to rounding, whatever the types.
bool CastOp::areCastCompatible(TypeRange inputs, TypeRange outputs) {
  return inputs.size() == 1 && outputs.size() == 1;
}

LogicalResult SliceRowsOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), y = shapeOf(getResult());
  if (x.empty() || y.size() != x.size() || x.drop_front() != y.drop_front())
    return emitOpError("expects operand and result to differ in dim 0 only");
  if (int64_t(getStart()) < 0 || int64_t(getStart()) + y[0] > x[0])
    return emitOpError("expects rows in [0, ")
           << x[0] << "), got [" << getStart() << ", " << getStart() + y[0]
           << ")";
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  ArrayRef<int64_t> logits = shapeOf(getLogits());
  if (logits.empty())
    return emitOpError("expects logits of at least one dim");
  if (failed(expectShape(*this, "targets", getTargets(), logits.drop_back())))
    return failure();
  if (int64_t(getVocab()) < 1 || int64_t(getVocab()) > logits.back())
    return emitOpError("expects vocab to be between 1 and ")
           << logits.back() << ", got " << getVocab();
  if (failed(expectShape(*this, "a loss", getLoss(), {})))
    return failure();
  return expectShape(*this, "lse", getLse(), logits.drop_back());
}
