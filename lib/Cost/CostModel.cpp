//===- CostModel.cpp - A training step, from the costs of its blocks ------===//
#include "cleave/Cost/CostModel.h"
#include <algorithm>
#include <cassert>
#include <cmath>

using namespace cleave;

const CostModel::BlockCost &CostModel::getBlockCost(const Cut &cut) {
  for (const auto &[known, cost] : cache)
    if (known == cut)
      return cost;
  BlockCost cost = cut.block == &embedding ? computeEmbedding(cut)
                   : cut.block == &head    ? computeHead(cut)
                                           : computeBlock(cut);
  cache.emplace_back(cut, cost);
  return cache.back().second;
}

namespace {
/// Seconds of one stage for one micro-batch, and its weights.
struct Stage {
  double forward = 0, backward = 0, weight = 0; ///< weight: part of backward
  double tensor = 0, context = 0, expert = 0;   ///< exposed, both ways
  double host = 0;
  double denseParameters = 0, expertParameters = 0;
  double activations = 0, workingSet = 0;
  double largest = 0; ///< weights of the largest block

  double getTime() const { return forward + backward; }
};

/// What runs beside compute: hides up to `window`, slows it, shows the rest.
struct Overlapped {
  double exposed, slowdown;
};
} // namespace

static Overlapped overlap(double communication, double window, double share,
                          double slowdown) {
  double hidden = std::min(communication * share, window);
  return {communication - hidden, hidden * slowdown};
}

/// What the host adds to `busy` seconds of device work that it takes `host`
/// seconds to launch: nothing where kernels are long, all where they are
/// short, and part of both where long and short kernels mix.
static double getWait(double host, double busy) {
  return std::pow(std::pow(host, 4) + std::pow(busy, 4), 0.25) - busy;
}

