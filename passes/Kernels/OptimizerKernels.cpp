//===- OptimizerKernels.cpp - Gradient norm, clipping and update ----------===//
#include "passes/Kernels/KernelModel.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
struct SquareSumKernel : ReductionKernel<SquareSumKernel, SquareSumOp> {
  static SmallVector<Value> getBody(SquareSumOp op, Scalars s,
                                    ValueRange args) {
    return {s.sumRow(s.mul(args[0], args[0]))};
  }
};

struct ClipFactorKernel : PointwiseKernel<ClipFactorKernel, ClipFactorOp> {
  static SmallVector<Value> getBody(ClipFactorOp op, Scalars s,
                                    ValueRange args) {
    Value norm = s.sqrt(args[0]);
    double bound = op.getMaxNorm().convertToDouble();
    if (bound == 0)
      return {norm, s.constant(1)};
    Value factor = s.div(s.constant(bound), s.add(norm, 1e-6));
    return {norm, s.min(factor, s.constant(1))};
  }
};

struct GuardKernel : KernelModel<GuardKernel, GuardOp> {
  static KernelSpace getSpace(GuardOp op) {
    SpaceBuilder builder(op, op.getFactor(), /*columns=*/1);
    for (Value value : {op.getFactor(), op.getLoss(), op.getNorm()})
      builder.full(value);
    builder.scalar(op.getSchedule(), ScheduleOp::lossLimit);
    builder.scalar(op.getSchedule(), ScheduleOp::normLimit);
    builder.full(op.getResult());
    return builder.space;
  }
  /// What is not a number is not below anything.
  static SmallVector<Value> getBody(GuardOp op, Scalars s, ValueRange args) {
    auto isBelow = [&](Value x, Value limit) {
      return s.isPositive(s.sub(limit, x));
    };
    Value isGood = s.both(isBelow(args[1], args[3]), isBelow(args[2], args[4]));
    return {s.select(isGood, args[0], s.constant(0))};
  }
};

/// The scalar program of an update gets the old values, the gradient, the clip
/// factor, the first `Rates` of the schedule, and what else the update reads;
/// `Self`'s getNewValues are those of a step that counts.
template <typename Self, typename Op, int64_t Rates>
struct UpdateKernel : KernelModel<Self, Op> {
  static KernelSpace getSpace(Op op) {
    auto update = cast<OptimizerOpInterface>(op.getOperation());
    Value parameter = update.getParameter();
    SpaceBuilder builder(op, parameter, lastDim(parameter));
    for (OpResult value : op->getResults())
      builder.full(update.getOldValue(value).get());
    builder.full(update.getGradient());
    builder.scalar(update.getClipFactor());
    for (int64_t i = 0; i < Rates; ++i)
      builder.scalar(update.getRates(), i);
    for (Value value : op->getOperands().drop_front(op->getNumResults() + 3))
      builder.full(value);
    for (Value value : op->getResults())
      builder.full(value);
    return builder.space;
  }
  static SmallVector<Value> getBody(Op op, Scalars s, ValueRange args) {
    SmallVector<Value> values = Self::getNewValues(op, s, args);
    Value counts = s.isPositive(args[values.size() + 1]);
    for (auto [value, old] : llvm::zip(values, args))
      value = s.select(counts, value, old);
    return values;
  }
};

struct AdamWKernel : UpdateKernel<AdamWKernel, AdamWOp, 3> {
  static SmallVector<Value> getNewValues(AdamWOp op, Scalars s,
                                         ValueRange args) {
    Value w = args[0], m = args[1], v = args[2];
    Value g = s.mul(args[3], args[4]);
    Value lr = args[5], c1 = args[6], c2 = args[7];
    double beta1 = op.getBeta1().convertToDouble();
    double beta2 = op.getBeta2().convertToDouble();
    Value newM = s.add(s.mul(m, beta1), s.mul(g, 1 - beta1));
    Value newV = s.add(s.mul(v, beta2), s.mul(s.mul(g, g), 1 - beta2));
    Value root = s.add(s.sqrt(s.mul(newV, c2)), op.getEps().convertToDouble());
    Value step = s.div(s.mul(s.mul(lr, c1), newM), root);
    double decay = op.getDecay().convertToDouble();
    Value kept =
        decay == 0 ? w : s.mul(w, s.sub(s.constant(1), s.mul(lr, decay)));
    return {s.sub(kept, step), newM, newV};
  }
};

