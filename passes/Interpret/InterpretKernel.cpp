//===- InterpretKernel.cpp - exec.kernel, in f64 --------------------------===//
//
// Each op of the body is evaluated on all elements of the space, row by row,
// before the next one is.
//
//===----------------------------------------------------------------------===//
#include "passes/Interpret/InterpretKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Interpret/SimulatedRanks.h"
#include "llvm/ADT/DenseMap.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace cleave;

static int64_t getIndex(exec::AccessAttr access, int64_t r, int64_t c) {
  int64_t quotient = r / access.getRowDiv();
  if (access.getRowMod() != 0)
    quotient %= access.getRowMod();
  return access.getOffset() + quotient * access.getRowStride() +
         c * access.getColStride();
}

int64_t cleave::countElements(exec::KernelOp kernel, exec::AccessAttr access) {
  if (!cleave::countElements(
          {int64_t(kernel.getRows()), int64_t(kernel.getColumns())}))
    return maxElements + 1;
  int64_t last = 0;
  for (int64_t r = 0; r < int64_t(kernel.getRows()); ++r)
    last =
        std::max(last, getIndex(access, r, int64_t(kernel.getColumns()) - 1));
  return last + 1;
}

std::vector<int64_t> cleave::getIndices(exec::KernelOp kernel,
                                        exec::AccessAttr access) {
  std::vector<int64_t> indices;
  for (int64_t r = 0; r < int64_t(kernel.getRows()); ++r)
    for (int64_t c = 0; c < int64_t(kernel.getColumns()); ++c)
      indices.push_back(getIndex(access, r, c));
  return indices;
}

/// The nearest bf16, ties to even.
static double roundToBf16(double x) {
  float f = float(x);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  bits += 0x7fff + ((bits >> 16) & 1);
  bits &= 0xffff0000u;
  std::memcpy(&f, &bits, 4);
  return f;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// The larger one; not a number if either is not.
static double getMax(double x, double y) {
  return x < y || std::isnan(y) ? y : x;
}

/// An op on up to three scalars; null if it is not known here.
using Scalar = double (*)(double, double, double);

static Scalar findComparison(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return [](double x, double y, double) { return double(x == y); };
  case arith::CmpIPredicate::slt:
    return [](double x, double y, double) { return double(x < y); };
  case arith::CmpIPredicate::sge:
    return [](double x, double y, double) { return double(x >= y); };
  default:
    return nullptr;
  }
}

