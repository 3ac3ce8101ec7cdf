//===- Interpreter.cpp - What each xf op means, in f64 --------------------===//
#include "Interpreter.h"
#include "Dual.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace cleave::xf;

Array Array::zeros(llvm::ArrayRef<int64_t> shape) {
  Array array{shape.vec(), {}};
  array.data.assign(array.count(0, shape.size()), 0.0);
  return array;
}

int64_t Array::count(size_t begin, size_t end) const {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i)
    product *= shape[i];
  return product;
}

Array &Interpreter::make(Value result) {
  Array &array = value(result);
  array = Array::zeros(cast<RankedTensorType>(result.getType()).getShape());
  return array;
}

void Interpreter::run(Block &block) {
  for (Operation &op : block)
    run(&op);
}

void Interpreter::run(Operation *op) {
  known = true;
  runForward(op);
  if (!known)
    known = true, runBackward(op);
  if (!known)
    known = true, runOptimizer(op);
  if (!known)
    known = true, runStructure(op);
  ASSERT_TRUE(known) << "unknown op " << op->getName().getStringRef().str();
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

std::pair<double, double> cleave::xf::activate(ActivationKind kind, double at) {
  Dual x{at, 1};
  auto gelu = [&](double factor) {
    Dual inner = Dual(factor) * (x + Dual(0.044715) * x * x * x);
    return Dual(0.5) * x * (Dual(1) + tanh(inner));
  };
  Dual y;
  switch (kind) {
  case ActivationKind::GeluErf:
    y = Dual(0.5) * x * (Dual(1) + erf(x / Dual(std::sqrt(2.0))));
    break;
  case ActivationKind::GeluTanh:
    y = gelu(std::sqrt(2 / M_PI));
    break;
  case ActivationKind::GeluFast:
    y = gelu(0.7978845608);
    break;
  case ActivationKind::Silu:
    y = x / (Dual(1) + exp(Dual(0) - x));
    break;
  case ActivationKind::QuickGelu:
    y = x / (Dual(1) + exp(Dual(-1.702) * x));
    break;
  case ActivationKind::Relu:
    y = at > 0 ? x : Dual(0);
    break;
  case ActivationKind::Relu2:
    y = at > 0 ? x * x : Dual(0);
    break;
  }
  return {y.value, y.slope};
}

static double exponentials(const Array &x, int64_t row, int64_t columns,
                           int64_t vocab, double max) {
  double sum = 0;
  for (int64_t c = 0; c < vocab; ++c)
    sum += std::exp(x.data[row * columns + c] - max);
  return sum;
}

static double maximum(const Array &x, int64_t row, int64_t columns,
                      int64_t vocab) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < vocab; ++c)
    max = std::max(max, x.data[row * columns + c]);
  return max;
}

