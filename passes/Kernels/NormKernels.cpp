//===- NormKernels.cpp - Norms, their gradients, sums over rows -----------===//
#include "passes/Kernels/KernelModel.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

/// Columns are the normalized dims.
template <typename Op>
static SpaceBuilder startNormSpace(Op op, Value x) {
  return SpaceBuilder(op, x, typeOf(op.getWeight()).getNumElements());
}

namespace {
struct RMSNormKernel : KernelModel<RMSNormKernel, RMSNormOp> {
  static KernelSpace getSpace(RMSNormOp op) {
    SpaceBuilder builder = startNormSpace(op, op.getX());
    builder.full(op.getX());
    builder.perColumn(op.getWeight());
    builder.full(op.getResult());
    builder.perRow(op.getRstd());
    return builder.space;
  }
  static SmallVector<Value> getBody(RMSNormOp op, Scalars s, ValueRange args) {
    double columns = double(typeOf(op.getWeight()).getNumElements());
    Value mean = s.div(s.sumRow(s.mul(args[0], args[0])), s.constant(columns));
    Value rstd = s.rsqrt(s.add(mean, op.getEps().convertToDouble()));
    Value normal = s.mul(args[0], rstd);
    if (!op.getWeightInF32())
      normal = s.roundTo(typeOf(op.getResult()).getElementType(), normal);
    Value weight = args[1];
    if (!op.getOffset().isZero())
      weight = s.add(weight, op.getOffset().convertToDouble());
    return {s.mul(normal, weight), rstd};
  }
};

struct RMSNormGradKernel : KernelModel<RMSNormGradKernel, RMSNormGradOp> {
  static KernelSpace getSpace(RMSNormGradOp op) {
    SpaceBuilder builder = startNormSpace(op, op.getX());
    builder.full(op.getX());
    builder.perColumn(op.getWeight());
    builder.perRow(op.getRstd());
    builder.full(op.getDy());
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(RMSNormGradOp op, Scalars s,
                                    ValueRange args) {
    Value columns = s.constant(double(typeOf(op.getWeight()).getNumElements()));
    Value x = args[0], rstd = args[2], dy = args[3], weight = args[1];
    if (!op.getOffset().isZero())
      weight = s.add(weight, op.getOffset().convertToDouble());
    Value g = s.mul(dy, weight);
    Value mean = s.div(s.sumRow(s.mul(g, x)), columns);
    Value pull = s.mul(mean, s.mul(rstd, rstd));
    return {s.mul(rstd, s.sub(g, s.mul(x, pull)))};
  }
};

struct LayerNormKernel : KernelModel<LayerNormKernel, LayerNormOp> {
  static KernelSpace getSpace(LayerNormOp op) {
    SpaceBuilder builder = startNormSpace(op, op.getX());
    builder.full(op.getX());
    builder.perColumn(op.getWeight());
    builder.perColumn(op.getBias());
    builder.full(op.getResult());
    builder.perRow(op.getMean());
    builder.perRow(op.getRstd());
    return builder.space;
  }
  static SmallVector<Value> getBody(LayerNormOp op, Scalars s,
                                    ValueRange args) {
    Value columns = s.constant(double(typeOf(op.getWeight()).getNumElements()));
    Value mean = s.div(s.sumRow(args[0]), columns);
    Value centred = s.sub(args[0], mean);
    Value variance = s.div(s.sumRow(s.mul(centred, centred)), columns);
    Value rstd = s.rsqrt(s.add(variance, op.getEps().convertToDouble()));
    Value normal = s.mul(centred, rstd);
    return {s.add(s.mul(normal, args[1]), args[2]), mean, rstd};
  }
};

struct LayerNormGradKernel : KernelModel<LayerNormGradKernel, LayerNormGradOp> {
  static KernelSpace getSpace(LayerNormGradOp op) {
    SpaceBuilder builder = startNormSpace(op, op.getX());
    builder.full(op.getX());
    builder.perColumn(op.getWeight());
    builder.perRow(op.getMean());
    builder.perRow(op.getRstd());
    builder.full(op.getDy());
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(LayerNormGradOp op, Scalars s,
                                    ValueRange args) {
    Value columns = s.constant(double(typeOf(op.getWeight()).getNumElements()));
    Value mean = args[2], rstd = args[3];
    Value g = s.mul(args[4], args[1]);
    Value normal = s.mul(s.sub(args[0], mean), rstd);
    Value meanG = s.div(s.sumRow(g), columns);
    Value meanGN = s.div(s.sumRow(s.mul(g, normal)), columns);
    Value pull = s.add(meanG, s.mul(normal, meanGN));
    return {s.mul(rstd, s.sub(g, pull))};
  }
};

struct NormWeightGradKernel
    : KernelModel<NormWeightGradKernel, NormWeightGradOp> {
  static KernelSpace getSpace(NormWeightGradOp op) {
    SpaceBuilder builder(op, op.getX(),
                         typeOf(op.getResult()).getNumElements());
    builder.space.mode = exec::KernelMode::Column;
    builder.full(op.getX());
    builder.perRow(op.getRstd());
    builder.full(op.getDy());
    if (op.getMean())
      builder.perRow(op.getMean());
    builder.perColumn(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(NormWeightGradOp op, Scalars s,
                                    ValueRange args) {
    Value x = op.getMean() ? s.sub(args[0], args[3]) : args[0];
    return {s.mul(args[2], s.mul(x, args[1]))};
  }
};

struct ReduceLeadingKernel : KernelModel<ReduceLeadingKernel, ReduceLeadingOp> {
  static KernelSpace getSpace(ReduceLeadingOp op) {
    SpaceBuilder builder(op, op.getX(),
                         typeOf(op.getResult()).getNumElements());
    builder.space.mode = exec::KernelMode::Column;
    builder.full(op.getX());
    builder.perColumn(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(ReduceLeadingOp op, Scalars s,
                                    ValueRange args) {
    return {args[0]};
  }
};
} // namespace

void cleave::attachNormKernels(MLIRContext *context) {
  RMSNormOp::attachInterface<RMSNormKernel>(*context);
  RMSNormGradOp::attachInterface<RMSNormGradKernel>(*context);
  LayerNormOp::attachInterface<LayerNormKernel>(*context);
  LayerNormGradOp::attachInterface<LayerNormGradKernel>(*context);
  NormWeightGradOp::attachInterface<NormWeightGradKernel>(*context);
  ReduceLeadingOp::attachInterface<ReduceLeadingKernel>(*context);
}
