//===- BackwardMeanings.cpp - What the ops of the backward pass mean ------===//
#include "dialects/xf/Xf.h"
#include "passes/Interpret/Activations.h"
#include "passes/Interpret/AttentionScores.h"
#include "passes/Interpret/Meaning.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
struct EmbeddingGradMeaning : Meaning<EmbeddingGradMeaning, EmbeddingGradOp> {
  static LogicalResult run(EmbeddingGradOp op, RankView view) {
    const Array &ids = view.get(op.getIds()), &dy = view.get(op.getDy());
    Array &table = view.make(op.getResult());
    int64_t rows = table.shape[0], width = table.shape[1];
    double first = double(view.getShardIndex(op) * rows);
    for (int64_t t = 0; t < ids.size(); ++t)
      for (int64_t h = 0; h < width; ++h)
        if (double row = ids.data[t] - first; row >= 0 && row < double(rows))
          table.data[int64_t(row) * width + h] += dy.data[t * width + h];
    return success();
  }
};

struct AttentionGradMeaning : Meaning<AttentionGradMeaning, AttentionGradOp> {
  static LogicalResult run(AttentionGradOp op, RankView view) {
    const Array &q = view.get(op.getQ()), &k = view.get(op.getK());
    AttentionScores scores(q.shape, k.shape[2], op.getScale().convertToDouble(),
                           op.getWindow(), op.getSoftcap().convertToDouble());
    scores.differentiate(q.data, k.data, view.get(op.getV()).data,
                         view.get(op.getOut()).data, view.get(op.getLse()).data,
                         view.get(op.getDout()).data,
                         view.make(op.getDq()).data, view.make(op.getDk()).data,
                         view.make(op.getDv()).data);
    return success();
  }
};

struct CrossEntropyGradMeaning
    : Meaning<CrossEntropyGradMeaning, CrossEntropyGradOp> {
  static LogicalResult run(CrossEntropyGradOp op, RankView view) {
    const Array &x = view.get(op.getLogits()), &lse = view.get(op.getLse()),
                &targets = view.get(op.getTargets()),
                &dloss = view.get(op.getDloss());
    Array &dx = view.make(op.getResult());
    int64_t columns = x.shape.back(), first = view.getShardIndex(op) * columns;
    for (int64_t r = 0; r < targets.size(); ++r)
      for (int64_t c = 0; c < columns; ++c)
        if (targets.data[r] >= 0 && first + c < int64_t(op.getVocab()))
          dx.data[r * columns + c] =
              dloss.data[0] * (std::exp(x.data[r * columns + c] - lse.data[r]) -
                               (double(first + c) == targets.data[r]));
    return success();
  }
};

struct LinearWeightGradMeaning
    : Meaning<LinearWeightGradMeaning, LinearWeightGradOp> {
  static LogicalResult run(LinearWeightGradOp op, RankView view) {
    const Array &x = view.get(op.getX()), &dy = view.get(op.getDy());
    Array &w = view.make(op.getResult());
    int64_t rows = x.count(0, op.getLeading()), ins = x.size() / rows,
            outs = dy.size() / rows;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < outs; ++o)
        for (int64_t i = 0; i < ins; ++i)
          w.data[op.getInputsFirst() ? i * outs + o : o * ins + i] +=
              x.data[r * ins + i] * dy.data[r * outs + o];
    return success();
  }
};

struct ReduceLeadingMeaning : Meaning<ReduceLeadingMeaning, ReduceLeadingOp> {
  static LogicalResult run(ReduceLeadingOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    for (int64_t i = 0; i < x.size(); ++i)
      y.data[i % y.size()] += x.data[i];
    return success();
  }
};

struct RMSNormGradMeaning : Meaning<RMSNormGradMeaning, RMSNormGradOp> {
  static LogicalResult run(RMSNormGradOp op, RankView view) {
    const Array &x = view.get(op.getX()), &w = view.get(op.getWeight()),
                &rstd = view.get(op.getRstd()), &dy = view.get(op.getDy());
    Array &dx = view.make(op.getResult());
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
    return success();
  }
};