struct SGDKernel : UpdateKernel<SGDKernel, SGDOp, 1> {
  static SmallVector<Value> getNewValues(SGDOp op, Scalars s, ValueRange args) {
    Value w = args[0], m = args[1], lr = args[4];
    Value g = s.mul(args[2], args[3]);
    double decay = op.getDecay().convertToDouble();
    if (decay != 0)
      g = s.add(g, s.mul(w, decay));
    Value newM = s.add(s.mul(m, op.getMomentum().convertToDouble()), g);
    return {s.sub(w, s.mul(lr, newM)), newM};
  }
};

struct LionKernel : UpdateKernel<LionKernel, LionOp, 1> {
  static SmallVector<Value> getNewValues(LionOp op, Scalars s,
                                         ValueRange args) {
    Value w = args[0], m = args[1], lr = args[4];
    Value g = s.mul(args[2], args[3]);
    double beta1 = op.getBeta1().convertToDouble();
    double beta2 = op.getBeta2().convertToDouble();
    Value c = s.add(s.mul(m, beta1), s.mul(g, 1 - beta1));
    Value negative =
        s.select(s.isPositive(s.mul(c, -1.0)), s.constant(-1), s.constant(0));
    Value sign = s.select(s.isPositive(c), s.constant(1), negative);
    double decay = op.getDecay().convertToDouble();
    Value step = decay == 0 ? sign : s.add(sign, s.mul(w, decay));
    Value newM = s.add(s.mul(m, beta2), s.mul(g, 1 - beta2));
    return {s.sub(w, s.mul(lr, step)), newM};
  }
};

struct NesterovKernel : KernelModel<NesterovKernel, NesterovOp> {
  static KernelSpace getSpace(NesterovOp op) {
    SpaceBuilder builder(op, op.getM(), lastDim(op.getM()));
    builder.full(op.getM());
    builder.full(op.getGrad());
    builder.scalar(op.getClip());
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(NesterovOp op, Scalars s, ValueRange args) {
    double momentum = op.getMomentum().convertToDouble();
    Value g = s.mul(args[1], args[2]);
    Value newM = s.add(s.mul(args[0], momentum), g);
    return {s.add(g, s.mul(newM, momentum))};
  }
};

struct NormalizeKernel : KernelModel<NormalizeKernel, NormalizeOp> {
  static KernelSpace getSpace(NormalizeOp op) {
    SpaceBuilder builder(op, op.getX(), lastDim(op.getX()));
    builder.full(op.getX());
    builder.scalar(op.getSquareSum());
    builder.full(op.getResult());
    return builder.space;
  }
  static SmallVector<Value> getBody(NormalizeOp op, Scalars s,
                                    ValueRange args) {
    Value norm =
        s.max(s.sqrt(args[1]), s.constant(op.getEps().convertToDouble()));
    return {s.mul(args[0], s.div(s.constant(1), norm))};
  }
};

struct MuonKernel : UpdateKernel<MuonKernel, MuonOp, 1> {
  static SmallVector<Value> getNewValues(MuonOp op, Scalars s,
                                         ValueRange args) {
    Value w = args[0], m = args[1], lr = args[4], direction = args[5];
    Value g = s.mul(args[2], args[3]);
    double decay = op.getDecay().convertToDouble();
    Value step = decay == 0 ? direction : s.add(direction, s.mul(w, decay));
    Value newM = s.add(s.mul(m, op.getMomentum().convertToDouble()), g);
    return {s.sub(w, s.mul(lr, step)), newM};
  }
};
} // namespace

void cleave::attachOptimizerKernels(MLIRContext *context) {
  SquareSumOp::attachInterface<SquareSumKernel>(*context);
  ClipFactorOp::attachInterface<ClipFactorKernel>(*context);
  GuardOp::attachInterface<GuardKernel>(*context);
  AdamWOp::attachInterface<AdamWKernel>(*context);
  SGDOp::attachInterface<SGDKernel>(*context);
  LionOp::attachInterface<LionKernel>(*context);
  NesterovOp::attachInterface<NesterovKernel>(*context);
  NormalizeOp::attachInterface<NormalizeKernel>(*context);
  MuonOp::attachInterface<MuonKernel>(*context);
}
