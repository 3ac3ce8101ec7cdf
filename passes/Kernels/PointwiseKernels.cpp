//===- PointwiseKernels.cpp - What is computed element by element ---------===//
#include "passes/Kernels/KernelModel.h"
#include <numbers>

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

/// x sigmoid(z) and its derivative, where z has the derivative `slope` at x, by
/// default 1.
static std::pair<Value, Value> gate(Scalars s, Value x, Value z,
                                    Value slope = {}) {
  Value sigmoid = s.div(s.constant(1), s.add(s.exp(s.mul(z, -1.0)), 1.0));
  Value rest = s.sub(s.constant(1), sigmoid);
  if (slope)
    rest = s.mul(rest, slope);
  return {s.mul(x, sigmoid), s.mul(sigmoid, s.add(s.mul(x, rest), 1.0))};
}

/// The function and its derivative at x.
static std::pair<Value, Value> activate(Scalars s, ActivationKind kind,
                                        Value x) {
  switch (kind) {
  case ActivationKind::GeluErf: {
    // phi = (1 + erf(x / sqrt 2)) / 2; x phi; phi + x exp(-x^2/2) / sqrt(2 pi)
    Value phi =
        s.mul(s.add(s.erf(s.mul(x, std::numbers::sqrt2 / 2)), 1.0), 0.5);
    Value density = s.mul(s.exp(s.mul(s.mul(x, x), -0.5)),
                          std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return {s.mul(x, phi), s.add(phi, s.mul(x, density))};
  }
  case ActivationKind::GeluTanh:
  case ActivationKind::GeluFast: {
    // (1 + tanh u) / 2 = sigmoid(2u), u = c (x + 0.044715 x^3)
    double c = kind == ActivationKind::GeluFast
                   ? 0.7978845608
                   : std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    Value xx = s.mul(x, x);
    Value z = s.mul(s.mul(x, 2 * c), s.add(s.mul(xx, 0.044715), 1.0));
    Value slope = s.mul(s.add(s.mul(xx, 3 * 0.044715), 1.0), 2 * c);
    return gate(s, x, z, slope);
  }
  case ActivationKind::QuickGelu:
    return gate(s, x, s.mul(x, 1.702), s.constant(1.702));
  case ActivationKind::Silu:
    return gate(s, x, x);
  case ActivationKind::Relu:
    return {s.max(x, s.constant(0)),
            s.select(s.isPositive(x), s.constant(1), s.constant(0))};
  case ActivationKind::Relu2: {
    Value positive = s.max(x, s.constant(0));
    return {s.mul(positive, positive), s.mul(positive, 2.0)};
  }
  }
  llvm_unreachable("unknown activation");
}

namespace {
struct ActivationKernel : PointwiseKernel<ActivationKernel, ActivationOp> {
  static SmallVector<Value> getBody(ActivationOp op, Scalars s,
                                    ValueRange args) {
    return {activate(s, op.getKind(), args[0]).first};
  }
};

struct ActivationGradKernel
    : PointwiseKernel<ActivationGradKernel, ActivationGradOp> {
  static SmallVector<Value> getBody(ActivationGradOp op, Scalars s,
                                    ValueRange args) {
    return {s.mul(args[1], activate(s, op.getKind(), args[0]).second)};
  }
};

struct GluKernel : PointwiseKernel<GluKernel, GluOp> {
  static SmallVector<Value> getBody(GluOp op, Scalars s, ValueRange args) {
    return {s.mul(activate(s, op.getKind(), args[0]).first, args[1])};
  }
};

struct GluGradKernel : PointwiseKernel<GluGradKernel, GluGradOp> {
  static SmallVector<Value> getBody(GluGradOp op, Scalars s, ValueRange args) {
    auto [value, slope] = activate(s, op.getKind(), args[0]);
    return {s.mul(s.mul(args[2], args[1]), slope), s.mul(args[2], value)};
  }
};

struct ScaleKernel : PointwiseKernel<ScaleKernel, ScaleOp> {
  static SmallVector<Value> getBody(ScaleOp op, Scalars s, ValueRange args) {
    return {s.mul(args[0], op.getFactor().convertToDouble())};
  }
};

struct CastKernel : PointwiseKernel<CastKernel, CastOp> {
  static SmallVector<Value> getBody(CastOp op, Scalars s, ValueRange args) {
    return {args[0]};
  }
};

struct MulKernel : PointwiseKernel<MulKernel, MulOp> {
  static SmallVector<Value> getBody(MulOp op, Scalars s, ValueRange args) {
    return {s.mul(args[0], args[1])};
  }
};

struct AddKernel : KernelModel<AddKernel, AddOp> {
  static KernelSpace getSpace(AddOp op) {
    // The smallest operand spans the columns; larger ones repeat every so many
    // rows.
    int64_t columns = lastDim(op.getResult());
    for (Value value : op.getInputs())
      columns = std::min(columns, typeOf(value).getNumElements());
    SpaceBuilder builder(op, op.getResult(), columns);
    for (Value value : op.getInputs()) {
      int64_t rows = typeOf(value).getNumElements() / columns;
      builder.add(value, 0, 1, rows == builder.space.rows ? 0 : rows,
                  rows == 1 ? 0 : columns, 1);
    }
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(AddOp op, Scalars s, ValueRange args) {
    Value sum = args[0];
    for (Value value : args.drop_front())
      sum = s.add(sum, value);
    return {sum};
  }
};

struct SliceRowsKernel : KernelModel<SliceRowsKernel, SliceRowsOp> {
  static KernelSpace getSpace(SliceRowsOp op) {
    int64_t columns = lastDim(op.getResult());
    int64_t width =
        typeOf(op.getX()).getNumElements() / typeOf(op.getX()).getDimSize(0);
    SpaceBuilder builder(op, op.getResult(), columns);
    builder.add(op.getX(), op.getStart() * width, 1, 0, columns, 1);
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(SliceRowsOp op, Scalars s,
                                    ValueRange args) {
    return {args[0]};
  }
};

struct PadRowsKernel : KernelModel<PadRowsKernel, PadRowsOp> {
  static KernelSpace getSpace(PadRowsOp op) {
    int64_t columns = lastDim(op.getX());
    int64_t width =
        typeOf(op.getX()).getNumElements() / typeOf(op.getX()).getDimSize(0);
    SpaceBuilder builder(op, op.getX(), columns);
    builder.full(op.getX());
    builder.add(op.getResult(), op.getStart() * width, 1, 0, columns, 1);
    builder.space.zeroResults = true;
    return builder.space;
  }
  static SmallVector<Value> getBody(PadRowsOp op, Scalars s, ValueRange args) {
    return {args[0]};
  }
};

struct MaskRowsKernel : KernelModel<MaskRowsKernel, MaskRowsOp> {
  static KernelSpace getSpace(MaskRowsOp op) {
    SpaceBuilder builder(op, op.getX(), lastDim(op.getX()));
    builder.full(op.getX());
    builder.perRow(op.getIds());
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(MaskRowsOp op, Scalars s, ValueRange args) {
    Value hit =
        s.compare(arith::CmpIPredicate::eq, args[1], s.constantInt(op.getId()));
    return {s.select(hit, s.constant(0), args[0])};
  }
};

/// One row a head; columns are the n pairs; x and the result are seen as
/// their two halves.
struct RopeKernel : KernelModel<RopeKernel, RopeOp> {
  static KernelSpace getSpace(RopeOp op) {
    ArrayRef<int64_t> x = typeOf(op.getX()).getShape();
    int64_t pairs = lastDim(op.getCos()), heads = x[2], depth = x[3];
    SpaceBuilder builder(op, op.getX(), depth);
    builder.space.columns = pairs;
    builder.add(op.getX(), 0, 1, 0, depth, 1);
    builder.add(op.getX(), pairs, 1, 0, depth, 1);
    builder.add(op.getCos(), 0, heads, x[1], pairs, 1);
    builder.add(op.getSin(), 0, heads, x[1], pairs, 1);
    builder.add(op.getResult(), 0, 1, 0, depth, 1);
    builder.add(op.getResult(), pairs, 1, 0, depth, 1);
    if (2 * pairs < depth)
      builder.space.copyFrom = 0;
    return builder.space;
  }
  static SmallVector<Value> getBody(RopeOp op, Scalars s, ValueRange args) {
    Value low = args[0], high = args[1], cos = args[2], sin = args[3];
    Value lowSin = s.mul(low, sin), highSin = s.mul(high, sin);
    if (op.getInverse())
      return {s.add(s.mul(low, cos), highSin), s.sub(s.mul(high, cos), lowSin)};
    return {s.sub(s.mul(low, cos), highSin), s.add(s.mul(high, cos), lowSin)};
  }
};
} // namespace

void cleave::attachPointwiseKernels(MLIRContext *context) {
  ActivationOp::attachInterface<ActivationKernel>(*context);
  ActivationGradOp::attachInterface<ActivationGradKernel>(*context);
  GluOp::attachInterface<GluKernel>(*context);
  GluGradOp::attachInterface<GluGradKernel>(*context);
  ScaleOp::attachInterface<ScaleKernel>(*context);
  CastOp::attachInterface<CastKernel>(*context);
  MulOp::attachInterface<MulKernel>(*context);
  AddOp::attachInterface<AddKernel>(*context);
  SliceRowsOp::attachInterface<SliceRowsKernel>(*context);
  PadRowsOp::attachInterface<PadRowsKernel>(*context);
  MaskRowsOp::attachInterface<MaskRowsKernel>(*context);
  RopeOp::attachInterface<RopeKernel>(*context);
}