static Scalar findScalar(Operation &op, bool rounds) {
  if (auto cmp = dyn_cast<arith::CmpIOp>(op))
    return findComparison(cmp.getPredicate());
  if (auto cmp = dyn_cast<arith::CmpFOp>(op))
    return cmp.getPredicate() == arith::CmpFPredicate::OGT
               ? [](double x, double y, double) { return double(x > y); }
               : Scalar();
  if (isa<arith::AddFOp, arith::AddIOp>(op))
    return [](double x, double y, double) { return x + y; };
  if (isa<arith::SubFOp>(op))
    return [](double x, double y, double) { return x - y; };
  if (isa<arith::MulFOp, arith::MulIOp>(op))
    return [](double x, double y, double) { return x * y; };
  if (isa<arith::DivFOp>(op))
    return [](double x, double y, double) { return x / y; };
  if (isa<arith::NegFOp>(op))
    return [](double x, double, double) { return -x; };
  if (isa<arith::MaximumFOp>(op))
    return [](double x, double y, double) { return getMax(x, y); };
  if (isa<arith::MinimumFOp>(op))
    return [](double x, double y, double) { return -getMax(-x, -y); };
  if (isa<arith::AndIOp>(op))
    return [](double x, double y, double) { return double(x != 0 && y != 0); };
  if (isa<arith::SelectOp>(op))
    return [](double x, double y, double z) { return x != 0 ? y : z; };
  if (isa<arith::TruncFOp>(op) && rounds)
    return [](double x, double, double) { return roundToBf16(x); };
  if (isa<arith::TruncFOp, arith::ExtFOp>(op))
    return [](double x, double, double) { return x; };
  if (isa<math::ExpOp>(op))
    return [](double x, double, double) { return std::exp(x); };
  if (isa<math::LogOp>(op))
    return [](double x, double, double) { return std::log(x); };
  if (isa<math::TanhOp>(op))
    return [](double x, double, double) { return std::tanh(x); };
  if (isa<math::ErfOp>(op))
    return [](double x, double, double) { return std::erf(x); };
  if (isa<math::SqrtOp>(op))
    return [](double x, double, double) { return std::sqrt(x); };
  if (isa<math::RsqrtOp>(op))
    return [](double x, double, double) { return 1 / std::sqrt(x); };
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

namespace {
/// The values of a body, each one number for each element of the space.
class Body {
public:
  Body(exec::KernelOp kernel, const KernelLaunch &launch)
      : launch(launch), rows(size_t(kernel.getRows())),
        columns(size_t(kernel.getColumns())) {}

  /// The element of `access` in each element of the space.
  void read(Value argument, exec::AccessAttr access,
            const KernelOperand &operand) {
    KernelOperand &all = values[argument];
    all.reserve(rows * columns);
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c)
        all.push_back(
            operand[size_t(getIndex(access, int64_t(r), int64_t(c)))]);
  }

  LogicalResult evaluate(Operation &op) {
    KernelOperand all(rows * columns);
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto real = dyn_cast<FloatAttr>(constant.getValue());
      all.assign(rows * columns,
                 real
                     ? real.getValueAsDouble()
                     : double(cast<IntegerAttr>(constant.getValue()).getInt()));
    } else if (isa<exec::ShardIndexOp>(op)) {
      all.assign(rows * columns, double(launch.shardIndex));
    } else if (isa<exec::ColumnOp>(op)) {
      for (size_t i = 0; i < all.size(); ++i)
        all[i] = double(i % columns);
    } else if (auto reduce = dyn_cast<exec::RowReduceOp>(op)) {
      foldRows(reduce, all);
    } else if (Scalar scalar = findScalar(op, launch.rounds)) {
      const double *x[3] = {all.data(), all.data(), all.data()};
      for (auto [i, operand] : llvm::enumerate(op.getOperands()))
        x[i] = values.at(operand).data();
      for (size_t i = 0; i < all.size(); ++i)
        all[i] = scalar(x[0][i], x[1][i], x[2][i]);
    } else {
      return op.emitOpError("has no meaning in f64 in a kernel");
    }
    values[op.getResult(0)] = std::move(all);
    return success();
  }

  double get(Value value, int64_t r, int64_t c) const {
    return values.at(value)[size_t(r) * columns + size_t(c)];
  }

private:
  void foldRows(exec::RowReduceOp op, KernelOperand &all) {
    const KernelOperand &x = values.at(op.getValue());
    bool isSum = op.getKind() == exec::Reduction::Sum;
    for (size_t r = 0; r < rows; ++r) {
      double fold = isSum ? 0 : -std::numeric_limits<double>::infinity();
      for (size_t i = r * columns; i < (r + 1) * columns; ++i)
        fold = isSum ? fold + x[i] : getMax(fold, x[i]);
      std::fill_n(all.begin() + int64_t(r * columns), columns, fold);
    }
  }

  const KernelLaunch &launch;
  size_t rows, columns;
  llvm::DenseMap<Value, KernelOperand> values;
};
} // namespace

LogicalResult cleave::interpretKernel(exec::KernelOp kernel,
                                      std::vector<KernelOperand> &operands,
                                      const KernelLaunch &launch) {
  int64_t rows = int64_t(kernel.getRows()),
          columns = int64_t(kernel.getColumns());
  Block &block = kernel.getBody().front();
  auto inputs = kernel.getInputs().getAsRange<exec::AccessAttr>();
  auto outputs = kernel.getOutputs().getAsRange<exec::AccessAttr>();
  size_t firstOutput = kernel.getInputs().size();
  bool adds = kernel.getAccumulate() == exec::Accumulate::Always ||
              (kernel.getAccumulate() == exec::Accumulate::AfterFirst &&
               !launch.isFirst);
  bool sumsRows = kernel.getMode() == exec::KernelMode::Column;

  Body body(kernel, launch);
  for (auto [i, access] : llvm::enumerate(inputs))
    body.read(block.getArgument(unsigned(i)), access, operands[i]);
  for (Operation &op : block.without_terminator())
    if (failed(body.evaluate(op)))
      return failure();

  auto yielded = cast<exec::YieldOp>(block.back()).getValues();
  for (auto [i, access] : llvm::enumerate(outputs)) {
    KernelOperand &output = operands[firstOutput + i];
    if (!adds && sumsRows)
      for (int64_t c = 0; c < columns; ++c)
        output[size_t(getIndex(access, 0, c))] = 0;
    int64_t last = access.getColStride() == 0 ? 1 : columns;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < last; ++c) {
        double &to = output[size_t(getIndex(access, r, c))];
        double value = body.get(yielded[i], r, c);
        to = sumsRows || adds ? to + value : value;
      }
  }
  return success();
}
