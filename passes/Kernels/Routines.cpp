//===- Routines.cpp - The instruction of each op with a routine -----------===//
#include "dialects/xf/Xf.h"
#include "passes/Kernels/LoweringInterfaces.h"
#include "passes/Kernels/Lowerings.h"
#include "passes/Kernels/Tensors.h"
#include "runtime/abi/Workspace.h"
#include "runtime/program/Work.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

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

/// C = A B, of mnk[0] rows, mnk[1] columns, over mnk[2]. `tensors`: A, B and C.
static Operation *buildGemm(OpBuilder &b, Location loc,
                            const InstructionSite &site, ValueRange inputs,
                            ArrayRef<int64_t> mnk, bool transA, bool transB,
                            std::array<Value, 3> tensors) {
  auto [a, bTensor, c] = tensors;
  size_t bytes = cpu::gemmWorkspaceBytes(mnk[0], mnk[1], mnk[2], transA, transB,
                                         getTypeCode(a), getTypeCode(bTensor),
                                         getTypeCode(c), site.threads);
  return exec::GemmOp::create(
      b, loc, inputs, site.outputs, addWorkspace(b, loc, bytes), mnk[0], mnk[1],
      mnk[2], transA, transB, elementOf(a), elementOf(bTensor), elementOf(c),
      site.accumulate, inputs.size() == 3);
}

