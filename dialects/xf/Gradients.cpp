//===- Gradients.cpp - The gradient of each op ----------------------------===//
//
// Gradients of weights, biases and other operands that are the same for many
// rows are f32 whatever the operand's type: they are sums over all tokens.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/Xf.h"

using namespace mlir;
using namespace cleave::xf;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static RankedTensorType toF32(RankedTensorType type) {
  return type.clone(Float32Type::get(type.getContext()));
}

void EmbeddingOp::buildGradient(OpBuilder &b, ValueRange grads,
                                ArrayRef<bool> wanted,
                                MutableArrayRef<Value> out) {
  if (!wanted[1])
    return;
  Value dy = grads[0];
  if (getPadding())
    dy = MaskRowsOp::create(b, getLoc(), dy.getType(), dy, getIds(),
                            getPaddingAttr());
  out[1] = EmbeddingGradOp::create(b, getLoc(), toF32(typeOf(getTable())),
                                   getIds(), dy);
}

void LinearOp::buildGradient(OpBuilder &b, ValueRange grads,
                             ArrayRef<bool> wanted,
                             MutableArrayRef<Value> out) {
  Value dy = grads[0];
  if (wanted[0])
    out[0] = LinearOp::create(b, getLoc(), typeOf(getX()), dy, getWeight(),
                              Value(), getNumOuts(), !getInputsFirst());
  if (wanted[1])
    out[1] = LinearWeightGradOp::create(b, getLoc(), toF32(typeOf(getWeight())),
                                        getX(), dy, getNumLeading(),
                                        getInputsFirst());
  if (getBias() && wanted[2])
    out[2] = ReduceLeadingOp::create(b, getLoc(), toF32(typeOf(getBias())), dy);
}

void RMSNormOp::buildGradient(OpBuilder &b, ValueRange grads,
                              ArrayRef<bool> wanted,
                              MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] =
        RMSNormGradOp::create(b, getLoc(), typeOf(getX()), getX(), getWeight(),
                              getRstd(), grads[0], getOffset());
  if (wanted[1])
    out[1] = NormWeightGradOp::create(b, getLoc(), toF32(typeOf(getWeight())),
                                      getX(), getRstd(), grads[0], Value());
}

void LayerNormOp::buildGradient(OpBuilder &b, ValueRange grads,
                                ArrayRef<bool> wanted,
                                MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] =
        LayerNormGradOp::create(b, getLoc(), typeOf(getX()), getX(),
                                getWeight(), getMean(), getRstd(), grads[0]);
  if (wanted[1])
    out[1] = NormWeightGradOp::create(b, getLoc(), toF32(typeOf(getWeight())),
                                      getX(), getRstd(), grads[0], getMean());
  if (wanted[2])
    out[2] = ReduceLeadingOp::create(b, getLoc(), toF32(typeOf(getBias())),
                                     grads[0]);
}

void RopeOp::buildGradient(OpBuilder &b, ValueRange grads,
                           ArrayRef<bool> wanted, MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = RopeOp::create(b, getLoc(), typeOf(getX()), grads[0], getCos(),
                            getSin(), !getInverse());
}

void AttentionOp::buildGradient(OpBuilder &b, ValueRange grads, ArrayRef<bool>,
                                MutableArrayRef<Value> out) {
  auto grad = AttentionGradOp::create(
      b, getLoc(), TypeRange{typeOf(getQ()), typeOf(getK()), typeOf(getV())},
      getQ(), getK(), getV(), getResult(), getLse(), grads[0], getScaleAttr(),
      getWindowAttr(), getSoftcapAttr());
  for (auto [i, value] : llvm::enumerate(grad.getResults()))
    out[i] = value;
}

void ActivationOp::buildGradient(OpBuilder &b, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = ActivationGradOp::create(b, getLoc(), typeOf(getX()), getX(),
                                      grads[0], getKind());
}

void GluOp::buildGradient(OpBuilder &b, ValueRange grads, ArrayRef<bool>,
                          MutableArrayRef<Value> out) {
  auto grad = GluGradOp::create(b, getLoc(),
                                TypeRange{typeOf(getGate()), typeOf(getUp())},
                                getGate(), getUp(), grads[0], getKind());
  out[0] = grad.getDgate();
  out[1] = grad.getDup();
}

void AddOp::buildGradient(OpBuilder &b, ValueRange grads, ArrayRef<bool> wanted,
                          MutableArrayRef<Value> out) {
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (!wanted[i])
      continue;
    RankedTensorType type = typeOf(input);
    out[i] = type.getShape() == typeOf(getResult()).getShape()
                 ? grads[0]
                 : ReduceLeadingOp::create(b, getLoc(), toF32(type), grads[0]);
  }
}

void ScaleOp::buildGradient(OpBuilder &b, ValueRange grads,
                            ArrayRef<bool> wanted, MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = ScaleOp::create(b, getLoc(), grads[0].getType(), grads[0],
                             getFactorAttr());
}

void CastOp::buildGradient(OpBuilder &b, ValueRange grads,
                           ArrayRef<bool> wanted, MutableArrayRef<Value> out) {
  if (!wanted[0])
    return;
  bool same =
      typeOf(grads[0]).getElementType() == typeOf(getX()).getElementType();
  out[0] =
      same ? grads[0] : CastOp::create(b, getLoc(), typeOf(getX()), grads[0]);
}

void SliceRowsOp::buildGradient(OpBuilder &b, ValueRange grads,
                                ArrayRef<bool> wanted,
                                MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = PadRowsOp::create(
        b, getLoc(), typeOf(getX()).clone(typeOf(grads[0]).getElementType()),
        grads[0], getStartAttr());
}

void CrossEntropyOp::buildGradient(OpBuilder &b, ValueRange grads,
                                   ArrayRef<bool> wanted,
                                   MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = CrossEntropyGradOp::create(b, getLoc(), typeOf(getLogits()),
                                        getLogits(), getLse(), getTargets(),
                                        grads[0], getVocabAttr());
}
