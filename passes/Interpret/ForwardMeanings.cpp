//===- ForwardMeanings.cpp - What the ops of the forward pass mean --------===//
#include "dialects/xf/Xf.h"
#include "passes/Interpret/Activations.h"
#include "passes/Interpret/AttentionScores.h"
#include "passes/Interpret/Meaning.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
struct EmbeddingMeaning : Meaning<EmbeddingMeaning, EmbeddingOp> {
  static LogicalResult run(EmbeddingOp op, RankView view) {
    const Array &ids = view.get(op.getIds()), &table = view.get(op.getTable());
    Array &y = view.make(op.getResult());
    int64_t rows = table.shape[0], width = table.shape[1];
    double first = double(view.getShardIndex(op) * rows);
    for (int64_t t = 0; t < ids.size(); ++t)
      for (int64_t h = 0; h < width; ++h)
        if (double row = ids.data[t] - first; row >= 0 && row < double(rows))
          y.data[t * width + h] = table.data[int64_t(row) * width + h];
    return success();
  }
};

struct LinearMeaning : Meaning<LinearMeaning, LinearOp> {
  static LogicalResult run(LinearOp op, RankView view) {
    const Array &x = view.get(op.getX()), &w = view.get(op.getWeight());
    Array &y = view.make(op.getResult());
    size_t leading = x.shape.size() - op.getContract();
    int64_t rows = x.count(0, leading), ins = x.size() / rows,
            outs = w.size() / ins;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < outs; ++o) {
        double sum = op.getBias() ? view.get(op.getBias()).data[o] : 0.0;
        for (int64_t i = 0; i < ins; ++i)
          sum += x.data[r * ins + i] *
                 w.data[op.getInputsFirst() ? i * outs + o : o * ins + i];
        y.data[r * outs + o] = sum;
      }
    return success();
  }
};

struct RMSNormMeaning : Meaning<RMSNormMeaning, RMSNormOp> {
  static LogicalResult run(RMSNormOp op, RankView view) {
    const Array &x = view.get(op.getX()), &w = view.get(op.getWeight());
    Array &y = view.make(op.getResult()), &rstd = view.make(op.getRstd());
    double eps = op.getEps().convertToDouble(),
           offset = op.getOffset().convertToDouble();
    int64_t n = w.size();
    for (int64_t r = 0; r < rstd.size(); ++r) {
      double squares = 0;
      for (int64_t c = 0; c < n; ++c)
        squares += x.data[r * n + c] * x.data[r * n + c];
      rstd.data[r] = 1 / std::sqrt(squares / double(n) + eps);
      for (int64_t c = 0; c < n; ++c)
        y.data[r * n + c] =
            x.data[r * n + c] * rstd.data[r] * (offset + w.data[c]);
    }
    return success();
  }
};

struct LayerNormMeaning : Meaning<LayerNormMeaning, LayerNormOp> {
  static LogicalResult run(LayerNormOp op, RankView view) {
    const Array &x = view.get(op.getX()), &w = view.get(op.getWeight()),
                &b = view.get(op.getBias());
    Array &y = view.make(op.getResult()), &mean = view.make(op.getMean()),
          &rstd = view.make(op.getRstd());
    double eps = op.getEps().convertToDouble();
    int64_t n = w.size();
    for (int64_t r = 0; r < rstd.size(); ++r) {
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < n; ++c)
        sum += x.data[r * n + c];
      mean.data[r] = sum / double(n);
      for (int64_t c = 0; c < n; ++c)
        squares += std::pow(x.data[r * n + c] - mean.data[r], 2);
      rstd.data[r] = 1 / std::sqrt(squares / double(n) + eps);
      for (int64_t c = 0; c < n; ++c)
        y.data[r * n + c] =
            (x.data[r * n + c] - mean.data[r]) * rstd.data[r] * w.data[c] +
            b.data[c];
    }
    return success();
  }
};

struct RopeMeaning : Meaning<RopeMeaning, RopeOp> {
  static LogicalResult run(RopeOp op, RankView view) {
    const Array &x = view.get(op.getX()), &cos = view.get(op.getCos()),
                &sin = view.get(op.getSin());
    Array &y = view.make(op.getResult());
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
    return success();
  }
};

