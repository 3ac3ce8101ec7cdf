//===- Bodies.cpp - The kernel of each op that is generated ---------------===//
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>
#include <numbers>

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;
using exec::AccessAttr;

//===----------------------------------------------------------------------===//
// Spaces
//===----------------------------------------------------------------------===//

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
/// Builds the space of `op`: `columns` trailing elements, the rest rows.
/// Tensors are numbered as operands, then results.
class SpaceBuilder {
public:
  SpaceBuilder(Operation *op, Value shaped, int64_t columns) : op(op) {
    space.columns = columns;
    space.rows = typeOf(shaped).getNumElements() / columns;
  }

  /// A tensor of rows x columns elements.
  void full(Value value) { add(value, 0, 1, 0, space.columns, 1); }
  /// One element a row.
  void perRow(Value value) { add(value, 0, 1, 0, 1, 0); }
  /// One element a column.
  void perColumn(Value value) { add(value, 0, 1, 1, 0, 1); }
  void scalar(Value value, int64_t offset = 0) {
    add(value, offset, 1, 1, 0, 0);
  }
  void add(Value value, int64_t offset, int64_t rowDiv, int64_t rowMod,
           int64_t rowStride, int64_t colStride) {
    auto access =
        AccessAttr::get(op->getContext(), typeOf(value).getElementType(),
                        offset, rowDiv, rowMod, rowStride, colStride);
    auto result = dyn_cast<OpResult>(value);
    if (result && result.getOwner() == op) {
      unsigned tensor = op->getNumOperands() + result.getResultNumber();
      space.outputs.push_back({tensor, access});
      return;
    }
    auto it = llvm::find(op->getOperands(), value);
    space.inputs.push_back(
        {unsigned(std::distance(op->operand_begin(), it)), access});
  }

  KernelSpace space;

private:
  Operation *op;
};
} // namespace

static int64_t lastDim(Value value) {
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  return shape.empty() ? 1 : shape.back();
}

/// Every operand and result has the result's shape.
static KernelSpace getPointwiseSpace(Operation *op) {
  Value result = op->getResult(0);
  SpaceBuilder builder(op, result, lastDim(result));
  for (Value value : op->getOperands())
    builder.full(value);
  for (Value value : op->getResults())
    builder.full(value);
  return builder.space;
}

KernelSpace ActivationOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace ActivationGradOp::getKernelSpace() {
  return getPointwiseSpace(*this);
}
KernelSpace GluOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace GluGradOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace ScaleOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace CastOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace MulOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace ReciprocalOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace ClipFactorOp::getKernelSpace() { return getPointwiseSpace(*this); }
KernelSpace TokenLossOp::getKernelSpace() { return getPointwiseSpace(*this); }

KernelSpace AddOp::getKernelSpace() {
  // The smallest operand spans the columns; larger ones repeat every so many
  // rows.
  int64_t columns = lastDim(getResult());
  for (Value value : getInputs())
    columns = std::min(columns, typeOf(value).getNumElements());
  SpaceBuilder builder(*this, getResult(), columns);
  for (Value value : getInputs()) {
    int64_t rows = typeOf(value).getNumElements() / columns;
    builder.add(value, 0, 1, rows == builder.space.rows ? 0 : rows,
                rows == 1 ? 0 : columns, 1);
  }
  builder.full(getResult());
  return builder.space;
}

/// Columns are the normalized dims.
template <typename Op>
static SpaceBuilder startNormSpace(Op op, Value x) {
  return SpaceBuilder(op, x, typeOf(op.getWeight()).getNumElements());
}

KernelSpace RMSNormOp::getKernelSpace() {
  SpaceBuilder builder = startNormSpace(*this, getX());
  builder.full(getX());
  builder.perColumn(getWeight());
  builder.full(getResult());
  builder.perRow(getRstd());
  return builder.space;
}

KernelSpace LayerNormOp::getKernelSpace() {
  SpaceBuilder builder = startNormSpace(*this, getX());
  builder.full(getX());
  builder.perColumn(getWeight());
  builder.perColumn(getBias());
  builder.full(getResult());
  builder.perRow(getMean());
  builder.perRow(getRstd());
  return builder.space;
}

KernelSpace RMSNormGradOp::getKernelSpace() {
  SpaceBuilder builder = startNormSpace(*this, getX());
  builder.full(getX());
  builder.perColumn(getWeight());
  builder.perRow(getRstd());
  builder.full(getDy());
  builder.full(getResult());
  return builder.space;
}