namespace {
/// The instruction of `Op`, from `Self`'s build.
template <typename Self, typename Op>
struct Routine : LibraryOpInterface::ExternalModel<Self, Op> {
  Operation *buildInstruction(Operation *op, OpBuilder &b,
                              const InstructionSite &site) const {
    return Self::build(cast<Op>(op), b, site);
  }
};

struct ZerosRoutine : Routine<ZerosRoutine, ZerosOp> {
  static Operation *build(ZerosOp op, OpBuilder &b,
                          const InstructionSite &site) {
    return exec::FillOp::create(b, op.getLoc(), ValueRange(), site.outputs,
                                ValueRange());
  }
};

/// x [m, k], weight [n, k] or [k, n].
struct LinearRoutine : Routine<LinearRoutine, LinearOp> {
  static Operation *build(LinearOp op, OpBuilder &b,
                          const InstructionSite &site) {
    ArrayRef<int64_t> x = typeOf(op.getX()).getShape();
    int64_t m = product(x.take_front(op.getNumLeading()));
    int64_t k = product(x.drop_front(op.getNumLeading()));
    int64_t n = typeOf(op.getWeight()).getNumElements() / k;
    return buildGemm(b, op.getLoc(), site, site.inputs, {m, n, k}, false,
                     !op.getInputsFirst(),
                     {op.getX(), op.getWeight(), op.getResult()});
  }
};

/// dy^T x [n, k], or x^T dy [k, n], over the rows.
struct LinearWeightGradRoutine
    : Routine<LinearWeightGradRoutine, LinearWeightGradOp> {
  static Operation *build(LinearWeightGradOp op, OpBuilder &b,
                          const InstructionSite &site) {
    ArrayRef<int64_t> x = typeOf(op.getX()).getShape();
    int64_t rows = product(x.take_front(op.getLeading()));
    int64_t ins = product(x.drop_front(op.getLeading()));
    int64_t outs = typeOf(op.getDy()).getNumElements() / rows;
    Value xBuffer = site.inputs[0], dyBuffer = site.inputs[1];
    if (op.getInputsFirst())
      return buildGemm(b, op.getLoc(), site, {xBuffer, dyBuffer},
                       {ins, outs, rows}, true, false,
                       {op.getX(), op.getDy(), op.getResult()});
    return buildGemm(b, op.getLoc(), site, {dyBuffer, xBuffer},
                     {outs, ins, rows}, true, false,
                     {op.getDy(), op.getX(), op.getResult()});
  }
};

struct AttentionRoutine : Routine<AttentionRoutine, AttentionOp> {
  static Operation *build(AttentionOp op, OpBuilder &b,
                          const InstructionSite &site) {
    ArrayRef<int64_t> q = typeOf(op.getQ()).getShape();
    int64_t kvHeads = typeOf(op.getK()).getDimSize(2);
    size_t bytes = cpu::attentionWorkspaceBytes(
        q[0], q[1], q[2], kvHeads, q[3], getTypeCode(op.getQ()), site.threads);
    return exec::AttentionOp::create(
        b, op.getLoc(), site.inputs, site.outputs,
        addWorkspace(b, op.getLoc(), bytes), q[0], q[1], q[2], kvHeads, q[3],
        op.getWindow(), elementOf(op.getQ()), op.getScale(), op.getSoftcap());
  }
};

struct AttentionGradRoutine : Routine<AttentionGradRoutine, AttentionGradOp> {
  static Operation *build(AttentionGradOp op, OpBuilder &b,
                          const InstructionSite &site) {
    ArrayRef<int64_t> q = typeOf(op.getQ()).getShape();
    int64_t kvHeads = typeOf(op.getK()).getDimSize(2);
    size_t bytes = cpu::attentionGradWorkspaceBytes(
        q[0], q[1], q[2], kvHeads, q[3], getTypeCode(op.getQ()), site.threads);
    return exec::AttentionGradOp::create(
        b, op.getLoc(), site.inputs, site.outputs,
        addWorkspace(b, op.getLoc(), bytes), q[0], q[1], q[2], kvHeads, q[3],
        op.getWindow(), elementOf(op.getQ()), op.getScale(), op.getSoftcap(),
        op.getFixedOrder());
  }
};

struct EmbeddingRoutine : Routine<EmbeddingRoutine, EmbeddingOp> {
  static Operation *build(EmbeddingOp op, OpBuilder &b,
                          const InstructionSite &site) {
    ArrayRef<int64_t> table = typeOf(op.getTable()).getShape();
    return exec::EmbeddingOp::create(
        b, op.getLoc(), site.inputs, site.outputs, ValueRange(),
        typeOf(op.getIds()).getNumElements(), table[1], table[0],
        elementOf(op.getTable()), elementOf(op.getResult()), getShardAxes(op));
  }
};

struct EmbeddingGradRoutine : Routine<EmbeddingGradRoutine, EmbeddingGradOp> {
  static Operation *build(EmbeddingGradOp op, OpBuilder &b,
                          const InstructionSite &site) {
    ArrayRef<int64_t> table = typeOf(op.getResult()).getShape();
    return exec::EmbeddingGradOp::create(
        b, op.getLoc(), site.inputs, site.outputs, ValueRange(),
        typeOf(op.getIds()).getNumElements(), table[1], table[0],
        elementOf(op.getDy()), elementOf(op.getResult()), site.accumulate,
        getShardAxes(op));
  }
};

exec::LRSchedule convert(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::Constant:
    return exec::LRSchedule::Constant;
  case ScheduleKind::Cosine:
    return exec::LRSchedule::Cosine;
  case ScheduleKind::Linear:
    return exec::LRSchedule::Linear;
  case ScheduleKind::WarmupStableDecay:
    return exec::LRSchedule::WarmupStableDecay;
  }
  llvm_unreachable("unknown learning rate");
}

static_assert(ScheduleOp::size == runtime::scheduleValues);

struct ScheduleRoutine : Routine<ScheduleRoutine, ScheduleOp> {
  static Operation *build(ScheduleOp op, OpBuilder &b,
                          const InstructionSite &site) {
    return exec::ScheduleOp::create(
        b, op.getLoc(), ValueRange(), site.outputs, ValueRange(),
        convert(op.getKind()), op.getWarmupSteps(), op.getDecaySteps(),
        op.getStableSteps(), op.getLr(), op.getMinLr(), op.getBeta1(),
        op.getBeta2());
  }
};
} // namespace

void cleave::attachRoutines(MLIRContext *context) {
  ZerosOp::attachInterface<ZerosRoutine>(*context);
  LinearOp::attachInterface<LinearRoutine>(*context);
  LinearWeightGradOp::attachInterface<LinearWeightGradRoutine>(*context);
  AttentionOp::attachInterface<AttentionRoutine>(*context);
  AttentionGradOp::attachInterface<AttentionGradRoutine>(*context);
  EmbeddingOp::attachInterface<EmbeddingRoutine>(*context);
  EmbeddingGradOp::attachInterface<EmbeddingGradRoutine>(*context);
  ScheduleOp::attachInterface<ScheduleRoutine>(*context);
}
