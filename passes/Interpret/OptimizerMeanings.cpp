//===- OptimizerMeanings.cpp - What the ops of the update mean ------------===//
#include "dialects/xf/Xf.h"
#include "passes/Interpret/Meaning.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

std::vector<double> Rates::get(const SimulatedRanks &ranks) const {
  int64_t t = ranks.step, steps = ranks.totalSteps;
  double rate = lr;
  int64_t end = decaySteps == 0 ? steps : decaySteps;
  int64_t begin = warmupSteps + (kind == 3 ? stableSteps : 0);
  if (t < warmupSteps) {
    rate = lr * double(t + 1) / double(warmupSteps);
  } else if (kind != 0 && t >= end) {
    rate = minLr;
  } else if (kind != 0 && t >= begin) {
    double done = double(t - begin) / double(end - begin);
    rate = kind == 1 ? minLr + (lr - minLr) / 2 *
                                   (1 + std::cos(std::numbers::pi * done))
                     : lr + (minLr - lr) * done;
  }
  return {rate, 1 / (1 - std::pow(beta1, double(t + 1))),
          1 / (1 - std::pow(beta2, double(t + 1))), ranks.limit, ranks.limit};
}

namespace {
struct ScheduleMeaning : JointMeaning<ScheduleMeaning, ScheduleOp> {
  static LogicalResult run(ScheduleOp op, SimulatedRanks &ranks) {
    Rates rates = Rates::of(op);
    for (int64_t rank = 0; rank < ranks.size(); ++rank)
      ranks.make(op.getResult(), rank).data = rates.get(ranks);
    return success();
  }
};

struct ReciprocalMeaning : Meaning<ReciprocalMeaning, ReciprocalOp> {
  static LogicalResult run(ReciprocalOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = 1 / std::max(x.data[i], 1.0);
    return success();
  }
};

struct MulMeaning : Meaning<MulMeaning, MulOp> {
  static LogicalResult run(MulOp op, RankView view) {
    const Array &x = view.get(op.getX()), &z = view.get(op.getY());
    Array &y = view.make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = x.data[i] * z.data[i];
    return success();
  }
};

struct SquareSumMeaning : Meaning<SquareSumMeaning, SquareSumOp> {
  static LogicalResult run(SquareSumOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    for (double value : x.data)
      y.data[0] += value * value;
    return success();
  }
};

struct ClipFactorMeaning : Meaning<ClipFactorMeaning, ClipFactorOp> {
  static LogicalResult run(ClipFactorOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &norm = view.make(op.getNorm()), &factor = view.make(op.getFactor());
    double bound = op.getMaxNorm().convertToDouble();
    norm.data[0] = std::sqrt(x.data[0]);
    factor.data[0] =
        bound == 0 ? 1 : std::min(1.0, bound / (norm.data[0] + 1e-6));
    return success();
  }
};

struct GuardMeaning : Meaning<GuardMeaning, GuardOp> {
  static LogicalResult run(GuardOp op, RankView view) {
    const Array &limits = view.get(op.getSchedule());
    bool isGood =
        view.get(op.getLoss()).data[0] < limits.data[ScheduleOp::lossLimit] &&
        view.get(op.getNorm()).data[0] < limits.data[ScheduleOp::normLimit];
    view.make(op.getResult()).data[0] =
        isGood ? view.get(op.getFactor()).data[0] : 0;
    return success();
  }
};

/// What an update makes of its old values, which it keeps in a step that does
/// not count.
template <typename Self, typename Op>
struct UpdateMeaning : Meaning<Self, Op> {
  static LogicalResult run(Op op, RankView view) {
    if (view.get(op.getClip()).data[0] > 0)
      return Self::update(op, view);
    auto update = cast<OptimizerOpInterface>(op.getOperation());
    for (OpResult value : op->getResults())
      view.make(value).data = view.get(update.getOldValue(value).get()).data;
    return success();
  }
};

struct AdamWMeaning : UpdateMeaning<AdamWMeaning, AdamWOp> {
  static LogicalResult update(AdamWOp op, RankView view) {
    const Array &w = view.get(op.getW()), &m = view.get(op.getM()),
                &v = view.get(op.getV()), &grad = view.get(op.getGrad()),
                &clip = view.get(op.getClip()),
                &rates = view.get(op.getSchedule());
    Array &newW = view.make(op.getNewW()), &newM = view.make(op.getNewM()),
          &newV = view.make(op.getNewV());
    double b1 = op.getBeta1().convertToDouble(),
           b2 = op.getBeta2().convertToDouble(), lr = rates.data[0];
    for (int64_t i = 0; i < w.size(); ++i) {
      double g = grad.data[i] * clip.data[0];
      newM.data[i] = b1 * m.data[i] + (1 - b1) * g;
      newV.data[i] = b2 * v.data[i] + (1 - b2) * g * g;
      newW.data[i] = w.data[i] * (1 - lr * op.getDecay().convertToDouble()) -
                     lr * rates.data[1] * newM.data[i] /
                         (std::sqrt(rates.data[2] * newV.data[i]) +
                          op.getEps().convertToDouble());
    }
    return success();
  }
};

struct SGDMeaning : UpdateMeaning<SGDMeaning, SGDOp> {
  static LogicalResult update(SGDOp op, RankView view) {
    const Array &w = view.get(op.getW()), &m = view.get(op.getM()),
                &grad = view.get(op.getGrad()), &clip = view.get(op.getClip()),
                &rates = view.get(op.getSchedule());
    Array &newW = view.make(op.getNewW()), &newM = view.make(op.getNewM());
    for (int64_t i = 0; i < w.size(); ++i) {
      double g = grad.data[i] * clip.data[0] +
                 op.getDecay().convertToDouble() * w.data[i];
      newM.data[i] = op.getMomentum().convertToDouble() * m.data[i] + g;
      newW.data[i] = w.data[i] - rates.data[0] * newM.data[i];
    }
    return success();
  }
};

struct LionMeaning : UpdateMeaning<LionMeaning, LionOp> {
  static LogicalResult update(LionOp op, RankView view) {
    const Array &w = view.get(op.getW()), &m = view.get(op.getM()),
                &grad = view.get(op.getGrad()), &clip = view.get(op.getClip()),
                &rates = view.get(op.getSchedule());
    Array &newW = view.make(op.getNewW()), &newM = view.make(op.getNewM());
    double b1 = op.getBeta1().convertToDouble(),
           b2 = op.getBeta2().convertToDouble();
    for (int64_t i = 0; i < w.size(); ++i) {
      double g = grad.data[i] * clip.data[0];
      double c = b1 * m.data[i] + (1 - b1) * g;
      double sign = double(c > 0) - double(c < 0);
      newW.data[i] =
          w.data[i] -
          rates.data[0] * (sign + op.getDecay().convertToDouble() * w.data[i]);
      newM.data[i] = b2 * m.data[i] + (1 - b2) * g;
    }
    return success();
  }
};

struct NesterovMeaning : Meaning<NesterovMeaning, NesterovOp> {
  static LogicalResult run(NesterovOp op, RankView view) {
    const Array &m = view.get(op.getM()), &grad = view.get(op.getGrad()),
                &clip = view.get(op.getClip());
    Array &y = view.make(op.getResult());
    double momentum = op.getMomentum().convertToDouble();
    for (int64_t i = 0; i < y.size(); ++i) {
      double g = grad.data[i] * clip.data[0];
      y.data[i] = g + momentum * (momentum * m.data[i] + g);
    }
    return success();
  }
};

struct NormalizeMeaning : Meaning<NormalizeMeaning, NormalizeOp> {
  static LogicalResult run(NormalizeOp op, RankView view) {
    const Array &x = view.get(op.getX()), &sum = view.get(op.getSquareSum());
    Array &y = view.make(op.getResult());
    double norm =
        std::max(std::sqrt(sum.data[0]), op.getEps().convertToDouble());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = x.data[i] / norm;
    return success();
  }
};

struct OrthogonalizeMeaning : Meaning<OrthogonalizeMeaning, OrthogonalizeOp> {
  /// x y, of rows by inner and inner by columns.
  static std::vector<double> multiply(const std::vector<double> &x,
                                      const std::vector<double> &y,
                                      int64_t rows, int64_t inner,
                                      int64_t columns) {
    std::vector<double> z(size_t(rows * columns));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < inner; ++k)
        for (int64_t j = 0; j < columns; ++j)
          z[i * columns + j] += x[i * inner + k] * y[k * columns + j];
    return z;
  }
  static LogicalResult run(OrthogonalizeOp op, RankView view) {
    const Array &from = view.get(op.getX());
    int64_t rows = from.count(0, op.getRows()), columns = from.size() / rows;
    std::vector<double> x = from.data, transposed(x.size());
    double squares = 0;
    for (double value : x)
      squares += value * value;
    double norm = std::max(std::sqrt(squares), op.getEps().convertToDouble());
    for (double &value : x)
      value /= norm;
    for (int64_t step = 0; step < int64_t(op.getSteps()); ++step) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          transposed[j * rows + i] = x[i * columns + j];
      std::vector<double> gram = multiply(x, transposed, rows, columns, rows);
      std::vector<double> once = multiply(gram, x, rows, rows, columns);
      std::vector<double> twice = multiply(gram, once, rows, rows, columns);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = op.getA().convertToDouble() * x[i] +
               op.getB().convertToDouble() * once[i] +
               op.getC().convertToDouble() * twice[i];
    }
    view.make(op.getResult()).data = x;
    return success();
  }
};