KernelSpace LayerNormGradOp::getKernelSpace() {
  SpaceBuilder builder = startNormSpace(*this, getX());
  builder.full(getX());
  builder.perColumn(getWeight());
  builder.perRow(getMean());
  builder.perRow(getRstd());
  builder.full(getDy());
  builder.full(getResult());
  return builder.space;
}

KernelSpace NormWeightGradOp::getKernelSpace() {
  SpaceBuilder builder(*this, getX(), typeOf(getResult()).getNumElements());
  builder.space.mode = exec::KernelMode::Column;
  builder.full(getX());
  builder.perRow(getRstd());
  builder.full(getDy());
  if (getMean())
    builder.perRow(getMean());
  builder.perColumn(getResult());
  return builder.space;
}

KernelSpace ReduceLeadingOp::getKernelSpace() {
  SpaceBuilder builder(*this, getX(), typeOf(getResult()).getNumElements());
  builder.space.mode = exec::KernelMode::Column;
  builder.full(getX());
  builder.perColumn(getResult());
  return builder.space;
}

/// One row a head; columns are the n pairs; x and the result are seen as their
/// two halves.
KernelSpace RopeOp::getKernelSpace() {
  ArrayRef<int64_t> x = typeOf(getX()).getShape();
  int64_t pairs = lastDim(getCos()), heads = x[2], depth = x[3];
  SpaceBuilder builder(*this, getX(), depth);
  builder.space.columns = pairs;
  builder.add(getX(), 0, 1, 0, depth, 1);
  builder.add(getX(), pairs, 1, 0, depth, 1);
  builder.add(getCos(), 0, heads, x[1], pairs, 1);
  builder.add(getSin(), 0, heads, x[1], pairs, 1);
  builder.add(getResult(), 0, 1, 0, depth, 1);
  builder.add(getResult(), pairs, 1, 0, depth, 1);
  if (2 * pairs < depth)
    builder.space.copyFrom = 0;
  return builder.space;
}

KernelSpace SliceRowsOp::getKernelSpace() {
  int64_t columns = lastDim(getResult());
  int64_t width =
      typeOf(getX()).getNumElements() / typeOf(getX()).getDimSize(0);
  SpaceBuilder builder(*this, getResult(), columns);
  builder.add(getX(), getStart() * width, 1, 0, columns, 1);
  builder.full(getResult());
  return builder.space;
}

KernelSpace PadRowsOp::getKernelSpace() {
  int64_t columns = lastDim(getX());
  int64_t width =
      typeOf(getX()).getNumElements() / typeOf(getX()).getDimSize(0);
  SpaceBuilder builder(*this, getX(), columns);
  builder.full(getX());
  builder.add(getResult(), getStart() * width, 1, 0, columns, 1);
  builder.space.zeroResults = true;
  return builder.space;
}

KernelSpace MaskRowsOp::getKernelSpace() {
  SpaceBuilder builder(*this, getX(), lastDim(getX()));
  builder.full(getX());
  builder.perRow(getIds());
  builder.full(getResult());
  return builder.space;
}

KernelSpace RowMaxOp::getKernelSpace() {
  SpaceBuilder builder(*this, getX(), lastDim(getX()));
  builder.full(getX());
  builder.perRow(getResult());
  return builder.space;
}

KernelSpace SumExpOp::getKernelSpace() {
  SpaceBuilder builder(*this, getX(), lastDim(getX()));
  builder.full(getX());
  builder.perRow(getMax());
  builder.perRow(getResult());
  return builder.space;
}

KernelSpace PickOp::getKernelSpace() {
  SpaceBuilder builder(*this, getX(), lastDim(getX()));
  builder.full(getX());
  builder.perRow(getTargets());
  builder.perRow(getResult());
  return builder.space;
}

KernelSpace CrossEntropyGradOp::getKernelSpace() {
  SpaceBuilder builder(*this, getLogits(), lastDim(getLogits()));
  builder.full(getLogits());
  builder.perRow(getLse());
  builder.perRow(getTargets());
  builder.scalar(getDloss());
  builder.full(getResult());
  return builder.space;
}

/// Rows are summed one by one, then their sums.
static KernelSpace getFullReductionSpace(Operation *op) {
  Value x = op->getOperand(0);
  SpaceBuilder builder(op, x, lastDim(x));
  builder.full(x);
  builder.perRow(op->getResult(0));
  builder.space.foldRows = true;
  return builder.space;
}

