//===- KernelRunner.cpp - A kernel description, executed in f64 -----------===//
#include "KernelRunner.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "gtest/gtest.h"
#include <cmath>
#include <functional>

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
/// A value of the scalar program: one number for each column of the row.
using Row = std::vector<double>;

class BodyRunner {
public:
  BodyRunner(int64_t columns, int64_t shard) : columns(columns), shard(shard) {}

  std::map<void *, Row> values;

  Row &at(Value value) { return values[value.getAsOpaquePointer()]; }

  void run(Operation *op) {
    Row y(columns);
    auto each = [&](const std::function<double(ArrayRef<double>)> &f) {
      for (int64_t c = 0; c < columns; ++c) {
        SmallVector<double> x;
        for (Value operand : op->getOperands())
          x.push_back(at(operand)[c]);
        y[c] = f(x);
      }
    };
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
        y.assign(columns, real.getValueAsDouble());
      else
        y.assign(columns,
                 double(cast<IntegerAttr>(constant.getValue()).getInt()));
    } else if (isa<arith::AddFOp, arith::AddIOp>(op)) {
      each([](auto x) { return x[0] + x[1]; });
    } else if (isa<arith::SubFOp>(op)) {
      each([](auto x) { return x[0] - x[1]; });
    } else if (isa<arith::MulFOp, arith::MulIOp>(op)) {
      each([](auto x) { return x[0] * x[1]; });
    } else if (isa<arith::DivFOp>(op)) {
      each([](auto x) { return x[0] / x[1]; });
    } else if (isa<arith::MaximumFOp>(op)) {
      each([](auto x) { return std::max(x[0], x[1]); });
    } else if (isa<arith::MinimumFOp>(op)) {
      each([](auto x) { return std::min(x[0], x[1]); });
    } else if (isa<arith::AndIOp>(op)) {
      each([](auto x) { return double(x[0] != 0 && x[1] != 0); });
    } else if (isa<arith::SelectOp>(op)) {
      each([](auto x) { return x[0] != 0 ? x[1] : x[2]; });
    } else if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
      ASSERT_EQ(compare.getPredicate(), arith::CmpFPredicate::OGT);
      each([](auto x) { return double(x[0] > x[1]); });
    } else if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
      each([&](auto x) {
        switch (compare.getPredicate()) {
        case arith::CmpIPredicate::eq:
          return double(x[0] == x[1]);
        case arith::CmpIPredicate::slt:
          return double(x[0] < x[1]);
        case arith::CmpIPredicate::sge:
          return double(x[0] >= x[1]);
        default:
          ADD_FAILURE() << "unknown predicate";
          return 0.0;
        }
      });
    } else if (isa<arith::TruncFOp, arith::ExtFOp>(op)) {
      each([](auto x) { return x[0]; });
    } else if (isa<math::ExpOp>(op)) {
      each([](auto x) { return std::exp(x[0]); });
    } else if (isa<math::LogOp>(op)) {
      each([](auto x) { return std::log(x[0]); });
    } else if (isa<math::SqrtOp>(op)) {
      each([](auto x) { return std::sqrt(x[0]); });
    } else if (isa<math::RsqrtOp>(op)) {
      each([](auto x) { return 1 / std::sqrt(x[0]); });
    } else if (isa<math::TanhOp>(op)) {
      each([](auto x) { return std::tanh(x[0]); });
    } else if (isa<math::ErfOp>(op)) {
      each([](auto x) { return std::erf(x[0]); });
    } else if (auto fold = dyn_cast<exec::RowReduceOp>(op)) {
      const Row &x = at(fold.getValue());
      double result = x[0];
      for (int64_t c = 1; c < columns; ++c)
        result = fold.getKind() == exec::Reduction::Sum
                     ? result + x[c]
                     : std::max(result, x[c]);
      y.assign(columns, result);
    } else if (isa<exec::ColumnOp>(op)) {
      for (int64_t c = 0; c < columns; ++c)
        y[c] = double(c);
    } else if (isa<exec::ShardIndexOp>(op)) {
      y.assign(columns, double(shard));
    } else {
      FAIL() << "unknown op " << op->getName().getStringRef().str();
    }
    at(op->getResult(0)) = y;
  }

private:
  int64_t columns, shard;
};

int64_t getIndex(exec::AccessAttr access, int64_t row, int64_t column) {
  int64_t r = row / access.getRowDiv();
  if (access.getRowMod())
    r %= access.getRowMod();
  return access.getOffset() + r * access.getRowStride() +
         column * access.getColStride();
}
} // namespace

SmallVector<Array> cleave::xf::runKernel(KernelOpInterface op,
                                         ArrayRef<Array> operands,
                                         int64_t shard) {
  KernelSpace space = op.getKernelSpace();
  Operation *operation = op;
  SmallVector<Array> results;
  for (Value result : operation->getResults()) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(result.getType()).getShape();
    Array array = Array::zeros(shape);
    if (space.copyFrom >= 0)
      array.data = operands[space.copyFrom].data;
    else if (!space.zeroResults)
      llvm::fill(array.data, std::nan(""));
    results.push_back(array);
  }
  bool sums = space.mode == exec::KernelMode::Column;
  if (sums || space.foldRows)
    for (Array &result : results)
      llvm::fill(result.data, 0.0);

  // The program: one argument for each input, f32 or i32.
  Block block;
  OpBuilder builder(operation->getContext());
  for (const KernelAccess &input : space.inputs)
    block.addArgument(input.access.getType().isInteger()
                          ? Type(builder.getI32Type())
                          : Type(builder.getF32Type()),
                      operation->getLoc());
  builder.setInsertionPointToStart(&block);
  SmallVector<Value> yields = op.buildBody(builder, block.getArguments());
  EXPECT_EQ(yields.size(), space.outputs.size());

  for (int64_t row = 0; row < space.rows; ++row) {
    BodyRunner body(space.columns, shard);
    for (auto [argument, input] : llvm::zip(block.getArguments(), space.inputs))
      for (int64_t c = 0; c < space.columns; ++c)
        body.at(argument).push_back(
            operands[input.tensor].data.at(getIndex(input.access, row, c)));
    for (Operation &inner : block)
      body.run(&inner);
    for (auto [value, output] : llvm::zip(yields, space.outputs)) {
      Array &result = results[output.tensor - operation->getNumOperands()];
      bool once = output.access.getColStride() == 0;
      for (int64_t c = 0; c < space.columns; ++c) {
        double x = body.at(value)[c];
        // One element a row must not depend on the column.
        if (once && c > 0) {
          EXPECT_EQ(x, body.at(value)[0]);
          continue;
        }
        int64_t index = space.foldRows ? 0 : getIndex(output.access, row, c);
        double &element = result.data.at(index);
        element = sums || space.foldRows ? element + x : x;
      }
    }
  }
  for (const Array &result : results)
    for (double x : result.data)
      EXPECT_FALSE(std::isnan(x)) << "an element was not written";
  block.clear();
  return results;
}
