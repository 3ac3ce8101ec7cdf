//===- Shapes.cpp - Verifiers of gradients, losses and the optimizer ------===//
#include "dialects/xf/Shapes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

std::string xf::formatShape(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleaveComma(shape, stream);
  stream << "]";
  return text;
}

LogicalResult xf::expectShape(Operation *op, StringRef what, Value value,
                              ArrayRef<int64_t> expected) {
  if (shapeOf(value) == expected)
    return success();
  return op->emitOpError("expects ")
         << what << " of shape " << formatShape(expected) << ", got "
         << formatShape(shapeOf(value));
}

LogicalResult xf::expectLike(Operation *op, StringRef what, Value value,
                             Value model) {
  if (failed(expectShape(op, what, value, shapeOf(model))))
    return failure();
  Type element = cast<ShapedType>(model.getType()).getElementType();
  Type got = cast<ShapedType>(value.getType()).getElementType();
  if (got == element)
    return success();
  return op->emitOpError("expects ")
         << what << " of " << element << ", got " << got;
}

FailureOr<ArrayRef<int64_t>> xf::getNormRows(Operation *op, Value x,
                                             Value weight) {
  size_t rank = shapeOf(weight).size();
  if (rank == 0 || rank > shapeOf(x).size() ||
      shapeOf(x).take_back(rank) != shapeOf(weight))
    return op->emitOpError("expects a weight with the trailing dims of x, ")
           << formatShape(shapeOf(x)) << ", got "
           << formatShape(shapeOf(weight));
  return shapeOf(x).drop_back(rank);
}

LogicalResult xf::verifyHeads(Operation *op, Value q, Value k, Value v,
                              Value lse) {
  ArrayRef<int64_t> qShape = shapeOf(q), kShape = shapeOf(k);
  if (qShape.size() != 4 || kShape.size() != 4 || qShape[0] != kShape[0] ||
      qShape[1] != kShape[1] || qShape[3] != kShape[3])
    return op->emitOpError("expects q [b, s, heads, d] and k [b, s, kv_heads, "
                           "d], got ")
           << formatShape(qShape) << " and " << formatShape(kShape);
  if (kShape[2] < 1 || qShape[2] % kShape[2] != 0)
    return op->emitOpError("expects kv heads (")
           << kShape[2] << ") to divide heads (" << qShape[2] << ")";
  if (failed(expectShape(op, "v", v, kShape)))
    return failure();
  return expectShape(op, "lse", lse, {qShape[0], qShape[2], qShape[1]});
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// Checks that x has a dim of columns and `rows` its other dims.
static LogicalResult verifyRows(Operation *op, Value x,
                                ArrayRef<std::pair<StringRef, Value>> rows) {
  if (shapeOf(x).empty())
    return op->emitOpError("expects x of at least one dim");
  for (auto [what, value] : rows)
    if (failed(expectShape(op, what, value, shapeOf(x).drop_back())))
      return failure();
  return success();
}

static LogicalResult verifyVocab(Operation *op, int64_t vocab) {
  if (vocab >= 1)
    return success();
  return op->emitOpError("expects vocab to be at least 1, got ") << vocab;
}

LogicalResult RowMaxOp::verify() {
  if (failed(verifyRows(*this, getX(), {{"a result", getResult()}})))
    return failure();
  return verifyVocab(*this, getVocab());
}

LogicalResult SumExpOp::verify() {
  if (failed(verifyRows(*this, getX(),
                        {{"max", getMax()}, {"a result", getResult()}})))
    return failure();
  return verifyVocab(*this, getVocab());
}

LogicalResult PickOp::verify() {
  return verifyRows(*this, getX(),
                    {{"targets", getTargets()}, {"a result", getResult()}});
}

LogicalResult TokenLossOp::verify() {
  ArrayRef<int64_t> rows = shapeOf(getMax());
  if (failed(expectShape(*this, "sum_exp", getSumExp(), rows)) ||
      failed(expectShape(*this, "picked", getPicked(), rows)) ||
      failed(expectShape(*this, "targets", getTargets(), rows)) ||
      failed(expectShape(*this, "a loss", getLoss(), rows)))
    return failure();
  return expectShape(*this, "lse", getLse(), rows);
}

LogicalResult SumOp::verify() {
  return expectShape(*this, "a result", getResult(), {});
}
LogicalResult CountTokensOp::verify() {
  return expectShape(*this, "a result", getResult(), {});
}
LogicalResult SquareSumOp::verify() {
  return expectShape(*this, "a result", getResult(), {});
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(verifyRows(*this, getLogits(),
                        {{"lse", getLse()}, {"targets", getTargets()}})) ||
      failed(expectShape(*this, "dloss", getDloss(), {})) ||
      failed(expectLike(*this, "a result", getResult(), getLogits())))
    return failure();
  return verifyVocab(*this, getVocab());
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingGradOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getResult());
  if (table.size() != 2)
    return emitOpError("expects a table of 2 dims, got ") << formatShape(table);
  return expectShape(*this, "dy", getDy(), concat(shapeOf(getIds()), table[1]));
}

