//===- Interpreter.cpp - exec.kernel, evaluated one element at a time -----===//
#include "Interpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/ErrorHandling.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

static int64_t getIndex(exec::AccessAttr access, int64_t r, int64_t c) {
  int64_t quotient = r / access.getRowDiv();
  if (access.getRowMod() != 0)
    quotient %= access.getRowMod();
  return access.getOffset() + quotient * access.getRowStride() +
         c * access.getColStride();
}

int64_t test::countElements(exec::KernelOp kernel, exec::AccessAttr access) {
  int64_t last = 0;
  for (int64_t r = 0; r < int64_t(kernel.getRows()); ++r)
    last =
        std::max(last, getIndex(access, r, int64_t(kernel.getColumns()) - 1));
  return last + 1;
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

static bool compare(arith::CmpIPredicate predicate, double x, double y) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return x == y;
  case arith::CmpIPredicate::slt:
    return x < y;
  case arith::CmpIPredicate::sge:
    return x >= y;
  default:
    llvm::report_fatal_error("integer comparison not known here");
  }
}

static double evaluate(Operation &op, ArrayRef<double> x, int64_t column,
                       int64_t shard) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
      return value.getValueAsDouble();
    return double(cast<IntegerAttr>(constant.getValue()).getInt());
  }
  if (auto cmp = dyn_cast<arith::CmpIOp>(op))
    return compare(cmp.getPredicate(), x[0], x[1]);
  StringRef name = op.getName().getStringRef();
  if (name == "exec.column")
    return double(column);
  if (name == "exec.shard_index")
    return double(shard);
  if (name == "arith.addf" || name == "arith.addi")
    return x[0] + x[1];
  if (name == "arith.subf")
    return x[0] - x[1];
  if (name == "arith.mulf" || name == "arith.muli")
    return x[0] * x[1];
  if (name == "arith.divf")
    return x[0] / x[1];
  if (name == "arith.negf")
    return -x[0];
  if (name == "arith.maximumf")
    return std::max(x[0], x[1]);
  if (name == "arith.andi")
    return x[0] != 0 && x[1] != 0;
  if (name == "arith.select")
    return x[0] != 0 ? x[1] : x[2];
  if (name == "arith.truncf")
    return roundToBf16(x[0]);
  if (name == "arith.extf")
    return x[0];
  if (name == "math.exp")
    return std::exp(x[0]);
  if (name == "math.log")
    return std::log(x[0]);
  if (name == "math.tanh")
    return std::tanh(x[0]);
  if (name == "math.erf")
    return std::erf(x[0]);
  if (name == "math.sqrt")
    return std::sqrt(x[0]);
  if (name == "math.rsqrt")
    return 1 / std::sqrt(x[0]);
  llvm::report_fatal_error("op not known here: " + Twine(name));
}

void test::interpret(exec::KernelOp kernel, std::vector<Operand> &operands,
                     int64_t shardIndex, int64_t microBatch) {
  int64_t rows = int64_t(kernel.getRows());
  size_t columns = size_t(kernel.getColumns());
  Block &body = kernel.getBody().front();
  auto inputs = kernel.getInputs().getAsRange<exec::AccessAttr>();
  auto outputs = kernel.getOutputs().getAsRange<exec::AccessAttr>();
  size_t firstOutput = kernel.getInputs().size();
  bool adds = kernel.getAccumulate() == "always" ||
              (kernel.getAccumulate() == "after_first" && microBatch > 0);
  bool sumsRows = kernel.getMode() == exec::KernelMode::Column;

  // New values of all outputs, so that none is read again.
  std::vector<Operand> results(operands.begin() + int64_t(firstOutput),
                               operands.end());
  if (!adds && sumsRows)
    for (auto [result, access] : llvm::zip(results, outputs))
      for (size_t c = 0; c < columns; ++c)
        result[size_t(getIndex(access, 0, int64_t(c)))] = 0;

  for (int64_t r = 0; r < rows; ++r) {
    llvm::DenseMap<Value, std::vector<double>> values;
    for (auto [i, access] : llvm::enumerate(inputs)) {
      std::vector<double> &row = values[body.getArgument(unsigned(i))];
      for (size_t c = 0; c < columns; ++c)
        row.push_back(operands[i][size_t(getIndex(access, r, int64_t(c)))]);
    }
    for (Operation &op : body.without_terminator()) {
      std::vector<double> row(columns);
      for (size_t c = 0; c < columns; ++c) {
        SmallVector<double> x;
        for (Value operand : op.getOperands())
          x.push_back(values[operand][c]);
        row[c] = isa<exec::RowReduceOp>(op)
                     ? x[0]
                     : evaluate(op, x, int64_t(c), shardIndex);
      }
      if (auto reduce = dyn_cast<exec::RowReduceOp>(op)) {
        bool isSum = reduce.getKind() == exec::ReduceKind::Sum;
        double fold = isSum ? 0 : -std::numeric_limits<double>::infinity();
        for (double x : row)
          fold = isSum ? fold + x : std::max(fold, x);
        row.assign(columns, fold);
      }
      values[op.getResult(0)] = std::move(row);
    }
    auto yielded = cast<exec::YieldOp>(body.back()).getValues();
    for (auto [i, access] : llvm::enumerate(outputs))
      for (size_t c = 0; c < columns; ++c) {
        if (access.getColStride() == 0 && c > 0)
          break;
        size_t at = size_t(getIndex(access, r, int64_t(c)));
        double value = values[yielded[i]][c];
        results[i][at] = sumsRows || adds ? results[i][at] + value : value;
      }
  }
  llvm::copy(results, operands.begin() + int64_t(firstOutput));
}