struct LayerNormGradMeaning : Meaning<LayerNormGradMeaning, LayerNormGradOp> {
  static LogicalResult run(LayerNormGradOp op, RankView view) {
    const Array &x = view.get(op.getX()), &w = view.get(op.getWeight()),
                &mean = view.get(op.getMean()), &rstd = view.get(op.getRstd()),
                &dy = view.get(op.getDy());
    Array &dx = view.make(op.getResult());
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
    return success();
  }
};

struct NormWeightGradMeaning
    : Meaning<NormWeightGradMeaning, NormWeightGradOp> {
  static LogicalResult run(NormWeightGradOp op, RankView view) {
    const Array &x = view.get(op.getX()), &rstd = view.get(op.getRstd()),
                &dy = view.get(op.getDy());
    Array &dw = view.make(op.getResult());
    int64_t n = dw.size();
    for (int64_t r = 0; r < rstd.size(); ++r)
      for (int64_t c = 0; c < n; ++c) {
        double mean = op.getMean() ? view.get(op.getMean()).data[r] : 0;
        dw.data[c] +=
            dy.data[r * n + c] * (x.data[r * n + c] - mean) * rstd.data[r];
      }
    return success();
  }
};

struct ActivationGradMeaning
    : Meaning<ActivationGradMeaning, ActivationGradOp> {
  static LogicalResult run(ActivationGradOp op, RankView view) {
    const Array &x = view.get(op.getX()), &dy = view.get(op.getDy());
    Array &dx = view.make(op.getResult());
    for (int64_t i = 0; i < x.size(); ++i)
      dx.data[i] = dy.data[i] * activate(op.getKind(), x.data[i]).second;
    return success();
  }
};

struct GluGradMeaning : Meaning<GluGradMeaning, GluGradOp> {
  static LogicalResult run(GluGradOp op, RankView view) {
    const Array &gate = view.get(op.getGate()), &up = view.get(op.getUp()),
                &dy = view.get(op.getDy());
    Array &dgate = view.make(op.getDgate()), &dup = view.make(op.getDup());
    for (int64_t i = 0; i < dy.size(); ++i) {
      auto [value, slope] = activate(op.getKind(), gate.data[i]);
      dgate.data[i] = dy.data[i] * up.data[i] * slope;
      dup.data[i] = dy.data[i] * value;
    }
    return success();
  }
};

struct PadRowsMeaning : Meaning<PadRowsMeaning, PadRowsOp> {
  static LogicalResult run(PadRowsOp op, RankView view) {
    const Array &x = view.get(op.getX());
    Array &y = view.make(op.getResult());
    int64_t width = x.size() / x.shape[0];
    for (int64_t i = 0; i < x.size(); ++i)
      y.data[op.getStart() * width + i] = x.data[i];
    return success();
  }
};

struct MaskRowsMeaning : Meaning<MaskRowsMeaning, MaskRowsOp> {
  static LogicalResult run(MaskRowsOp op, RankView view) {
    const Array &x = view.get(op.getX()), &ids = view.get(op.getIds());
    Array &y = view.make(op.getResult());
    for (int64_t i = 0; i < y.size(); ++i)
      if (int64_t(ids.data[i / x.shape.back()]) != int64_t(op.getId()))
        y.data[i] = x.data[i];
    return success();
  }
};
} // namespace

void cleave::attachBackwardMeanings(MLIRContext *context) {
  EmbeddingGradOp::attachInterface<EmbeddingGradMeaning>(*context);
  AttentionGradOp::attachInterface<AttentionGradMeaning>(*context);
  CrossEntropyGradOp::attachInterface<CrossEntropyGradMeaning>(*context);
  LinearWeightGradOp::attachInterface<LinearWeightGradMeaning>(*context);
  ReduceLeadingOp::attachInterface<ReduceLeadingMeaning>(*context);
  RMSNormGradOp::attachInterface<RMSNormGradMeaning>(*context);
  LayerNormGradOp::attachInterface<LayerNormGradMeaning>(*context);
  NormWeightGradOp::attachInterface<NormWeightGradMeaning>(*context);
  ActivationGradOp::attachInterface<ActivationGradMeaning>(*context);
  GluGradOp::attachInterface<GluGradMeaning>(*context);
  PadRowsOp::attachInterface<PadRowsMeaning>(*context);
  MaskRowsOp::attachInterface<MaskRowsMeaning>(*context);
}