struct MuonMeaning : UpdateMeaning<MuonMeaning, MuonOp> {
  static LogicalResult update(MuonOp op, RankView view) {
    const Array &w = view.get(op.getW()), &m = view.get(op.getM()),
                &grad = view.get(op.getGrad()), &clip = view.get(op.getClip()),
                &rates = view.get(op.getSchedule()),
                &direction = view.get(op.getDirection());
    Array &newW = view.make(op.getNewW()), &newM = view.make(op.getNewM());
    double lr = rates.data[0];
    for (int64_t i = 0; i < w.size(); ++i) {
      newM.data[i] = op.getMomentum().convertToDouble() * m.data[i] +
                     grad.data[i] * clip.data[0];
      newW.data[i] = w.data[i] * (1 - lr * op.getDecay().convertToDouble()) -
                     lr * direction.data[i];
    }
    return success();
  }
};
} // namespace

void cleave::attachOptimizerMeanings(MLIRContext *context) {
  ScheduleOp::attachInterface<ScheduleMeaning>(*context);
  ReciprocalOp::attachInterface<ReciprocalMeaning>(*context);
  MulOp::attachInterface<MulMeaning>(*context);
  SquareSumOp::attachInterface<SquareSumMeaning>(*context);
  ClipFactorOp::attachInterface<ClipFactorMeaning>(*context);
  GuardOp::attachInterface<GuardMeaning>(*context);
  AdamWOp::attachInterface<AdamWMeaning>(*context);
  SGDOp::attachInterface<SGDMeaning>(*context);
  LionOp::attachInterface<LionMeaning>(*context);
  NesterovOp::attachInterface<NesterovMeaning>(*context);
  NormalizeOp::attachInterface<NormalizeMeaning>(*context);
  OrthogonalizeOp::attachInterface<OrthogonalizeMeaning>(*context);
  MuonOp::attachInterface<MuonMeaning>(*context);
}