Estimate CostModel::price(const TrainLayout &layout) {
  int64_t blocks = model.getNumBlocks();
  int64_t pp = layout.pp;
  double microBatches =
      double(work.globalBatch) / double(layout.dp * layout.microBatch);

  // Blocks of each stage: as even as can be; what is left over goes to the
  // middle, since the ends have the embedding and the head.
  std::vector<Stage> stages(static_cast<size_t>(pp));
  std::vector<int64_t> counts(size_t(pp), blocks / pp);
  int64_t over = blocks % pp;
  for (int64_t i = 0; i != over; ++i)
    ++counts[size_t((pp - over) / 2 + i)];

  auto add = [&](Stage &stage, const Block &block, Recompute recompute) {
    const BlockCost &cost = getBlockCost(
        {&block, layout.tp, layout.cp, layout.ep, layout.expertTp,
         layout.microBatch, layout.tp, layout.sequenceParallel,
         layout.contextKind, recompute,
         recompute == Recompute::Selective ? layout.recomputedModules : 0});
    double hidden = 1 - profile.tensorOverlap;
    double tensor = (cost.tensorForward + cost.tensorBackward) * hidden;
    double forwardComm =
        cost.tensorForward * hidden + cost.contextForward + cost.expertForward;
    double backwardComm = cost.tensorBackward * hidden + cost.contextBackward +
                          cost.expertBackward;
    double slow = (cost.tensorForward + cost.tensorBackward) *
                  profile.tensorOverlap * profile.overlapSlowdown;
    double forward = cost.forward;
    double backward =
        cost.recompute + cost.backwardInput + cost.backwardWeight + slow;
    // The device waits for the host where its kernels are too short.
    double host = profile.hostPerBlock * cost.launches;
    double hostForward = getWait(host, forward + forwardComm);
    double hostBackward =
        getWait(host * (recompute == Recompute::Full ? 2.2 : 1.2),
                backward + backwardComm);
    stage.host += hostForward + hostBackward;
    stage.forward += forward + forwardComm + hostForward;
    stage.backward += backward + backwardComm + hostBackward;
    stage.weight += cost.backwardWeight;
    stage.tensor += tensor;
    stage.context += cost.contextForward + cost.contextBackward;
    stage.expert += cost.expertForward + cost.expertBackward;
    stage.denseParameters += cost.denseParameters;
    stage.expertParameters += cost.expertParameters;
    stage.activations += cost.activations;
    stage.workingSet = std::max(stage.workingSet, cost.workingSet);
    stage.largest = std::max(stage.largest,
                             cost.denseParameters + cost.expertParameters);
  };

  size_t at = 0;
  int64_t left = counts[0], number = 0;
  add(stages.front(), embedding, Recompute::None);
  for (const BlockRun &run : model.blocks)
    for (int64_t i = 0; i != run.count; ++i) {
      while (left == 0)
        left = counts[++at];
      --left;
      // Every block up to its share of those that recompute.
      bool recomputes = std::floor(double(number + 1) * layout.recomputeShare) >
                        std::floor(double(number) * layout.recomputeShare);
      ++number;
      add(stages[at], run.block,
          recomputes ? layout.recompute : Recompute::None);
    }
  add(stages.back(), head, Recompute::None);
  if (model.tied && pp > 1)
    stages.back().denseParameters +=
        double(model.vocab) / double(layout.tp) * double(model.hidden);

  // Gradients and parameters over the data-parallel ranks.
  Group dense{layout.dp * layout.cp, layout.tp};
  int64_t expertRanks = std::max<int64_t>(
      layout.dp * layout.cp * layout.tp / (layout.ep * layout.expertTp), 1);
  Group experts{expertRanks, layout.ep * layout.expertTp};
  if (layout.zeroGroup > 0)
    dense.ranks = std::min(dense.ranks, layout.zeroGroup);
  auto data = [&](const Stage &stage, CollectiveKind kind, double bytes) {
    return getCollectiveTime(machine, kind, dense,
                             stage.denseParameters * bytes) +
           getCollectiveTime(machine, kind, experts,
                             stage.expertParameters * bytes);
  };

  Estimate result;
  std::vector<double> dataExposed(stages.size());
  for (size_t i = 0; i != stages.size(); ++i) {
    Stage &stage = stages[i];
    double share = profile.dataOverlap, slow = profile.overlapSlowdown;
    double buckets = double(std::max<int64_t>(counts[i], 1));
    double gradients = data(stage,
                            layout.zero >= 1 ? CollectiveKind::ReduceScatter
                                             : CollectiveKind::AllReduce,
                            profile.gradientBytes);
    double parameters =
        layout.zero >= 1 ? data(stage, CollectiveKind::AllGather, 2) : 0;
    if (layout.zero < 3) {
      Overlapped back =
          overlap(gradients, stage.backward * (1 - 1 / buckets), share, slow);
      Overlapped front =
          overlap(parameters, stage.forward * (1 - 1 / buckets), share, slow);
      dataExposed[i] =
          back.exposed + front.exposed + back.slowdown + front.slowdown;
    } else {
      // Each micro-batch gathers each block twice and scatters its gradient;
      // the first gather and the last scatter have nothing to hide behind.
      Overlapped front = overlap(parameters, stage.forward, share, slow);
      Overlapped back =
          overlap(parameters + gradients, stage.backward, share, slow);
      double ends = (parameters + gradients) / buckets * share;
      double each =
          front.exposed + back.exposed + front.slowdown + back.slowdown;
      // Gathered parameters are copied out of the collective's buffer, twice;
      // gradients are cast on their way into theirs.
      double weights = stage.denseParameters + stage.expertParameters;
      stage.forward += front.exposed + front.slowdown +
                       getStreamTime(machine.device, 4 * weights);
      stage.backward += back.exposed + back.slowdown +
                        getStreamTime(machine.device,
                                      (6 + profile.gradientBytes) * weights);
      result.data = std::max(result.data, each * microBatches);
      dataExposed[i] = ends;
    }
    // Copies between groups of ZeRO still reduce over all ranks.
    if (layout.zeroGroup > 0 && layout.zeroGroup < layout.dp * layout.cp) {
      Group copies{layout.dp * layout.cp / layout.zeroGroup,
                   layout.tp * layout.zeroGroup};
      double among =
          getCollectiveTime(machine, CollectiveKind::AllReduce, copies,
                            stage.denseParameters * profile.gradientBytes /
                                double(layout.zeroGroup));
      Overlapped rest = overlap(among, stage.backward, share, slow);
      dataExposed[i] += rest.exposed + rest.slowdown;
    }
  }

  // The pipeline.
  double slowest = 0, sum = 0, sumWeight = 0;
  size_t worst = 0;
  for (size_t i = 0; i != stages.size(); ++i) {
    sum += stages[i].getTime();
    sumWeight += stages[i].weight;
    if (stages[i].getTime() > slowest) {
      slowest = stages[i].getTime();
      worst = i;
    }
  }
  double send = 0;
  if (pp > 1) {
    double bytes = double(layout.microBatch) * work.seqLen / double(layout.cp) *
                   double(model.hidden) * 2 /
                   double(layout.sequenceParallel ? layout.tp : 1);
    send = getSendTime(machine, layout.tp * layout.cp * layout.dp, bytes);
  }
  double others = sum - slowest; // the ramp of a pipeline
  double chunks = double(layout.virtualStages);
  double mean = double(pp - 1) / double(pp);
  switch (layout.schedule) {
  case Schedule::GPipe:
  case Schedule::OneFOneB:
    result.bubble = others;
    result.pipeline = 2 * send * (double(pp - 1) + microBatches - 1);
    break;
  case Schedule::Interleaved:
    // Sends run beside the compute of another chunk.
    result.bubble = others / chunks;
    result.pipeline = 2 * send * double(pp - 1);
    break;
  case Schedule::ZeroBubbleH1:
    // Weight gradients fill what they can (Qi et al. 2024, section 2.2).
    result.bubble = std::max(0., others - mean * sumWeight);
    result.pipeline = 2 * send * (double(pp - 1) + microBatches - 1);
    break;
  case Schedule::ZeroBubbleH2:
  case Schedule::ZeroBubbleV:
    result.bubble = std::max(0., others - 3 * mean * sumWeight);
    result.pipeline = 2 * send * (double(pp - 1) + microBatches - 1);
    break;
  }

  const Stage &stage = stages[worst];
  result.tensor = stage.tensor * microBatches;
  result.context = stage.context * microBatches;
  result.expert = stage.expert * microBatches;
  result.host = stage.host * microBatches + profile.hostPerStep;
  result.compute = slowest * microBatches - result.tensor - result.context -
                   result.expert - stage.host * microBatches - result.data;
  result.data += *std::max_element(dataExposed.begin(), dataExposed.end());

  // The optimizer: gradient, master weight and moments read, all but the
  // gradient written, and the norm's pass over the gradient.
  double sharded = layout.zero >= 1
                       ? double(layout.zeroGroup > 0 ? layout.zeroGroup
                                                     : layout.dp * layout.cp)
                       : 1;
  double expertSharded = layout.zero >= 1 ? double(expertRanks) : 1;
  double updated = 0;
  for (const Stage &each : stages)
    updated = std::max(updated, each.denseParameters / sharded +
                                    each.expertParameters / expertSharded);
  result.optimizer = getStreamTime(machine.device, updated * (4 + 24 + 2 + 4));
  result.step = result.compute + result.tensor + result.context +
                result.expert + result.pipeline + result.bubble + result.data +
                result.optimizer + result.host;

  // Memory of each stage; the fullest counts.
  for (size_t i = 0; i != stages.size(); ++i) {
    const Stage &each = stages[i];
    auto split = [&](int stageOfZero, double bytes) {
      double parts = layout.zero >= stageOfZero ? sharded : 1;
      double expertParts = layout.zero >= stageOfZero ? expertSharded : 1;
      return bytes * (each.denseParameters / parts +
                      each.expertParameters / expertParts);
    };
    MemoryUse use;
    use.parameters = split(3, 2);
    use.gradients = split(2, profile.gradientBytes);
    use.optimizer = split(1, 12);
    double inFlight = std::min(microBatches, double(pp - int64_t(i)));
    if (layout.schedule == Schedule::GPipe)
      inFlight = microBatches;
    if (layout.schedule == Schedule::Interleaved)
      inFlight = std::min(microBatches, double(pp) + double(pp - 1) / chunks -
                                            double(i) / chunks);
    if (layout.schedule == Schedule::ZeroBubbleH2)
      inFlight = std::min(microBatches, 2. * double(pp) - 1);
    use.activations = each.activations * inFlight;
    use.temporaries = each.workingSet;
    // This block's parameters, those of the next, and a whole gradient.
    if (layout.zero == 3)
      use.temporaries += each.largest * (4 + profile.gradientBytes);
    if (use.getTotal() > result.memory.getTotal())
      result.memory = use;
  }
  return result;
}