void Interpreter::runForward(Operation *operation) {
  if (auto op = dyn_cast<EmbeddingOp>(operation)) {
    const Array &ids = get(op.getIds()), &table = get(op.getTable());
    Array &y = make(op.getResult());
    int64_t width = table.shape[1];
    for (int64_t t = 0; t < ids.size(); ++t)
      for (int64_t h = 0; h < width; ++h)
        y.data[t * width + h] = table.data[int64_t(ids.data[t]) * width + h];
  } else if (auto op = dyn_cast<LinearOp>(operation)) {
    const Array &x = get(op.getX()), &w = get(op.getWeight());
    Array &y = make(op.getResult());
    size_t leading = x.shape.size() - op.getContract();
    int64_t rows = x.count(0, leading), ins = x.size() / rows,
            outs = w.size() / ins;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < outs; ++o) {
        double sum = op.getBias() ? get(op.getBias()).data[o] : 0.0;
        for (int64_t i = 0; i < ins; ++i)
          sum += x.data[r * ins + i] *
                 w.data[op.getInputsFirst() ? i * outs + o : o * ins + i];
        y.data[r * outs + o] = sum;
      }
  } else if (auto op = dyn_cast<RMSNormOp>(operation)) {
    const Array &x = get(op.getX()), &w = get(op.getWeight());
    Array &y = make(op.getResult());
    Array &rstd = make(op.getRstd());
    int64_t n = w.size();
    for (int64_t r = 0; r < rstd.size(); ++r) {
      double squares = 0;
      for (int64_t c = 0; c < n; ++c)
        squares += x.data[r * n + c] * x.data[r * n + c];
      rstd.data[r] = 1 / std::sqrt(squares / n + op.getEps().convertToDouble());
      for (int64_t c = 0; c < n; ++c)
        y.data[r * n + c] = x.data[r * n + c] * rstd.data[r] *
                            (op.getOffset().convertToDouble() + w.data[c]);
    }
  } else if (auto op = dyn_cast<LayerNormOp>(operation)) {
    const Array &x = get(op.getX()), &w = get(op.getWeight()),
                &b = get(op.getBias());
    Array &y = make(op.getResult()), &mean = make(op.getMean()),
          &rstd = make(op.getRstd());
    int64_t n = w.size();
    for (int64_t r = 0; r < rstd.size(); ++r) {
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < n; ++c)
        sum += x.data[r * n + c];
      mean.data[r] = sum / n;
      for (int64_t c = 0; c < n; ++c)
        squares += std::pow(x.data[r * n + c] - mean.data[r], 2);
      rstd.data[r] = 1 / std::sqrt(squares / n + op.getEps().convertToDouble());
      for (int64_t c = 0; c < n; ++c)
        y.data[r * n + c] =
            (x.data[r * n + c] - mean.data[r]) * rstd.data[r] * w.data[c] +
            b.data[c];
    }
  } else if (auto op = dyn_cast<RopeOp>(operation)) {
    const Array &x = get(op.getX()), &cos = get(op.getCos()),
                &sin = get(op.getSin());
    Array &y = make(op.getResult());
    y.data = x.data;
    int64_t seq = x.shape[1], heads = x.shape[2], depth = x.shape[3],
            n = cos.shape[1];
    for (int64_t row = 0; row < x.size() / depth; ++row)
      for (int64_t i = 0; i < n; ++i) {
        int64_t position = row / heads % seq;
        double c = cos.data[position * n + i], s = sin.data[position * n + i];
        if (op.getInverse())
          s = -s;
        double low = x.data[row * depth + i],
               high = x.data[row * depth + n + i];
        y.data[row * depth + i] = low * c - high * s;
        y.data[row * depth + n + i] = high * c + low * s;
      }
  } else if (auto op = dyn_cast<AttentionOp>(operation)) {
    runAttention(op);
  } else if (auto op = dyn_cast<ActivationOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    for (int64_t i = 0; i < x.size(); ++i)
      y.data[i] = activate(op.getKind(), x.data[i]).first;
  } else if (auto op = dyn_cast<GluOp>(operation)) {
    const Array &gate = get(op.getGate()), &up = get(op.getUp());
    Array &y = make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = activate(op.getKind(), gate.data[i]).first * up.data[i];
  } else if (auto op = dyn_cast<AddOp>(operation)) {
    Array &y = make(op.getResult());
    for (Value input : op.getInputs()) {
      const Array &x = get(input);
      for (int64_t i = 0; i < y.size(); ++i)
        y.data[i] += x.data[i % x.size()];
    }
  } else if (auto op = dyn_cast<ScaleOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = op.getFactor().convertToDouble() * x.data[i];
  } else if (auto op = dyn_cast<CastOp>(operation)) {
    const Array &x = get(op.getX());
    make(op.getResult()).data = x.data;
  } else if (auto op = dyn_cast<SliceRowsOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    int64_t width = x.size() / x.shape[0];
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = x.data[op.getStart() * width + i];
  } else if (auto op = dyn_cast<CrossEntropyOp>(operation)) {
    const Array &x = get(op.getLogits()), &targets = get(op.getTargets());
    Array &loss = make(op.getLoss());
    Array &lse = make(op.getLse());
    int64_t columns = x.shape.back(), vocab = op.getVocab();
    for (int64_t r = 0; r < targets.size(); ++r) {
      lse.data[r] = std::log(exponentials(x, r, columns, vocab, 0));
      if (targets.data[r] >= 0)
        loss.data[0] +=
            lse.data[r] - x.data[r * columns + int64_t(targets.data[r])];
    }
  } else if (auto op = dyn_cast<RowMaxOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    for (int64_t r = 0; r < y.size(); ++r)
      y.data[r] = maximum(x, r, x.shape.back(), op.getVocab());
  } else if (auto op = dyn_cast<SumExpOp>(operation)) {
    const Array &x = get(op.getX()), &max = get(op.getMax());
    Array &y = make(op.getResult());
    for (int64_t r = 0; r < y.size(); ++r)
      y.data[r] =
          exponentials(x, r, x.shape.back(), op.getVocab(), max.data[r]);
  } else if (auto op = dyn_cast<PickOp>(operation)) {
    const Array &x = get(op.getX()), &targets = get(op.getTargets());
    Array &y = make(op.getResult());
    for (int64_t r = 0; r < y.size(); ++r)
      if (targets.data[r] >= 0)
        y.data[r] = x.data[r * x.shape.back() + int64_t(targets.data[r])];
  } else if (auto op = dyn_cast<MaskRowsOp>(operation)) {
    const Array &x = get(op.getX()), &ids = get(op.getIds());
    Array &y = make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      if (int64_t(ids.data[i / x.shape.back()]) != int64_t(op.getId()))
        y.data[i] = x.data[i];
  } else if (auto op = dyn_cast<TokenLossOp>(operation)) {
    const Array &max = get(op.getMax()), &sum = get(op.getSumExp()),
                &picked = get(op.getPicked()), &targets = get(op.getTargets());
    Array &loss = make(op.getLoss()), &lse = make(op.getLse());
    for (int64_t r = 0; r < lse.size(); ++r) {
      lse.data[r] = max.data[r] + std::log(sum.data[r]);
      loss.data[r] = targets.data[r] < 0 ? 0 : lse.data[r] - picked.data[r];
    }
  } else if (auto op = dyn_cast<SumOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    for (double value : x.data)
      y.data[0] += value;
  } else if (auto op = dyn_cast<CountTokensOp>(operation)) {
    const Array &targets = get(op.getTargets());
    Array &y = make(op.getResult());
    for (double target : targets.data)
      y.data[0] += target >= 0;
  } else {
    known = false;
  }
}

