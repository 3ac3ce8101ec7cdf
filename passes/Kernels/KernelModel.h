//===- KernelModel.h - What the kernels of ops are written with -----------===//
//
// The kernel of an op is a struct with its space and its scalar program:
//
//   struct ScaleKernel : PointwiseKernel<ScaleKernel, ScaleOp> {
//     static SmallVector<Value> getBody(ScaleOp op, Scalars s,
//                                       ValueRange args) {
//       return {s.mul(args[0], op.getFactor().convertToDouble())};
//     }
//   };
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_KERNELS_KERNELMODEL_H
#define CLEAVE_PASSES_KERNELS_KERNELMODEL_H

#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Kernels/LoweringInterfaces.h"
#include "passes/Kernels/Lowerings.h"
#include "passes/Kernels/Tensors.h"

namespace cleave {

/// The size of the last dim; 1 of a scalar.
int64_t lastDim(mlir::Value value);

/// Builds the space of `op`: `columns` trailing elements, the rest rows.
/// Tensors are numbered as operands, then results.
class SpaceBuilder {
public:
  SpaceBuilder(mlir::Operation *op, mlir::Value shaped, int64_t columns);

  /// A tensor of rows x columns elements.
  void full(mlir::Value value) { add(value, 0, 1, 0, space.columns, 1); }
  /// One element a row.
  void perRow(mlir::Value value) { add(value, 0, 1, 0, 1, 0); }
  /// One element a column.
  void perColumn(mlir::Value value) { add(value, 0, 1, 1, 0, 1); }
  void scalar(mlir::Value value, int64_t offset = 0) {
    add(value, offset, 1, 1, 0, 0);
  }
  void add(mlir::Value value, int64_t offset, int64_t rowDiv, int64_t rowMod,
           int64_t rowStride, int64_t colStride);

  KernelSpace space;

private:
  mlir::Operation *op;
};

/// Every operand and result has the result's shape.
KernelSpace getPointwiseSpace(mlir::Operation *op);

/// Rows are summed one by one, then their sums.
KernelSpace getFullReductionSpace(mlir::Operation *op);

/// f32 arithmetic, spelled short.
struct Scalars {
  mlir::OpBuilder &b;
  mlir::Location loc;

  using Value = mlir::Value;
  Value constant(double value);
  Value constantInt(int64_t value);
  Value add(Value x, Value y) { return make<mlir::arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return make<mlir::arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return make<mlir::arith::MulFOp>(x, y); }
  Value div(Value x, Value y) { return make<mlir::arith::DivFOp>(x, y); }
  Value add(Value x, double y) { return add(x, constant(y)); }
  Value mul(Value x, double y) { return mul(x, constant(y)); }
  Value max(Value x, Value y) { return make<mlir::arith::MaximumFOp>(x, y); }
  Value min(Value x, Value y) { return make<mlir::arith::MinimumFOp>(x, y); }
  Value exp(Value x) { return make<mlir::math::ExpOp>(x); }
  Value log(Value x) { return make<mlir::math::LogOp>(x); }
  Value sqrt(Value x) { return make<mlir::math::SqrtOp>(x); }
  Value rsqrt(Value x) { return make<mlir::math::RsqrtOp>(x); }
  Value tanh(Value x) { return make<mlir::math::TanhOp>(x); }
  Value erf(Value x) { return make<mlir::math::ErfOp>(x); }
  Value both(Value x, Value y) { return make<mlir::arith::AndIOp>(x, y); }
  Value select(Value condition, Value x, Value y) {
    return make<mlir::arith::SelectOp>(condition, x, y);
  }
  Value isPositive(Value x) {
    return make<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OGT, x,
                                     constant(0));
  }
  Value compare(mlir::arith::CmpIPredicate predicate, Value x, Value y) {
    return make<mlir::arith::CmpIOp>(predicate, x, y);
  }
  Value sumRow(Value x) {
    return make<exec::RowReduceOp>(exec::Reduction::Sum, x);
  }
  Value maxRow(Value x) {
    return make<exec::RowReduceOp>(exec::Reduction::Max, x);
  }
  /// The column in the whole tensor, of which this rank has `columns`.
  Value globalColumn(int64_t columns);
  /// Rounds to bf16 and back, if that is how the value would be stored.
  Value roundTo(mlir::Type stored, Value x);

private:
  template <typename Op, typename... Args>
  Value make(Args... args) {
    return Op::create(b, loc, args...);
  }
};

/// The kernel of `Op`, from `Self`'s getSpace and getBody.
template <typename Self, typename Op>
struct KernelModel : KernelOpInterface::ExternalModel<Self, Op> {
  KernelSpace getKernelSpace(mlir::Operation *op) const {
    return Self::getSpace(mlir::cast<Op>(op));
  }
  llvm::SmallVector<mlir::Value> buildBody(mlir::Operation *op,
                                           mlir::OpBuilder &b,
                                           mlir::ValueRange args) const {
    return Self::getBody(mlir::cast<Op>(op), Scalars{b, op->getLoc()}, args);
  }
};

template <typename Self, typename Op>
struct PointwiseKernel : KernelModel<Self, Op> {
  static KernelSpace getSpace(Op op) { return getPointwiseSpace(op); }
};

template <typename Self, typename Op>
struct ReductionKernel : KernelModel<Self, Op> {
  static KernelSpace getSpace(Op op) { return getFullReductionSpace(op); }
};

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_KERNELMODEL_H
