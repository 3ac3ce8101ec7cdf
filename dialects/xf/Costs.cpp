//===- Costs.cpp - FLOPs and bytes of each op -----------------------------===//
#include "dialects/xf/Xf.h"

using namespace mlir;
using namespace cleave::xf;

static double getElements(Value value) {
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
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

/// Each element of the weight meets each leading row once.
double LinearOp::getFlops() {
  double rows = 1;
  for (int64_t size : getX().getType().getShape().take_front(getNumLeading()))
    rows *= double(size);
  return 2 * rows * getElements(getWeight());
}

double LinearWeightGradOp::getFlops() {
  double rows = 1;
  for (int64_t size : getX().getType().getShape().take_front(getLeading()))
    rows *= double(size);
  return 2 * rows * getElements(getResult());
}

/// Query-key pairs of one head that a causal mask with a window leaves.
static double getPairs(double seq, double window) {
  if (window <= 0 || window >= seq)
    return seq * (seq + 1) / 2;
  return window * (window + 1) / 2 + (seq - window) * window;
}

/// Two products (q k^T and p v) of 2 d FLOPs for each pair.
double AttentionOp::getFlops() {
  auto q = getQ().getType().getShape();
  return 4. * q[0] * q[2] * q[3] * getPairs(q[1], getWindow());
}

/// Five products: scores again, dp, dv, dq, dk.
double AttentionGradOp::getFlops() {
  auto q = getQ().getType().getShape();
  return 10. * q[0] * q[2] * q[3] * getPairs(q[1], getWindow());
}