namespace {
/// One query head against its keys.
struct Scores {
  int64_t seq, heads, kvHeads, depth;
  double scale, softcap;
  int64_t window;

  template <typename Op>
  Scores(Op op, const Array &q, const Array &k)
      : seq(q.shape[1]), heads(q.shape[2]), kvHeads(k.shape[2]),
        depth(q.shape[3]), scale(op.getScale().convertToDouble()),
        softcap(op.getSoftcap().convertToDouble()), window(op.getWindow()) {}

  int64_t atQuery(int64_t b, int64_t i, int64_t h) const {
    return ((b * seq + i) * heads + h) * depth;
  }
  int64_t atKey(int64_t b, int64_t j, int64_t h) const {
    return ((b * seq + j) * kvHeads + h / (heads / kvHeads)) * depth;
  }
  bool reads(int64_t i, int64_t j) const {
    return j <= i && (window <= 0 || j > i - window);
  }
  /// The score of query i and key j, and its slope in scale q k.
  Dual score(const Array &q, const Array &k, int64_t b, int64_t i, int64_t j,
             int64_t h) const {
    double product = 0;
    for (int64_t d = 0; d < depth; ++d)
      product += q.data[atQuery(b, i, h) + d] * k.data[atKey(b, j, h) + d];
    Dual score{scale * product, 1};
    return softcap > 0 ? Dual(softcap) * tanh(score / Dual(softcap)) : score;
  }
};
} // namespace

