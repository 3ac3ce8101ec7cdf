//===- LossKernels.cpp - Cross-entropy and sums over tokens ---------------===//
#include "passes/Kernels/KernelModel.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

/// Where the column of the whole tensor is one of the first `vocab`.
static Value isInVocab(Scalars &s, Value x, uint64_t vocab) {
  return s.compare(arith::CmpIPredicate::slt, s.globalColumn(lastDim(x)),
                   s.constantInt(vocab));
}

namespace {
struct RowMaxKernel : KernelModel<RowMaxKernel, RowMaxOp> {
  static KernelSpace getSpace(RowMaxOp op) {
    SpaceBuilder builder(op, op.getX(), lastDim(op.getX()));
    builder.full(op.getX());
    builder.perRow(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(RowMaxOp op, Scalars s, ValueRange args) {
    Value lowest = s.constant(-std::numeric_limits<float>::max());
    return {s.maxRow(
        s.select(isInVocab(s, op.getX(), op.getVocab()), args[0], lowest))};
  }
};

struct SumExpKernel : KernelModel<SumExpKernel, SumExpOp> {
  static KernelSpace getSpace(SumExpOp op) {
    SpaceBuilder builder(op, op.getX(), lastDim(op.getX()));
    builder.full(op.getX());
    builder.perRow(op.getMax());
    builder.perRow(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(SumExpOp op, Scalars s, ValueRange args) {
    Value exp = s.exp(s.sub(args[0], args[1]));
    return {s.sumRow(
        s.select(isInVocab(s, op.getX(), op.getVocab()), exp, s.constant(0)))};
  }
};

struct PickKernel : KernelModel<PickKernel, PickOp> {
  static KernelSpace getSpace(PickOp op) {
    SpaceBuilder builder(op, op.getX(), lastDim(op.getX()));
    builder.full(op.getX());
    builder.perRow(op.getTargets());
    builder.perRow(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(PickOp op, Scalars s, ValueRange args) {
    Value hit = s.compare(arith::CmpIPredicate::eq,
                          s.globalColumn(lastDim(op.getX())), args[1]);
    return {s.sumRow(s.select(hit, args[0], s.constant(0)))};
  }
};

struct TokenLossKernel : PointwiseKernel<TokenLossKernel, TokenLossOp> {
  static SmallVector<Value> getBody(TokenLossOp op, Scalars s,
                                    ValueRange args) {
    Value lse = s.add(args[0], s.log(args[1]));
    Value counted =
        s.compare(arith::CmpIPredicate::sge, args[3], s.constantInt(0));
    return {s.select(counted, s.sub(lse, args[2]), s.constant(0)), lse};
  }
};

struct SumKernel : ReductionKernel<SumKernel, SumOp> {
  static SmallVector<Value> getBody(SumOp op, Scalars s, ValueRange args) {
    return {s.sumRow(args[0])};
  }
};

struct CountTokensKernel : ReductionKernel<CountTokensKernel, CountTokensOp> {
  static SmallVector<Value> getBody(CountTokensOp op, Scalars s,
                                    ValueRange args) {
    Value counted =
        s.compare(arith::CmpIPredicate::sge, args[0], s.constantInt(0));
    return {s.sumRow(s.select(counted, s.constant(1), s.constant(0)))};
  }
};

struct CrossEntropyGradKernel
    : KernelModel<CrossEntropyGradKernel, CrossEntropyGradOp> {
  static KernelSpace getSpace(CrossEntropyGradOp op) {
    SpaceBuilder builder(op, op.getLogits(), lastDim(op.getLogits()));
    builder.full(op.getLogits());
    builder.perRow(op.getLse());
    builder.perRow(op.getTargets());
    builder.scalar(op.getDloss());
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(CrossEntropyGradOp op, Scalars s,
                                    ValueRange args) {
    Value column = s.globalColumn(lastDim(op.getLogits()));
    Value target = args[2];
    Value hit = s.compare(arith::CmpIPredicate::eq, column, target);
    Value p = s.exp(s.sub(args[0], args[1]));
    Value grad =
        s.mul(args[3], s.sub(p, s.select(hit, s.constant(1), s.constant(0))));
    Value inside = s.compare(arith::CmpIPredicate::slt, column,
                             s.constantInt(op.getVocab()));
    Value counted =
        s.compare(arith::CmpIPredicate::sge, target, s.constantInt(0));
    Value keep = s.both(inside, counted);
    return {s.select(keep, grad, s.constant(0))};
  }
};

struct ReciprocalKernel : PointwiseKernel<ReciprocalKernel, ReciprocalOp> {
  static SmallVector<Value> getBody(ReciprocalOp op, Scalars s,
                                    ValueRange args) {
    return {s.div(s.constant(1), s.max(args[0], s.constant(1)))};
  }
};
} // namespace

void cleave::attachLossKernels(MLIRContext *context) {
  RowMaxOp::attachInterface<RowMaxKernel>(*context);
  SumExpOp::attachInterface<SumExpKernel>(*context);
  PickOp::attachInterface<PickKernel>(*context);
  TokenLossOp::attachInterface<TokenLossKernel>(*context);
  SumOp::attachInterface<SumKernel>(*context);
  CountTokensOp::attachInterface<CountTokensKernel>(*context);
  CrossEntropyGradOp::attachInterface<CrossEntropyGradKernel>(*context);
  ReciprocalOp::attachInterface<ReciprocalKernel>(*context);
}
