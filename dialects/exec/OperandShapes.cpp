//===- OperandShapes.cpp - What the operands of an instruction hold -------===//
//
// The table of runtime/program/README.md, as numbers of elements.
//
//===----------------------------------------------------------------------===//
#include "dialects/exec/Exec.h"
#include "runtime/program/Work.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

using Shapes = SmallVector<OperandShape>;

/// More than any buffer has where the product is too large to count.
static int64_t multiply(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors)
    if (llvm::MulOverflow(product, factor, product))
      return std::numeric_limits<int64_t>::max();
  return product;
}

static OperandShape shape(Type type, std::initializer_list<int64_t> sizes) {
  int64_t elements = multiply(sizes);
  return {type, elements, elements};
}

static Type getF32(Operation *op) { return Float32Type::get(op->getContext()); }
static Type getI32(Operation *op) {
  return IntegerType::get(op->getContext(), 32);
}

/// Elements from the operand's start to behind the last one of an access.
static int64_t getEnd(KernelOp kernel, AccessAttr access) {
  int64_t lastRow = (int64_t(kernel.getRows()) - 1) / access.getRowDiv();
  if (access.getRowMod() > 0)
    lastRow = std::min(lastRow, access.getRowMod() - 1);
  int64_t end = multiply({lastRow, access.getRowStride()});
  int64_t rest = access.getColStride() ? int64_t(kernel.getColumns()) : 1;
  if (llvm::AddOverflow(end, rest, end) ||
      llvm::AddOverflow(end, access.getOffset(), end))
    return std::numeric_limits<int64_t>::max();
  return end;
}

/// Of rows that meet in one place, the elements of one.
static int64_t countElements(KernelOp kernel, AccessAttr access) {
  bool isPlain = access.getRowDiv() == 1 && access.getRowMod() == 0;
  if (access.getRowStride() > 0 && access.getRowMod() != 1 && !isPlain)
    return 0;
  int64_t rows =
      isPlain && access.getRowStride() > 0 ? int64_t(kernel.getRows()) : 1;
  return multiply(
      {rows, access.getColStride() ? int64_t(kernel.getColumns()) : 1});
}

Shapes LaunchOp::getOperandShapes(int64_t) {
  auto kernel =
      SymbolTable::lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  Shapes shapes;
  for (ArrayAttr accesses : {kernel.getInputs(), kernel.getOutputs()})
    for (auto access : accesses.getAsRange<AccessAttr>())
      shapes.push_back({access.getType(), getEnd(kernel, access),
                        countElements(kernel, access), /*isAtLeast=*/true});
  return shapes;
}

Shapes GemmOp::getOperandShapes(int64_t) {
  int64_t m = getM(), n = getN(), k = getK();
  Shapes shapes{shape(getTypeA(), {m, k}), shape(getTypeB(), {k, n})};
  if (getHasBias())
    shapes.push_back(shape(getF32(*this), {n}));
  shapes.push_back(shape(getTypeC(), {m, n}));
  return shapes;
}

/// q, k, v, out, lse.
template <typename Op>
static Shapes getAttentionShapes(Op op) {
  int64_t rows = multiply({int64_t(op.getBatch()), int64_t(op.getSeq())});
  OperandShape lse = shape(getF32(op), {rows, int64_t(op.getHeads())});
  OperandShape queries = shape(
      op.getType(), {rows, int64_t(op.getHeads()), int64_t(op.getHeadDim())});
  OperandShape keys = shape(
      op.getType(), {rows, int64_t(op.getKvHeads()), int64_t(op.getHeadDim())});
  return {queries, keys, keys, queries, lse};
}

Shapes AttentionOp::getOperandShapes(int64_t) {
  return getAttentionShapes(*this);
}

Shapes AttentionGradOp::getOperandShapes(int64_t) {
  Shapes shapes = getAttentionShapes(*this);
  OperandShape queries = shapes[0], keys = shapes[1];
  shapes.append({queries, queries, keys, keys}); // dout, dq, dk, dv
  return shapes;
}

Shapes EmbeddingOp::getOperandShapes(int64_t) {
  int64_t rows = getRows(), width = getWidth();
  return {shape(getI32(*this), {rows}),
          shape(getTypeTable(), {int64_t(getTableRows()), width}),
          shape(getTypeOut(), {rows, width})};
}

Shapes EmbeddingGradOp::getOperandShapes(int64_t) {
  int64_t rows = getRows(), width = getWidth();
  return {shape(getI32(*this), {rows}), shape(getTypeDout(), {rows, width}),
          shape(getTypeDtable(), {int64_t(getTableRows()), width})};
}

Shapes FillOp::getOperandShapes(int64_t) { return {{}}; }
Shapes CopyOp::getOperandShapes(int64_t) { return {{}, {}}; }
Shapes SendOp::getOperandShapes(int64_t) { return {{}}; }
Shapes RecvOp::getOperandShapes(int64_t) { return {{}}; }

Shapes ScheduleOp::getOperandShapes(int64_t) {
  return {shape(getF32(*this), {int64_t(runtime::scheduleValues)})};
}

Shapes AllReduceOp::getOperandShapes(int64_t) {
  OperandShape each = shape(getType(), {int64_t(getElements())});
  return {each, each};
}

/// A rank's [outer, inner], and [outer, n, inner] of all.
template <typename Op>
static std::pair<OperandShape, OperandShape> getParts(Op op, int64_t ranks) {
  int64_t outer = op.getOuter(), inner = op.getInner();
  return {shape(op.getType(), {outer, inner}),
          shape(op.getType(), {outer, ranks, inner})};
}

Shapes AllGatherOp::getOperandShapes(int64_t ranks) {
  auto [part, whole] = getParts(*this, ranks);
  return {part, whole};
}

Shapes ReduceScatterOp::getOperandShapes(int64_t ranks) {
  auto [part, whole] = getParts(*this, ranks);
  return {whole, part};
}

Shapes SliceOp::getOperandShapes(int64_t ranks) {
  auto [part, whole] = getParts(*this, ranks);
  return {whole, part};
}

Shapes AllToAllOp::getOperandShapes(int64_t ranks) {
  OperandShape each =
      shape(getType(), {int64_t(getOuter()), int64_t(getA()), int64_t(getMid()),
                        ranks, int64_t(getB()), int64_t(getInner())});
  return {each, each};
}