void Interpreter::runAttention(AttentionOp op) {
  const Array &q = get(op.getQ()), &k = get(op.getK()), &v = get(op.getV());
  Array &out = make(op.getResult()), &lse = make(op.getLse());
  Scores s(op, q, k);
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.seq; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < s.seq; ++j)
          if (s.reads(i, j))
            sum += std::exp(s.score(q, k, b, i, j, h).value);
        lse.data[(b * s.heads + h) * s.seq + i] = std::log(sum);
        for (int64_t j = 0; j < s.seq; ++j)
          if (s.reads(i, j))
            for (int64_t d = 0; d < s.depth; ++d)
              out.data[s.atQuery(b, i, h) + d] +=
                  std::exp(s.score(q, k, b, i, j, h).value) / sum *
                  v.data[s.atKey(b, j, h) + d];
      }
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// With p = softmax: dv = p^T do, ds = p (do v^T - sum_d do o), and dq, dk
/// through the slope of the score.
void Interpreter::runAttentionGrad(AttentionGradOp op) {
  const Array &q = get(op.getQ()), &k = get(op.getK()), &v = get(op.getV()),
              &out = get(op.getOut()), &lse = get(op.getLse()),
              &dout = get(op.getDout());
  Array &dq = make(op.getDq()), &dk = make(op.getDk()), &dv = make(op.getDv());
  Scores s(op, q, k);
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.seq; ++i)
        for (int64_t j = 0; j < s.seq; ++j) {
          if (!s.reads(i, j))
            continue;
          Dual score = s.score(q, k, b, i, j, h);
          double p =
              std::exp(score.value - lse.data[(b * s.heads + h) * s.seq + i]);
          double dp = 0, pull = 0;
          for (int64_t d = 0; d < s.depth; ++d) {
            double grad = dout.data[s.atQuery(b, i, h) + d];
            dp += grad * v.data[s.atKey(b, j, h) + d];
            pull += grad * out.data[s.atQuery(b, i, h) + d];
            dv.data[s.atKey(b, j, h) + d] += p * grad;
          }
          double ds = p * (dp - pull) * score.slope * s.scale;
          for (int64_t d = 0; d < s.depth; ++d) {
            dq.data[s.atQuery(b, i, h) + d] +=
                ds * k.data[s.atKey(b, j, h) + d];
            dk.data[s.atKey(b, j, h) + d] +=
                ds * q.data[s.atQuery(b, i, h) + d];
          }
        }
}

