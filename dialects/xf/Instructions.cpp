//===- Instructions.cpp - The instruction of each op with a routine -------===//
#include "dialects/xf/Xf.h"
#include "runtime/abi/Workspace.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The program format's code of an element type.
static int64_t codeOf(Value value) {
  Type type = typeOf(value).getElementType();
  return type.isBF16() ? 1 : type.isInteger(32) ? 2 : 0;
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

/// A buffer for scratch; none if it has no bytes.
static SmallVector<Value> addWorkspace(OpBuilder &b, Location loc,
                                       size_t bytes) {
  if (bytes == 0)
    return {};
  return {exec::BufferOp::create(b, loc, "workspace", bytes)};
}

static ArrayAttr getShardAxes(Operation *op) {
  return op->getAttrOfType<ArrayAttr>("shard_axes");
}

static Operation *buildGemm(OpBuilder &b, Location loc,
                            const InstructionSite &site, ValueRange inputs,
                            ArrayRef<int64_t> mnk, bool transA, bool transB,
                            ArrayRef<int64_t> types) {
  size_t bytes =
      cpu::gemmWorkspaceBytes(mnk[0], mnk[1], mnk[2], transA, transB, types[0],
                              types[1], types[2], site.threads);
  return exec::GemmOp::create(b, loc, inputs, site.outputs,
                              addWorkspace(b, loc, bytes), mnk[0], mnk[1],
                              mnk[2], transA, transB, types[0], types[1],
                              types[2], site.mode, inputs.size() == 3);
}

/// x [m, k], weight [n, k] or [k, n].
Operation *LinearOp::buildInstruction(OpBuilder &b,
                                      const InstructionSite &site) {
  ArrayRef<int64_t> x = typeOf(getX()).getShape();
  int64_t m = product(x.take_front(getNumLeading()));
  int64_t k = product(x.drop_front(getNumLeading()));
  int64_t n = typeOf(getWeight()).getNumElements() / k;
  return buildGemm(b, getLoc(), site, site.inputs, {m, n, k}, false,
                   !getInputsFirst(),
                   {codeOf(getX()), codeOf(getWeight()), codeOf(getResult())});
}

/// dy^T x [n, k], or x^T dy [k, n], over the rows.
Operation *LinearWeightGradOp::buildInstruction(OpBuilder &b,
                                                const InstructionSite &site) {
  ArrayRef<int64_t> x = typeOf(getX()).getShape();
  int64_t rows = product(x.take_front(getLeading()));
  int64_t ins = product(x.drop_front(getLeading()));
  int64_t outs = typeOf(getDy()).getNumElements() / rows;
  Value xBuffer = site.inputs[0], dyBuffer = site.inputs[1];
  if (getInputsFirst())
    return buildGemm(b, getLoc(), site, {xBuffer, dyBuffer}, {ins, outs, rows},
                     true, false,
                     {codeOf(getX()), codeOf(getDy()), codeOf(getResult())});
  return buildGemm(b, getLoc(), site, {dyBuffer, xBuffer}, {outs, ins, rows},
                   true, false,
                   {codeOf(getDy()), codeOf(getX()), codeOf(getResult())});
}

Operation *AttentionOp::buildInstruction(OpBuilder &b,
                                         const InstructionSite &site) {
  ArrayRef<int64_t> q = typeOf(getQ()).getShape();
  int64_t kvHeads = typeOf(getK()).getDimSize(2), type = codeOf(getQ());
  size_t bytes = cpu::attentionWorkspaceBytes(q[0], q[1], q[2], kvHeads, q[3],
                                              type, site.threads);
  return exec::AttentionOp::create(b, getLoc(), site.inputs, site.outputs,
                                   addWorkspace(b, getLoc(), bytes), q[0], q[1],
                                   q[2], kvHeads, q[3], getWindow(), type,
                                   getScale(), getSoftcap());
}

Operation *AttentionGradOp::buildInstruction(OpBuilder &b,
                                             const InstructionSite &site) {
  ArrayRef<int64_t> q = typeOf(getQ()).getShape();
  int64_t kvHeads = typeOf(getK()).getDimSize(2), type = codeOf(getQ());
  size_t bytes = cpu::attentionGradWorkspaceBytes(q[0], q[1], q[2], kvHeads,
                                                  q[3], type, site.threads);
  return exec::AttentionGradOp::create(b, getLoc(), site.inputs, site.outputs,
                                       addWorkspace(b, getLoc(), bytes), q[0],
                                       q[1], q[2], kvHeads, q[3], getWindow(),
                                       type, getScale(), getSoftcap());
}

Operation *EmbeddingOp::buildInstruction(OpBuilder &b,
                                         const InstructionSite &site) {
  ArrayRef<int64_t> table = typeOf(getTable()).getShape();
  return exec::EmbeddingOp::create(
      b, getLoc(), site.inputs, site.outputs, ValueRange(),
      typeOf(getIds()).getNumElements(), table[1], table[0], codeOf(getTable()),
      codeOf(getResult()), getShardAxes(*this));
}

Operation *EmbeddingGradOp::buildInstruction(OpBuilder &b,
                                             const InstructionSite &site) {
  ArrayRef<int64_t> table = typeOf(getResult()).getShape();
  return exec::EmbeddingGradOp::create(
      b, getLoc(), site.inputs, site.outputs, ValueRange(),
      typeOf(getIds()).getNumElements(), table[1], table[0], codeOf(getDy()),
      codeOf(getResult()), site.mode, getShardAxes(*this));
}

Operation *ScheduleOp::buildInstruction(OpBuilder &b,
                                        const InstructionSite &site) {
  return exec::ScheduleOp::create(
      b, getLoc(), ValueRange(), site.outputs, ValueRange(), int64_t(getKind()),
      getWarmupSteps(), getDecaySteps(), getStableSteps(), getLr(), getMinLr(),
      getBeta1(), getBeta2());
}