KernelSpace SumOp::getKernelSpace() { return getFullReductionSpace(*this); }
KernelSpace SquareSumOp::getKernelSpace() {
  return getFullReductionSpace(*this);
}
KernelSpace CountTokensOp::getKernelSpace() {
  return getFullReductionSpace(*this);
}

KernelSpace AdamWOp::getKernelSpace() {
  SpaceBuilder builder(*this, getW(), lastDim(getW()));
  for (Value value : {getW(), getM(), getV(), getGrad()})
    builder.full(value);
  builder.scalar(getClip());
  for (int64_t i = 0; i < 3; ++i)
    builder.scalar(getSchedule(), i);
  for (Value value : getResults())
    builder.full(value);
  return builder.space;
}

//===----------------------------------------------------------------------===//
// Scalar programs
//===----------------------------------------------------------------------===//

namespace {
/// f32 arithmetic, spelled short.
struct Scalars {
  OpBuilder &b;
  Location loc;

  Value constant(double value) {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  }
  Value constantInt(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value add(Value x, double y) { return add(x, constant(y)); }
  Value mul(Value x, double y) { return mul(x, constant(y)); }
  Value max(Value x, Value y) {
    return arith::MaximumFOp::create(b, loc, x, y);
  }
  Value min(Value x, Value y) {
    return arith::MinimumFOp::create(b, loc, x, y);
  }
  Value exp(Value x) { return math::ExpOp::create(b, loc, x); }
  Value log(Value x) { return math::LogOp::create(b, loc, x); }
  Value sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
  Value rsqrt(Value x) { return math::RsqrtOp::create(b, loc, x); }
  Value tanh(Value x) { return math::TanhOp::create(b, loc, x); }
  Value erf(Value x) { return math::ErfOp::create(b, loc, x); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value isPositive(Value x) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x,
                                 constant(0));
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value sumRow(Value x) {
    return exec::RowReduceOp::create(b, loc, exec::ReduceKind::Sum, x);
  }
  Value maxRow(Value x) {
    return exec::RowReduceOp::create(b, loc, exec::ReduceKind::Max, x);
  }
  /// The column in the whole tensor, of which this rank has `columns`.
  Value globalColumn(int64_t columns) {
    Value column = exec::ColumnOp::create(b, loc, b.getI32Type());
    Value shard = exec::ShardIndexOp::create(b, loc, b.getI32Type());
    Value first = arith::MulIOp::create(b, loc, shard, constantInt(columns));
    return arith::AddIOp::create(b, loc, first, column);
  }
  /// Rounds to bf16 and back, if that is how the value would be stored.
  Value roundTo(Type stored, Value x) {
    if (!stored.isBF16())
      return x;
    Value rounded = arith::TruncFOp::create(b, loc, stored, x);
    return arith::ExtFOp::create(b, loc, b.getF32Type(), rounded);
  }

  /// The function and its derivative at x.
  std::pair<Value, Value> activate(ActivationKind kind, Value x);
};
} // namespace

std::pair<Value, Value> Scalars::activate(ActivationKind kind, Value x) {
  switch (kind) {
  case ActivationKind::GeluErf: {
    // phi = (1 + erf(x / sqrt 2)) / 2; x phi; phi + x exp(-x^2/2) / sqrt(2 pi)
    Value phi = mul(add(erf(mul(x, std::numbers::sqrt2 / 2)), 1.0), 0.5);
    Value density = mul(exp(mul(mul(x, x), -0.5)),
                        std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return {mul(x, phi), add(phi, mul(x, density))};
  }
  case ActivationKind::GeluTanh:
  case ActivationKind::GeluFast: {
    double c = kind == ActivationKind::GeluFast
                   ? 0.7978845608
                   : std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    Value xx = mul(x, x);
    Value u = mul(mul(x, c), add(mul(xx, 0.044715), 1.0));
    Value t = tanh(u);
    Value half = mul(add(t, 1.0), 0.5);
    Value du = mul(add(mul(xx, 3 * 0.044715), 1.0), c);
    Value dt = sub(constant(1), mul(t, t));
    return {mul(x, half), add(half, mul(mul(mul(x, 0.5), dt), du))};
  }
  case ActivationKind::QuickGelu:
  case ActivationKind::Silu: {
    double c = kind == ActivationKind::QuickGelu ? 1.702 : 1;
    Value cx = c == 1 ? x : mul(x, c);
    Value sigmoid = div(constant(1), add(exp(mul(cx, -1.0)), 1.0));
    Value slope = add(mul(cx, sub(constant(1), sigmoid)), 1.0);
    return {mul(x, sigmoid), mul(sigmoid, slope)};
  }
  case ActivationKind::Relu:
    return {max(x, constant(0)),
            select(isPositive(x), constant(1), constant(0))};
  case ActivationKind::Relu2: {
    Value positive = max(x, constant(0));
    return {mul(positive, positive), mul(positive, 2.0)};
  }
  }
  llvm_unreachable("unknown activation");
}

SmallVector<Value> ActivationOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.activate(getKind(), args[0]).first};
}

