//===- Costs.cpp - FLOPs and bytes of each op -----------------------------===//
//
// Shapes go in, the formulas are Cost/Work.h's. Ops without one there move each
// tensor once.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/Xf.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

static double getElements(Value value) {
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
}

static double getElementBytes(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementTypeBitWidth() / 8.;
}

static double getBytesOf(Value value) {
  return getElements(value) * getElementBytes(value);
}

double cleave::xf::getTensorBytes(Operation *op) {
  double bytes = 0;
  auto add = [&](TypeRange types) {
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        bytes += double(tensor.getNumElements()) *
                 tensor.getElementTypeBitWidth() / 8;
  };
  add(op->getOperandTypes());
  add(op->getResultTypes());
  return bytes;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Product of a tensor's leading dims.
static double countRows(TypedValue<RankedTensorType> x, int64_t leading) {
  double rows = 1;
  for (int64_t size : x.getType().getShape().take_front(leading))
    rows *= double(size);
  return rows;
}

/// Each element of the weight meets each leading row once.
Flops LinearOp::getFlops() {
  return getMatmulFlops(countRows(getX(), getNumLeading()),
                        getElements(getWeight()), 1);
}

Flops LinearWeightGradOp::getFlops() {
  return getMatmulFlops(countRows(getX(), getLeading()),
                        getElements(getResult()), 1);
}

static AttentionWork getWork(Direction direction,
                             TypedValue<RankedTensorType> q,
                             TypedValue<RankedTensorType> v, int64_t window) {
  ArrayRef<int64_t> shape = q.getType().getShape();
  AttentionWork work;
  work.direction = direction;
  work.heads = double(shape[0]) * double(shape[2]);
  work.rows = double(shape[1]);
  work.pairs = getCausalPairs(work.rows, double(window));
  work.headDim = double(shape[3]);
  work.valueDim = double(v.getType().getShape().back());
  return work;
}

std::optional<AttentionWork> AttentionOp::getAttention() {
  return getWork(Direction::Forward, getQ(), getV(), getWindow());
}
Flops AttentionOp::getFlops() { return getAttention()->getFlops(); }

std::optional<AttentionWork> AttentionGradOp::getAttention() {
  return getWork(Direction::Backward, getQ(), getV(), getWindow());
}
Flops AttentionGradOp::getFlops() { return getAttention()->getFlops(); }

Flops OrthogonalizeOp::getFlops() {
  double rows = countRows(getX(), getRows());
  return getOrthogonalizeFlops(rows, getElements(getX()) / rows,
                               double(getSteps()));
}

//===----------------------------------------------------------------------===//
// Memory-bound ops
//===----------------------------------------------------------------------===//

double EmbeddingOp::getBytes() {
  return embeddingPasses.forward * getBytesOf(getResult());
}

Value EmbeddingOp::getLookedUp() { return getTable(); }

double EmbeddingGradOp::getBytes() {
  return embeddingPasses.backward * getBytesOf(getDy());
}

Value EmbeddingGradOp::getLookedUp() { return getResult(); }

double RopeOp::getBytes() { return ropePasses.forward * getBytesOf(getX()); }

double ActivationOp::getBytes() {
  return getActivationPasses(false).forward * getBytesOf(getX());
}

double ActivationGradOp::getBytes() {
  return getActivationPasses(false).backward * getBytesOf(getX());
}

double GluOp::getBytes() {
  return getActivationPasses(true).forward * getBytesOf(getUp());
}

double GluGradOp::getBytes() {
  return getActivationPasses(true).backward * getBytesOf(getUp());
}

double CrossEntropyOp::getBytes() {
  double bytes = getElementBytes(getLogits());
  return getLossBytes(Direction::Forward, getElements(getLogits()), bytes,
                      bytes);
}

double CrossEntropyGradOp::getBytes() {
  return getLossBytes(Direction::Backward, getElements(getLogits()),
                      getElementBytes(getLogits()),
                      getElementBytes(getResult()));
}

double SquareSumOp::getBytes() {
  return gradientNormBytes * getElements(getX());
}

/// Of an update that keeps these moments.
static double getBytesOfUpdate(Value parameter, ValueRange moments) {
  double bytes = 0;
  for (Value moment : moments)
    bytes += getElementBytes(moment);
  return getUpdateBytes(bytes) * getElements(parameter);
}

double AdamWOp::getBytes() {
  return getBytesOfUpdate(getW(), {getM(), getV()});
}
double SGDOp::getBytes() { return getBytesOfUpdate(getW(), getM()); }
double LionOp::getBytes() { return getBytesOfUpdate(getW(), getM()); }
/// It reads the direction, too.
double MuonOp::getBytes() {
  return getBytesOfUpdate(getW(), getM()) + getBytesOf(getDirection());
}
