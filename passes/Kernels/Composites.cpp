//===- Composites.cpp - The ops that are computed by others ---------------===//
#include "dialects/xf/Xf.h"
#include "passes/Kernels/LoweringInterfaces.h"
#include "passes/Kernels/Lowerings.h"
#include "passes/Kernels/Tensors.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
/// Products of a matrix of `leading` dims of rows with itself and with others,
/// on its shorter side: X X^T from the left, or, if it has more rows than
/// columns, X^T X from the right. Powers of both are symmetric.
class ShorterSide {
public:
  ShorterSide(OpBuilder &b, Location loc, RankedTensorType type,
              int64_t leading)
      : b(b), loc(loc), type(type), leading(leading) {
    ArrayRef<int64_t> rows = type.getShape().take_front(leading),
                      columns = type.getShape().drop_front(leading);
    isTall = product(rows) > product(columns);
    ArrayRef<int64_t> side = isTall ? columns : rows;
    dims = int64_t(side.size());
    SmallVector<int64_t> square(side);
    square.append(side.begin(), side.end());
    squareType = type.clone(square);
  }

  /// X X^T, or X^T X.
  Value multiplyBySelf(Value x) const {
    if (isTall)
      return LinearWeightGradOp::create(b, loc, squareType, x, x, leading,
                                        /*inputs_first=*/false);
    return LinearOp::create(b, loc, squareType, x, x, /*bias=*/Value(),
                            type.getRank() - leading, /*inputs_first=*/false);
  }
  /// Of two such products.
  Value multiplySquares(Value p, Value q) const {
    return multiply(squareType, p, q);
  }
  /// Such a product times X, or X times it.
  Value apply(Value p, Value x) const {
    return isTall ? multiply(type, x, p) : multiply(type, p, x);
  }

private:
  Value multiply(RankedTensorType result, Value left, Value right) const {
    return LinearOp::create(b, loc, result, left, right, /*bias=*/Value(), dims,
                            /*inputs_first=*/true);
  }

  OpBuilder &b;
  Location loc;
  RankedTensorType type, squareType;
  int64_t leading, dims;
  bool isTall;
};

struct OrthogonalizeParts
    : CompositeOpInterface::ExternalModel<OrthogonalizeParts, OrthogonalizeOp> {
  SmallVector<Value> buildParts(Operation *base, OpBuilder &b) const {
    auto op = cast<OrthogonalizeOp>(base);
    Location loc = op.getLoc();
    RankedTensorType type = op.getX().getType();
    // Neighbours, so that they are one kernel.
    auto addScaled = [&](Value x, FloatAttr factor, Value y) -> Value {
      Value scaled = ScaleOp::create(b, loc, x.getType(), x, factor);
      return AddOp::create(b, loc, x.getType(), ValueRange{scaled, y});
    };
    ShorterSide side(b, loc, type, op.getRows());
    Value squares =
        SquareSumOp::create(b, loc, type.clone(ArrayRef<int64_t>()), op.getX());
    Value x =
        NormalizeOp::create(b, loc, type, op.getX(), squares, op.getEpsAttr());
    for (int64_t step = 0; step < int64_t(op.getSteps()); ++step) {
      Value once = side.multiplyBySelf(x);
      Value twice = side.multiplySquares(once, once);
      Value scaled =
          ScaleOp::create(b, loc, twice.getType(), twice, op.getCAttr());
      Value both = addScaled(once, op.getBAttr(), scaled);
      Value moved = side.apply(both, x);
      x = addScaled(x, op.getAAttr(), moved);
    }
    return {x};
  }
};
} // namespace

void cleave::attachComposites(MLIRContext *context) {
  OrthogonalizeOp::attachInterface<OrthogonalizeParts>(*context);
}