SmallVector<Value> ActivationGradOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.mul(args[1], s.activate(getKind(), args[0]).second)};
}

SmallVector<Value> GluOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.mul(s.activate(getKind(), args[0]).first, args[1])};
}

SmallVector<Value> GluGradOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  auto [value, slope] = s.activate(getKind(), args[0]);
  return {s.mul(s.mul(args[2], args[1]), slope), s.mul(args[2], value)};
}

SmallVector<Value> ScaleOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.mul(args[0], getFactor().convertToDouble())};
}

SmallVector<Value> CastOp::buildBody(OpBuilder &, ValueRange args) {
  return {args[0]};
}

SmallVector<Value> MulOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.mul(args[0], args[1])};
}

SmallVector<Value> ReciprocalOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.div(s.constant(1), s.max(args[0], s.constant(1)))};
}

SmallVector<Value> AddOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value sum = args[0];
  for (Value value : args.drop_front())
    sum = s.add(sum, value);
  return {sum};
}

SmallVector<Value> SliceRowsOp::buildBody(OpBuilder &, ValueRange args) {
  return {args[0]};
}

SmallVector<Value> PadRowsOp::buildBody(OpBuilder &, ValueRange args) {
  return {args[0]};
}

SmallVector<Value> RMSNormOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  double columns = double(typeOf(getWeight()).getNumElements());
  Value mean = s.div(s.sumRow(s.mul(args[0], args[0])), s.constant(columns));
  Value rstd = s.rsqrt(s.add(mean, getEps().convertToDouble()));
  Value normal = s.mul(args[0], rstd);
  if (!getWeightInF32())
    normal = s.roundTo(typeOf(getResult()).getElementType(), normal);
  Value weight = args[1];
  if (!getOffset().isZero())
    weight = s.add(weight, getOffset().convertToDouble());
  return {s.mul(normal, weight), rstd};
}

SmallVector<Value> LayerNormOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value columns = s.constant(double(typeOf(getWeight()).getNumElements()));
  Value mean = s.div(s.sumRow(args[0]), columns);
  Value centred = s.sub(args[0], mean);
  Value variance = s.div(s.sumRow(s.mul(centred, centred)), columns);
  Value rstd = s.rsqrt(s.add(variance, getEps().convertToDouble()));
  Value normal = s.mul(centred, rstd);
  return {s.add(s.mul(normal, args[1]), args[2]), mean, rstd};
}

SmallVector<Value> RMSNormGradOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value columns = s.constant(double(typeOf(getWeight()).getNumElements()));
  Value x = args[0], rstd = args[2], dy = args[3], weight = args[1];
  if (!getOffset().isZero())
    weight = s.add(weight, getOffset().convertToDouble());
  Value g = s.mul(dy, weight);
  Value mean = s.div(s.sumRow(s.mul(g, x)), columns);
  Value pull = s.mul(mean, s.mul(rstd, rstd));
  return {s.mul(rstd, s.sub(g, s.mul(x, pull)))};
}

SmallVector<Value> LayerNormGradOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value columns = s.constant(double(typeOf(getWeight()).getNumElements()));
  Value mean = args[2], rstd = args[3];
  Value g = s.mul(args[4], args[1]);
  Value normal = s.mul(s.sub(args[0], mean), rstd);
  Value meanG = s.div(s.sumRow(g), columns);
  Value meanGN = s.div(s.sumRow(s.mul(g, normal)), columns);
  Value pull = s.add(meanG, s.mul(normal, meanGN));
  return {s.mul(rstd, s.sub(g, pull))};
}

SmallVector<Value> NormWeightGradOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value x = getMean() ? s.sub(args[0], args[3]) : args[0];
  return {s.mul(args[2], s.mul(x, args[1]))};
}

SmallVector<Value> ReduceLeadingOp::buildBody(OpBuilder &, ValueRange args) {
  return {args[0]};
}