LogicalResult MaskRowsOp::verify() {
  ArrayRef<int64_t> ids = shapeOf(getIds()), x = shapeOf(getX());
  if (x.size() < ids.size() || x.take_front(ids.size()) != ids)
    return emitOpError("expects x to begin with the dims of ids, ")
           << formatShape(ids) << ", got " << formatShape(x);
  return expectLike(*this, "a result", getResult(), getX());
}

LogicalResult LinearWeightGradOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), dy = shapeOf(getDy());
  int64_t leading = getLeading();
  if (leading < 0 || leading > int64_t(std::min(x.size(), dy.size())))
    return emitOpError("expects leading to be between 0 and the ranks of x and "
                       "dy, got ")
           << leading;
  if (x.take_front(leading) != dy.take_front(leading))
    return emitOpError("expects x and dy to agree in ")
           << leading << " leading dims, got " << formatShape(x) << " and "
           << formatShape(dy);
  ArrayRef<int64_t> ins = x.drop_front(leading), outs = dy.drop_front(leading);
  return expectShape(*this, "a result", getResult(),
                     getInputsFirst() ? concat(ins, outs) : concat(outs, ins));
}

LogicalResult ReduceLeadingOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), y = shapeOf(getResult());
  if (y.size() <= x.size() && x.take_back(y.size()) == y)
    return success();
  return emitOpError("expects a result with the trailing dims of ")
         << formatShape(x) << ", got " << formatShape(y);
}

LogicalResult RMSNormGradOp::verify() {
  FailureOr<ArrayRef<int64_t>> rows = getNormRows(*this, getX(), getWeight());
  if (failed(rows) || failed(expectShape(*this, "rstd", getRstd(), *rows)) ||
      failed(expectShape(*this, "dy", getDy(), shapeOf(getX()))))
    return failure();
  return expectLike(*this, "a result", getResult(), getX());
}

LogicalResult LayerNormGradOp::verify() {
  FailureOr<ArrayRef<int64_t>> rows = getNormRows(*this, getX(), getWeight());
  if (failed(rows) || failed(expectShape(*this, "a mean", getMean(), *rows)) ||
      failed(expectShape(*this, "rstd", getRstd(), *rows)) ||
      failed(expectShape(*this, "dy", getDy(), shapeOf(getX()))))
    return failure();
  return expectLike(*this, "a result", getResult(), getX());
}

LogicalResult NormWeightGradOp::verify() {
  FailureOr<ArrayRef<int64_t>> rows = getNormRows(*this, getX(), getResult());
  if (failed(rows) || failed(expectShape(*this, "rstd", getRstd(), *rows)) ||
      failed(expectShape(*this, "dy", getDy(), shapeOf(getX()))))
    return failure();
  return getMean() ? expectShape(*this, "a mean", getMean(), *rows) : success();
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyHeads(*this, getQ(), getK(), getV(), getLse())) ||
      failed(expectShape(*this, "out", getOut(), shapeOf(getQ()))) ||
      failed(expectShape(*this, "dout", getDout(), shapeOf(getQ()))) ||
      failed(expectLike(*this, "dq", getDq(), getQ())) ||
      failed(expectLike(*this, "dk", getDk(), getK())))
    return failure();
  return expectLike(*this, "dv", getDv(), getV());
}