void Interpreter::runBackward(Operation *operation) {
  if (auto op = dyn_cast<EmbeddingGradOp>(operation)) {
    const Array &ids = get(op.getIds()), &dy = get(op.getDy());
    Array &table = make(op.getResult());
    int64_t width = table.shape[1];
    for (int64_t t = 0; t < ids.size(); ++t)
      for (int64_t h = 0; h < width; ++h)
        table.data[int64_t(ids.data[t]) * width + h] += dy.data[t * width + h];
  } else if (auto op = dyn_cast<LinearWeightGradOp>(operation)) {
    const Array &x = get(op.getX()), &dy = get(op.getDy());
    Array &w = make(op.getResult());
    int64_t rows = x.count(0, op.getLeading()), ins = x.size() / rows,
            outs = dy.size() / rows;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < outs; ++o)
        for (int64_t i = 0; i < ins; ++i)
          w.data[op.getInputsFirst() ? i * outs + o : o * ins + i] +=
              x.data[r * ins + i] * dy.data[r * outs + o];
  } else if (auto op = dyn_cast<ReduceLeadingOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    for (int64_t i = 0; i < x.size(); ++i)
      y.data[i % y.size()] += x.data[i];
  } else if (auto op = dyn_cast<RMSNormGradOp>(operation)) {
    const Array &x = get(op.getX()), &w = get(op.getWeight()),
                &rstd = get(op.getRstd()), &dy = get(op.getDy());
    Array &dx = make(op.getResult());
    int64_t n = w.size();
    for (int64_t r = 0; r < rstd.size(); ++r) {
      auto g = [&](int64_t c) {
        return dy.data[r * n + c] *
               (op.getOffset().convertToDouble() + w.data[c]);
      };
      double mean = 0;
      for (int64_t c = 0; c < n; ++c)
        mean += g(c) * x.data[r * n + c] / n;
      for (int64_t c = 0; c < n; ++c)
        dx.data[r * n + c] =
            rstd.data[r] *
            (g(c) - x.data[r * n + c] * rstd.data[r] * rstd.data[r] * mean);
    }
  } else if (auto op = dyn_cast<LayerNormGradOp>(operation)) {
    const Array &x = get(op.getX()), &w = get(op.getWeight()),
                &mean = get(op.getMean()), &rstd = get(op.getRstd()),
                &dy = get(op.getDy());
    Array &dx = make(op.getResult());
    int64_t n = w.size();
    for (int64_t r = 0; r < rstd.size(); ++r) {
      auto g = [&](int64_t c) { return dy.data[r * n + c] * w.data[c]; };
      auto normal = [&](int64_t c) {
        return (x.data[r * n + c] - mean.data[r]) * rstd.data[r];
      };
      double meanG = 0, meanGN = 0;
      for (int64_t c = 0; c < n; ++c) {
        meanG += g(c) / n;
        meanGN += g(c) * normal(c) / n;
      }
      for (int64_t c = 0; c < n; ++c)
        dx.data[r * n + c] = rstd.data[r] * (g(c) - meanG - normal(c) * meanGN);
    }
  } else if (auto op = dyn_cast<NormWeightGradOp>(operation)) {
    const Array &x = get(op.getX()), &rstd = get(op.getRstd()),
                &dy = get(op.getDy());
    Array &dw = make(op.getResult());
    int64_t n = dw.size();
    for (int64_t r = 0; r < rstd.size(); ++r)
      for (int64_t c = 0; c < n; ++c) {
        double mean = op.getMean() ? get(op.getMean()).data[r] : 0;
        dw.data[c] +=
            dy.data[r * n + c] * (x.data[r * n + c] - mean) * rstd.data[r];
      }
  } else if (auto op = dyn_cast<AttentionGradOp>(operation)) {
    runAttentionGrad(op);
  } else if (auto op = dyn_cast<ActivationGradOp>(operation)) {
    const Array &x = get(op.getX()), &dy = get(op.getDy());
    Array &dx = make(op.getResult());
    for (int64_t i = 0; i < x.size(); ++i)
      dx.data[i] = dy.data[i] * activate(op.getKind(), x.data[i]).second;
  } else if (auto op = dyn_cast<GluGradOp>(operation)) {
    const Array &gate = get(op.getGate()), &up = get(op.getUp()),
                &dy = get(op.getDy());
    Array &dgate = make(op.getDgate()), &dup = make(op.getDup());
    for (int64_t i = 0; i < dy.size(); ++i) {
      auto [value, slope] = activate(op.getKind(), gate.data[i]);
      dgate.data[i] = dy.data[i] * up.data[i] * slope;
      dup.data[i] = dy.data[i] * value;
    }
  } else if (auto op = dyn_cast<PadRowsOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    int64_t width = x.size() / x.shape[0];
    for (int64_t i = 0; i < x.size(); ++i)
      y.data[op.getStart() * width + i] = x.data[i];
  } else if (auto op = dyn_cast<CrossEntropyGradOp>(operation)) {
    const Array &x = get(op.getLogits()), &lse = get(op.getLse()),
                &targets = get(op.getTargets()), &dloss = get(op.getDloss());
    Array &dx = make(op.getResult());
    int64_t columns = x.shape.back();
    for (int64_t r = 0; r < targets.size(); ++r)
      for (int64_t c = 0; c < int64_t(op.getVocab()); ++c)
        if (targets.data[r] >= 0)
          dx.data[r * columns + c] =
              dloss.data[0] * (std::exp(x.data[r * columns + c] - lse.data[r]) -
                               (c == int64_t(targets.data[r])));
  } else {
    known = false;
  }
}

//===----------------------------------------------------------------------===//
// Optimizer and structure
//===----------------------------------------------------------------------===//