struct AttentionMeaning : Meaning<AttentionMeaning, AttentionOp> {
  static LogicalResult run(AttentionOp op, RankView view) {
    const Array &q = view.get(op.getQ()), &k = view.get(op.getK());
    AttentionScores scores(q.shape, k.shape[2], op.getScale().convertToDouble(),
                           op.getWindow(), op.getSoftcap().convertToDouble());
    scores.attend(q.data, k.data, view.get(op.getV()).data,
                  view.make(op.getResult()).data, view.make(op.getLse()).data);
    return success();
  }
};

struct ActivationMeaning : Meaning<ActivationMeaning, ActivationOp> {
  static LogicalResult run(ActivationOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    for (int64_t i = 0; i < x.size(); ++i)
      y.data[i] = activate(op.getKind(), x.data[i]).first;
    return success();
  }
};

struct GluMeaning : Meaning<GluMeaning, GluOp> {
  static LogicalResult run(GluOp op, RankView view) {
    const Array &gate = view.get(op.getGate()), &up = view.get(op.getUp());
    Array &y = view.make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = activate(op.getKind(), gate.data[i]).first * up.data[i];
    return success();
  }
};

struct AddMeaning : Meaning<AddMeaning, AddOp> {
  static LogicalResult run(AddOp op, RankView view) {
    Array &y = view.make(op.getResult());
    for (Value input : op.getInputs()) {
      const Array &x = view.get(input);
      for (int64_t i = 0; i < y.size(); ++i)
        y.data[i] += x.data[i % x.size()];
    }
    return success();
  }
};

struct ScaleMeaning : Meaning<ScaleMeaning, ScaleOp> {
  static LogicalResult run(ScaleOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = op.getFactor().convertToDouble() * x.data[i];
    return success();
  }
};

struct CastMeaning : Meaning<CastMeaning, CastOp> {
  static LogicalResult run(CastOp op, RankView view) {
    view.make(op.getResult()).data = view.get(op.getX()).data;
    return success();
  }
};

struct SliceRowsMeaning : Meaning<SliceRowsMeaning, SliceRowsOp> {
  static LogicalResult run(SliceRowsOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    int64_t width = x.size() / x.shape[0];
    for (int64_t i = 0; i < y.size(); ++i)
      y.data[i] = x.data[op.getStart() * width + i];
    return success();
  }
};

/// The columns of a row that are in the vocabulary, padding apart: of a shard
/// those before the first one past it.
struct Vocabulary {
  int64_t columns, first, counted;

  Vocabulary(const Array &x, int64_t vocab, Operation *op, RankView view)
      : columns(x.shape.back()), first(view.getShardIndex(op) * columns),
        counted(std::clamp<int64_t>(vocab - first, 0, columns)) {}
};

double sumExponentials(const Array &x, int64_t row, const Vocabulary &vocab,
                       double max) {
  double sum = 0;
  for (int64_t c = 0; c < vocab.counted; ++c)
    sum += std::exp(x.data[row * vocab.columns + c] - max);
  return sum;
}

/// The column of a target in this shard, or none.
std::optional<int64_t> findColumn(double target, int64_t first,
                                  int64_t columns) {
  double column = target - double(first);
  if (target >= 0 && column >= 0 && column < double(columns))
    return int64_t(column);
  return std::nullopt;
}

struct CrossEntropyMeaning : Meaning<CrossEntropyMeaning, CrossEntropyOp> {
  static LogicalResult run(CrossEntropyOp op, RankView view) {
    const Array &x = view.get(op.getLogits()),
                &targets = view.get(op.getTargets());
    Array &loss = view.make(op.getLoss()), &lse = view.make(op.getLse());
    Vocabulary vocab(x, op.getVocab(), op, view);
    for (int64_t r = 0; r < targets.size(); ++r) {
      lse.data[r] = std::log(sumExponentials(x, r, vocab, 0));
      if (auto column = findColumn(targets.data[r], 0, vocab.columns))
        loss.data[0] += lse.data[r] - x.data[r * vocab.columns + *column];
    }
    return success();
  }
};

struct RowMaxMeaning : Meaning<RowMaxMeaning, RowMaxOp> {
  static LogicalResult run(RowMaxOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    Vocabulary vocab(x, op.getVocab(), op, view);
    for (int64_t r = 0; r < y.size(); ++r) {
      // A shard may be all padding: its maximum loses to any other.
      y.data[r] = -double(std::numeric_limits<float>::max());
      for (int64_t c = 0; c < vocab.counted; ++c)
        y.data[r] = std::max(y.data[r], x.data[r * vocab.columns + c]);
    }
    return success();
  }
};