LogicalResult PadRowsOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), y = shapeOf(getResult());
  if (x.empty() || y.size() != x.size() || x.drop_front() != y.drop_front())
    return emitOpError("expects operand and result to differ in dim 0 only");
  int64_t start = getStart();
  if (start < 0 || start + x[0] > y[0])
    return emitOpError("expects rows in [0, ")
           << y[0] << "), got [" << start << ", " << start + x[0] << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

LogicalResult ClipFactorOp::verify() {
  if (failed(expectShape(*this, "x", getX(), {})) ||
      failed(expectShape(*this, "a norm", getNorm(), {})))
    return failure();
  return expectShape(*this, "a factor", getFactor(), {});
}

LogicalResult GuardOp::verify() {
  if (failed(expectShape(*this, "a factor", getFactor(), {})) ||
      failed(expectShape(*this, "a loss", getLoss(), {})) ||
      failed(expectShape(*this, "a norm", getNorm(), {})) ||
      failed(
          expectShape(*this, "a schedule", getSchedule(), {ScheduleOp::size})))
    return failure();
  return expectShape(*this, "a result", getResult(), {});
}

LogicalResult ScheduleOp::verify() {
  return expectShape(*this, "a result", getResult(), {size});
}

LogicalResult NesterovOp::verify() {
  if (failed(expectShape(*this, "clip", getClip(), {})) ||
      failed(expectShape(*this, "a gradient", getGrad(), shapeOf(getM()))))
    return failure();
  return expectShape(*this, "a result", getResult(), shapeOf(getM()));
}

LogicalResult OrthogonalizeOp::verify() {
  int64_t rank = getX().getType().getRank(), rows = getRows();
  if (rows < 1 || rows >= rank)
    return emitOpError("expects some of the ")
           << rank << " dims as rows and some as columns, got rows of " << rows;
  if (int64_t steps = getSteps(); steps < 0 || steps > 100)
    return emitOpError("expects 0 to 100 steps, got ") << steps;
  return success();
}

LogicalResult NormalizeOp::verify() {
  if (failed(expectShape(*this, "square_sum", getSquareSum(), {})))
    return failure();
  return expectLike(*this, "a result", getResult(), getX());
}

LogicalResult xf::verifyUpdate(Operation *op) {
  size_t values = op->getNumResults();
  if (values == 0 || op->getNumOperands() < values + 3)
    return op->emitOpError("expects the parameter and its states, a gradient, "
                           "clip and a schedule, and a result for each state "
                           "and the parameter");
  auto update = cast<OptimizerOpInterface>(op);
  ArrayRef<int64_t> shape = shapeOf(update.getParameter());
  for (size_t i = 1; i < values; ++i)
    if (failed(expectShape(op, "state " + std::to_string(i), op->getOperand(i),
                           shape)))
      return failure();
  if (failed(expectShape(op, "a gradient", update.getGradient(), shape)) ||
      failed(expectShape(op, "clip", update.getClipFactor(), {})) ||
      failed(
          expectShape(op, "a schedule", update.getRates(), {ScheduleOp::size})))
    return failure();
  for (auto [i, more] :
       llvm::enumerate(op->getOperands().drop_front(values + 3)))
    if (failed(expectShape(op, "operand " + std::to_string(values + 3 + i),
                           more, shape)))
      return failure();
  for (auto [i, value] : llvm::enumerate(op->getResults()))
    if (failed(expectShape(op, "new value " + std::to_string(i), value, shape)))
      return failure();
  for (OpResult value : op->getResults()) {
    Type old = getElementTypeOrSelf(update.getOldValue(value).get());
    if (Type type = getElementTypeOrSelf(value); type != old)
      return op->emitOpError("expects new value ")
             << value.getResultNumber() << " of the old one's type " << old
             << ", got " << type;
  }
  return success();
}
