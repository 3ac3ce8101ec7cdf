//===- KernelModel.cpp - What the kernels of ops are written with ---------===//
#include "passes/Kernels/KernelModel.h"

using namespace mlir;
using namespace cleave;
using exec::AccessAttr;

int64_t cleave::lastDim(Value value) {
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  return shape.empty() ? 1 : shape.back();
}

//===----------------------------------------------------------------------===//
// Spaces
//===----------------------------------------------------------------------===//

SpaceBuilder::SpaceBuilder(Operation *op, Value shaped, int64_t columns)
    : op(op) {
  space.columns = columns;
  space.rows = typeOf(shaped).getNumElements() / columns;
}

void SpaceBuilder::add(Value value, int64_t offset, int64_t rowDiv,
                       int64_t rowMod, int64_t rowStride, int64_t colStride) {
  auto access =
      AccessAttr::get(op->getContext(), typeOf(value).getElementType(), offset,
                      rowDiv, rowMod, rowStride, colStride);
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

KernelSpace cleave::getPointwiseSpace(Operation *op) {
  Value result = op->getResult(0);
  SpaceBuilder builder(op, result, lastDim(result));
  for (Value value : op->getOperands())
    builder.full(value);
  for (Value value : op->getResults())
    builder.full(value);
  return builder.space;
}

KernelSpace cleave::getFullReductionSpace(Operation *op) {
  Value x = op->getOperand(0);
  SpaceBuilder builder(op, x, lastDim(x));
  builder.full(x);
  builder.perRow(op->getResult(0));
  builder.space.foldRows = true;
  return builder.space;
}

//===----------------------------------------------------------------------===//
// Scalar programs
//===----------------------------------------------------------------------===//

Value Scalars::constant(double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
}

Value Scalars::constantInt(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
}

Value Scalars::globalColumn(int64_t columns) {
  Value column = exec::ColumnOp::create(b, loc, b.getI32Type());
  Value shard = exec::ShardIndexOp::create(b, loc, b.getI32Type());
  Value first = arith::MulIOp::create(b, loc, shard, constantInt(columns));
  return arith::AddIOp::create(b, loc, first, column);
}

Value Scalars::roundTo(Type stored, Value x) {
  if (!stored.isBF16())
    return x;
  Value rounded = arith::TruncFOp::create(b, loc, stored, x);
  return arith::ExtFOp::create(b, loc, b.getF32Type(), rounded);
}