struct SumExpMeaning : Meaning<SumExpMeaning, SumExpOp> {
  static LogicalResult run(SumExpOp op, RankView view) {
    const Array &x = view.get(op.getX()), &max = view.get(op.getMax());
    Array &y = view.make(op.getResult());
    Vocabulary vocab(x, op.getVocab(), op, view);
    for (int64_t r = 0; r < y.size(); ++r)
      y.data[r] = sumExponentials(x, r, vocab, max.data[r]);
    return success();
  }
};

struct PickMeaning : Meaning<PickMeaning, PickOp> {
  static LogicalResult run(PickOp op, RankView view) {
    const Array &x = view.get(op.getX()), &targets = view.get(op.getTargets());
    Array &y = view.make(op.getResult());
    int64_t columns = x.shape.back(), first = view.getShardIndex(op) * columns;
    for (int64_t r = 0; r < y.size(); ++r)
      if (auto column = findColumn(targets.data[r], first, columns))
        y.data[r] = x.data[r * columns + *column];
    return success();
  }
};

struct TokenLossMeaning : Meaning<TokenLossMeaning, TokenLossOp> {
  static LogicalResult run(TokenLossOp op, RankView view) {
    const Array &max = view.get(op.getMax()), &sum = view.get(op.getSumExp()),
                &picked = view.get(op.getPicked()),
                &targets = view.get(op.getTargets());
    Array &loss = view.make(op.getLoss()), &lse = view.make(op.getLse());
    for (int64_t r = 0; r < lse.size(); ++r) {
      lse.data[r] = max.data[r] + std::log(sum.data[r]);
      loss.data[r] = targets.data[r] < 0 ? 0 : lse.data[r] - picked.data[r];
    }
    return success();
  }
};

struct SumMeaning : Meaning<SumMeaning, SumOp> {
  static LogicalResult run(SumOp op, RankView view) {
    Array &y = view.make(op.getResult());
    for (double value : view.get(op.getX()).data)
      y.data[0] += value;
    return success();
  }
};

struct ZerosMeaning : Meaning<ZerosMeaning, ZerosOp> {
  static LogicalResult run(ZerosOp op, RankView view) {
    view.make(op.getResult());
    return success();
  }
};

struct CountTokensMeaning : Meaning<CountTokensMeaning, CountTokensOp> {
  static LogicalResult run(CountTokensOp op, RankView view) {
    Array &y = view.make(op.getResult());
    for (double target : view.get(op.getTargets()).data)
      y.data[0] += target >= 0;
    return success();
  }
};
} // namespace

void cleave::attachForwardMeanings(MLIRContext *context) {
  EmbeddingOp::attachInterface<EmbeddingMeaning>(*context);
  LinearOp::attachInterface<LinearMeaning>(*context);
  RMSNormOp::attachInterface<RMSNormMeaning>(*context);
  LayerNormOp::attachInterface<LayerNormMeaning>(*context);
  RopeOp::attachInterface<RopeMeaning>(*context);
  AttentionOp::attachInterface<AttentionMeaning>(*context);
  ActivationOp::attachInterface<ActivationMeaning>(*context);
  GluOp::attachInterface<GluMeaning>(*context);
  AddOp::attachInterface<AddMeaning>(*context);
  ScaleOp::attachInterface<ScaleMeaning>(*context);
  CastOp::attachInterface<CastMeaning>(*context);
  SliceRowsOp::attachInterface<SliceRowsMeaning>(*context);
  CrossEntropyOp::attachInterface<CrossEntropyMeaning>(*context);
  RowMaxOp::attachInterface<RowMaxMeaning>(*context);
  SumExpOp::attachInterface<SumExpMeaning>(*context);
  PickOp::attachInterface<PickMeaning>(*context);
  TokenLossOp::attachInterface<TokenLossMeaning>(*context);
  SumOp::attachInterface<SumMeaning>(*context);
  ZerosOp::attachInterface<ZerosMeaning>(*context);
  CountTokensOp::attachInterface<CountTokensMeaning>(*context);
}