SmallVector<Value> RopeOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value low = args[0], high = args[1], cos = args[2], sin = args[3];
  Value lowSin = s.mul(low, sin), highSin = s.mul(high, sin);
  if (getInverse())
    return {s.add(s.mul(low, cos), highSin), s.sub(s.mul(high, cos), lowSin)};
  return {s.sub(s.mul(low, cos), highSin), s.add(s.mul(high, cos), lowSin)};
}

/// Where the column of the whole tensor is one of the first `vocab`.
static Value isInVocab(Scalars &s, Value x, uint64_t vocab) {
  return s.compare(arith::CmpIPredicate::slt, s.globalColumn(lastDim(x)),
                   s.constantInt(vocab));
}

SmallVector<Value> RowMaxOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value lowest = s.constant(-std::numeric_limits<float>::max());
  return {
      s.maxRow(s.select(isInVocab(s, getX(), getVocab()), args[0], lowest))};
}

SmallVector<Value> SumExpOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value exp = s.exp(s.sub(args[0], args[1]));
  return {
      s.sumRow(s.select(isInVocab(s, getX(), getVocab()), exp, s.constant(0)))};
}

SmallVector<Value> MaskRowsOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value hit =
      s.compare(arith::CmpIPredicate::eq, args[1], s.constantInt(getId()));
  return {s.select(hit, s.constant(0), args[0])};
}

SmallVector<Value> PickOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value hit = s.compare(arith::CmpIPredicate::eq,
                        s.globalColumn(lastDim(getX())), args[1]);
  return {s.sumRow(s.select(hit, args[0], s.constant(0)))};
}

SmallVector<Value> TokenLossOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value lse = s.add(args[0], s.log(args[1]));
  Value counted =
      s.compare(arith::CmpIPredicate::sge, args[3], s.constantInt(0));
  return {s.select(counted, s.sub(lse, args[2]), s.constant(0)), lse};
}

SmallVector<Value> CrossEntropyGradOp::buildBody(OpBuilder &b,
                                                 ValueRange args) {
  Scalars s{b, getLoc()};
  Value column = s.globalColumn(lastDim(getLogits()));
  Value target = args[2];
  Value hit = s.compare(arith::CmpIPredicate::eq, column, target);
  Value p = s.exp(s.sub(args[0], args[1]));
  Value grad =
      s.mul(args[3], s.sub(p, s.select(hit, s.constant(1), s.constant(0))));
  Value inside =
      s.compare(arith::CmpIPredicate::slt, column, s.constantInt(getVocab()));
  Value counted =
      s.compare(arith::CmpIPredicate::sge, target, s.constantInt(0));
  Value keep = arith::AndIOp::create(b, getLoc(), inside, counted);
  return {s.select(keep, grad, s.constant(0))};
}

SmallVector<Value> SumOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.sumRow(args[0])};
}

SmallVector<Value> SquareSumOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  return {s.sumRow(s.mul(args[0], args[0]))};
}

SmallVector<Value> CountTokensOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value counted =
      s.compare(arith::CmpIPredicate::sge, args[0], s.constantInt(0));
  return {s.sumRow(s.select(counted, s.constant(1), s.constant(0)))};
}

SmallVector<Value> ClipFactorOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value norm = s.sqrt(args[0]);
  double bound = getMaxNorm().convertToDouble();
  if (bound == 0)
    return {norm, s.constant(1)};
  Value factor = s.div(s.constant(bound), s.add(norm, 1e-6));
  return {norm, s.min(factor, s.constant(1))};
}

SmallVector<Value> AdamWOp::buildBody(OpBuilder &b, ValueRange args) {
  Scalars s{b, getLoc()};
  Value w = args[0], m = args[1], v = args[2];
  Value g = s.mul(args[3], args[4]);
  Value lr = args[5], c1 = args[6], c2 = args[7];
  double beta1 = getBeta1().convertToDouble();
  double beta2 = getBeta2().convertToDouble();
  Value newM = s.add(s.mul(m, beta1), s.mul(g, 1 - beta1));
  Value newV = s.add(s.mul(v, beta2), s.mul(s.mul(g, g), 1 - beta2));
  Value root = s.add(s.sqrt(s.mul(newV, c2)), getEps().convertToDouble());
  Value step = s.div(s.mul(s.mul(lr, c1), newM), root);
  double decay = getDecay().convertToDouble();
  Value kept =
      decay == 0 ? w : s.mul(w, s.sub(s.constant(1), s.mul(lr, decay)));
  return {s.sub(kept, step), newM, newV};
}