void Interpreter::runOptimizer(Operation *operation) {
  if (auto op = dyn_cast<ReciprocalOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = 1 / std::max(x.data[i], 1.0);
  } else if (auto op = dyn_cast<MulOp>(operation)) {
    const Array &x = get(op.getX()), &z = get(op.getY());
    Array &y = make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = x.data[i] * z.data[i];
  } else if (auto op = dyn_cast<SquareSumOp>(operation)) {
    const Array &x = get(op.getX());
    Array &y = make(op.getResult());
    for (double value : x.data)
      y.data[0] += value * value;
  } else if (auto op = dyn_cast<ClipFactorOp>(operation)) {
    const Array &x = get(op.getX());
    Array &norm = make(op.getNorm()), &factor = make(op.getFactor());
    double bound = op.getMaxNorm().convertToDouble();
    norm.data[0] = std::sqrt(x.data[0]);
    factor.data[0] =
        bound == 0 ? 1 : std::min(1.0, bound / (norm.data[0] + 1e-6));
  } else if (auto op = dyn_cast<ScheduleOp>(operation)) {
    make(op.getResult()).data = schedule.data;
  } else if (auto op = dyn_cast<AdamWOp>(operation)) {
    const Array &w = get(op.getW()), &m = get(op.getM()), &v = get(op.getV()),
                &grad = get(op.getGrad()), &clip = get(op.getClip()),
                &rates = get(op.getSchedule());
    Array &newW = make(op.getNewW()), &newM = make(op.getNewM()),
          &newV = make(op.getNewV());
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
  } else if (auto op = dyn_cast<SGDOp>(operation)) {
    const Array &w = get(op.getW()), &m = get(op.getM()),
                &grad = get(op.getGrad()), &clip = get(op.getClip()),
                &rates = get(op.getSchedule());
    Array &newW = make(op.getNewW()), &newM = make(op.getNewM());
    for (int64_t i = 0; i < w.size(); ++i) {
      double g = grad.data[i] * clip.data[0] +
                 op.getDecay().convertToDouble() * w.data[i];
      newM.data[i] = op.getMomentum().convertToDouble() * m.data[i] + g;
      newW.data[i] = w.data[i] - rates.data[0] * newM.data[i];
    }
  } else if (auto op = dyn_cast<LionOp>(operation)) {
    const Array &w = get(op.getW()), &m = get(op.getM()),
                &grad = get(op.getGrad()), &clip = get(op.getClip()),
                &rates = get(op.getSchedule());
    Array &newW = make(op.getNewW()), &newM = make(op.getNewM());
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
  } else {
    known = false;
  }
}

void Interpreter::runStructure(Operation *operation) {
  if (auto op = dyn_cast<GetOp>(operation)) {
    value(op.getResult()) = state.at(op.getState().str());
  } else if (auto op = dyn_cast<SetOp>(operation)) {
    state[op.getState().str()] = get(op.getValue());
  } else if (auto op = dyn_cast<OutputOp>(operation)) {
    outputs[op.getName().str()] = get(op.getValue());
  } else if (auto op = dyn_cast<AccumulateOp>(operation)) {
    runAccumulate(op);
  } else {
    known = isa<YieldOp, func::ReturnOp>(operation);
  }
}

void Interpreter::runAccumulate(AccumulateOp op) {
  Block &body = op.getBody().front();
  std::vector<Array> sums;
  for (Value result : op.getResults())
    sums.push_back(
        Array::zeros(cast<RankedTensorType>(result.getType()).getShape()));
  for (int64_t n = 0; n < int64_t(op.getCount()); ++n) {
    for (auto [argument, input] :
         llvm::zip(body.getArguments(), op.getInputs())) {
      Array whole = get(input);
      Array slice =
          Array::zeros(cast<RankedTensorType>(argument.getType()).getShape());
      for (int64_t i = 0; i < slice.size(); ++i)
        slice.data[i] = whole.data[n * slice.size() + i];
      value(argument) = slice;
    }
    run(body);
    for (auto [sum, yielded] :
         llvm::zip(sums, body.getTerminator()->getOperands()))
      for (int64_t i = 0; i < sum.size(); ++i)
        sum.data[i] += get(yielded).data[i];
  }
  for (auto [result, sum] : llvm::zip(op.getResults(), sums))
    value(result) = sum;
}
