//===- Bounds.cpp - What layouts cost at least ----------------------------===//
//
// The search leaves out layouts by these. Each is true of all layouts that its
// declaration names, whatever they differ in; the tests hold the search to
// brute force.
//
//===----------------------------------------------------------------------===//
#include "cleave/Cost/CostModel.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

static constexpr double infinity = std::numeric_limits<double>::infinity();

CostModel::MostBlocks CostModel::getMostBlocks(const KindCosts &costs,
                                               int64_t stages) const {
  MostBlocks best;
  for (const StageCost *fastest : costs) {
    MostBlocks found;
    found.least = fastest->getTime();
    StageCost floor;
    floor.denseParameters = floor.expertParameters = floor.pieces = infinity;
    for (size_t kind = 0; kind != kinds.size(); ++kind) {
      const StageCost &cost = *costs[kind];
      if (cost.getTime() < found.least)
        continue;
      found.count += kindCounts[kind];
      floor.denseParameters =
          std::min(floor.denseParameters, cost.denseParameters);
      floor.expertParameters =
          std::min(floor.expertParameters, cost.expertParameters);
      floor.pieces = std::min(floor.pieces, cost.pieces);
    }
    found.count = (found.count + stages - 1) / stages;
    found.stage.add(floor, double(found.count));
    if (found.getTime() > best.getTime())
      best = found;
  }
  return best;
}

template <typename Get>
double CostModel::sum(BlockRange blocks, const KindCosts &costs,
                      Get get) const {
  size_t width = kinds.size();
  const int64_t *from = &kindsBefore[size_t(blocks.first) * width];
  const int64_t *end = &kindsBefore[size_t(blocks.end) * width];
  double sum = 0;
  for (size_t kind = 0; kind != width; ++kind)
    sum += double(end[kind] - from[kind]) * get(*costs[kind]);
  return sum;
}

double CostModel::addData(double own, double microBatches, DataFloor data,
                          double window) const {
  // What runs beside compute slows it down.
  auto get = [&](double own) {
    auto add = [&](double data, double window) {
      return data - (1 - profile.overlapSlowdown) *
                        std::min(data * profile.dataOverlap, window);
    };
    return (own + add(data.each, own)) * microBatches +
           add(data.once, own * window);
  };
  // Where more of it hides, more compute may take less, up to where all does.
  double least = get(own);
  for (double most : {data.each, data.once / window})
    if (own < most * profile.dataOverlap)
      least = std::min(least, get(most * profile.dataOverlap));
  return least;
}

double CostModel::getTimeBound(const TrainLayout &layout) {
  return getTimeBound(layout, DataFloor());
}

double CostModel::getTimeBound(const TrainLayout &layout,
                               llvm::ArrayRef<DataFloor> floors) {
  getKindCosts(layout, Recompute::None);
  const StageCost &sum = whole;
  double microBatches = getPartialMicroBatches(layout);
  // Some device computes as much as the mean does, and one has the most blocks
  // of a kind.
  double mean = sum.getTime() / double(layout.pp);
  double least = infinity, trip = sum.getTime() - sum.weight;
  double sends = 2 * double((layout.pp - 1) * layout.virtualStages);
  for (const DataFloor &data : floors)
    least = std::min(least, std::max(addData(most.getTime(), microBatches, data,
                                             /*window=*/double(layout.pp)),
                                     trip + sends * data.send));
  least = std::max(least, mean * microBatches);
  double updated = (sum.denseParameters / double(layout.dp * layout.cp) +
                    sum.expertParameters / double(layout.getExpertRanks())) /
                   double(layout.pp);
  return (1 - 1e-9) *
         (least + profile.hostPerStep +
          getStreamTime(machine.device, updated * work.getOptimizerTraffic()));
}

double CostModel::getMemoryBound(const TrainLayout &layout) const {
  // State is cut over all ranks. Of a micro-batch each block keeps its input,
  // and the head its logits.
  double h = double(model.hidden), tp = double(layout.tp);
  double vocab = getVocabShard(layout.tp);
  double dense =
      vocab * (model.tied ? 1 : 2) * double(model.getEmbeddingWidth());
  double experts = 0, least = infinity, most = 0;
  double weight = work.getParameterBytes(), pp = double(layout.pp);
  // What is there together, if a pipeline is never full: the weights with what
  // is kept, or the gradients.
  bool isFew = isNeverFull(layout);
  double bytes = std::min(
      (isFew ? 0 : weight + profile.gradientBytes) + work.getStateBytes(),
      profile.blockBuffers ? 4. * getBytes(DType::F32) : infinity);
  double ranks = double(layout.dp * layout.cp);
  double expertRanks = double(layout.getExpertRanks());
  for (size_t kind = 0; kind != kinds.size(); ++kind) {
    double routed = kinds[kind]->getExpertParameters(model.hidden);
    double other = (kinds[kind]->getParameters(model.hidden) - routed) / tp;
    routed /= double(layout.ep * layout.expertTp);
    dense += double(kindCounts[kind]) * other;
    experts += double(kindCounts[kind]) * routed;
    least = std::min(least,
                     getLargestPiece(*kinds[kind], layout.tp, other, routed));
    // Some stage has this many blocks of the kind.
    most = std::max(most, std::ceil(double(kindCounts[kind]) / pp) * bytes *
                              (other / ranks + routed / expertRanks));
  }
  double cut = dense / ranks + experts / expertRanks;
  double tokens =
      double(layout.microBatch) * double(work.seqLen) / double(layout.cp);
  double inputs = double(kindOf.size()) * h * work.getParameterBytes() /
                  (layout.sequenceParallel ? tp : 1);
  double logits = getKeptLogitBytes() * vocab;
  double kept = tokens * (inputs + logits);
  if (isFew)
    kept = std::max(kept, cut * profile.gradientBytes);
  double mean = (cut * bytes + kept) / pp;
  // Below ZeRO 3 parameters are whole; with it those of an exchange are, and
  // their gradient, but at ends without a block.
  double inner = layout.pp == 1 ? 1 : std::max(pp - 2, 1.) / pp;
  double whole = std::min(isFew ? 0 : weight * (dense + experts - cut) / pp,
                          inner * least * getGatheredBytes(3));
  double tensors = std::max({mean + whole, most, tokens * logits});
  return (1 - 1e-9) *
         (machine.device.reserve + (1 + profile.allocatorGaps) * tensors);
}

DataFloor CostModel::getDataFloor(const TrainLayout &layout) {
  getKindCosts(layout, Recompute::None);
  const StageCost &stage = most.stage;
  auto [gradients, parameters, again] = getDataTimes(layout, stage);
  DataFloor data;
  if (layout.zero == 3)
    data.each = gradients + parameters + again;
  else if (layout.zero == 2 && getMicroBatches(layout) > 1)
    data = {gradients, parameters};
  else
    data.once = gradients + parameters;
  data.once += getCopyTime(layout, stage);
  data.send = getSend(layout) * profile.dataOverlap;
  return data;
}

BusyFloor CostModel::getBusyFloor(const TrainLayout &layout) {
  const PipelineBlocks &pipeline = getPipelineBlocks(layout);
  const KindCosts &plain = getKindCosts(layout, Recompute::None);
  const KindCosts &other = getKindCosts(layout, layout.recompute);
  auto getTime = [](const StageCost &cost) { return cost.getTime(); };
  bool splits = PipelineShape{.schedule = layout.schedule}.splitsBackward();
  int64_t again = getBlocksAgain(layout);
  BusyFloor floor;
  floor.microBatches = getPartialMicroBatches(layout);
  if (layout.schedule == Schedule::Interleaved)
    floor.window = double(layout.pp);
  for (const DeviceBlocks &device : pipeline.devices) {
    double own = 0;
    int64_t count = 0;
    for (BlockRange chunk : device.chunks) {
      int64_t middle = std::min(chunk.end, chunk.first + again);
      own += sum({chunk.first, middle}, other, getTime) +
             sum({middle, chunk.end}, plain, getTime);
      count += int64_t(sum(chunk, plain, [&](const StageCost &cost) {
        return cost.getTime() >= most.least;
      }));
    }
    own += (device.hasEmbedding ? embeddingCost->getTime() : 0) +
           (device.hasHead ? headCost->getTime() : 0);
    if (count >= most.count)
      floor.most = std::max(floor.most, own);
    // A device waits for a micro-batch to come, and the stages before it for
    // the last one to come back.
    double seconds = own * floor.microBatches;
    if (!splits && device.stage > 0)
      seconds +=
          embeddingCost->getTime() + sum({0, device.before}, plain, getTime);
    floor.longest = std::max(floor.longest, seconds);
    if (!splits && device.stage == layout.pp - 1)
      floor.trips[0] = {seconds, 2 * double(device.stage)};
  }
  // The first stage waits for its last micro-batch to come back; the turn of a
  // V-shaped pipeline sends nothing.
  double ahead = embeddingCost->forward +
                 sum(pipeline.ranges.front(), plain,
                     [](const StageCost &cost) { return cost.forward; });
  floor.trips[1] = {(std::ceil(floor.microBatches) - 1) * ahead +
                        whole.getTime() - (splits ? whole.weight : 0),
                    2 * double((layout.pp - 1) * layout.virtualStages)};
  return floor;
}

double CostModel::getBusyBound(const BusyFloor &floor,
                               const DataFloor &data) const {
  double seconds =
      std::max(floor.longest,
               addData(floor.most, floor.microBatches, data, floor.window));
  for (auto [computes, sends] : floor.trips)
    seconds = std::max(seconds, computes + sends * data.send);
  return (1 - 1e-9) * (seconds + profile.hostPerStep);
}

double CostModel::getWorkingSet(const TrainLayout &layout) {
  // Of what may recompute, the least has the rest beside it.
  TrainLayout leanest = layout;
  leanest.recomputedModules = recomputeAttention | recomputePointwise;
  double stages = double(layout.pp), least = infinity;
  double inner = layout.pp == 1 ? 1 : std::max(stages - 2, 1.) / stages;
  // In an arena, what is repeated is in it.
  if (isNeverFull(layout))
    return 0;
  for (const StageCost *cost :
       getKindCosts(leanest, profile.hasArena() ? Recompute::None
                                                : Recompute::Selective))
    least = std::min({least, cost->workingSet,
                      layout.pp > 1 ? cost->workingSetApart : infinity});
  return (1 - 1e-9) * inner * least;
}

MemoryFloor CostModel::getMemoryFloor(const TrainLayout &layout) {
  const PipelineBlocks &blocks = getPipelineBlocks(layout);
  const KindCosts &plain = getKindCosts(layout, Recompute::None);
  const KindCosts &other = getKindCosts(layout, layout.recompute);
  PipelineShape shape = getShape(layout);
  int64_t again = getBlocksAgain(layout);
  int64_t all = shape.getVirtualStages();
  frontChunks.assign(size_t(all), StageCost());
  std::array<StageCost, 2> stages;
  MemoryFloor floor;
  floor.gaps = getGaps(layout);
  floor.reserve = machine.device.reserve;
  for (size_t i = 0; i != blocks.front.size(); ++i) {
    const DeviceBlocks &device = blocks.front[i];
    for (int64_t chunk = 0; chunk != shape.chunks; ++chunk) {
      BlockRange range = device.chunks[size_t(chunk)];
      int64_t middle = std::min(range.end, range.first + again);
      int64_t at = shape.getVirtualStage(int64_t(i), chunk);
      StageCost &cost = frontChunks[size_t(at)];
      if (at == 0)
        cost.add(*embeddingCost, 1);
      for (size_t kind = 0; kind != kinds.size(); ++kind) {
        cost.add(*other[kind], double(getCount({range.first, middle}, kind)));
        cost.add(*plain[kind], double(getCount({middle, range.end}, kind)));
      }
      if (at == all - 1)
        cost.add(*headCost, 1);
      stages[i].add(cost, 1);
    }
    if (model.tied && device.hasHead && !device.hasEmbedding) {
      double copied =
          getVocabShard(layout.tp) * double(model.getEmbeddingWidth());
      stages[i].denseParameters += copied;
      stages[i].largestEnd = std::max(stages[i].largestEnd, copied);
    }
  }
  size_t front = blocks.front.size();
  setMemory(shape, llvm::ArrayRef(stages).take_front(front), frontChunks,
            llvm::MutableArrayRef(floor.stages).take_front(front));
  return floor;
}

double CostModel::getScheduleBound(const TrainLayout &layout) {
  buildStages(layout);
  double microBatches = getPartialMicroBatches(layout);
  bool splits = PipelineShape{.schedule = layout.schedule}.splitsBackward();
  double hop = getSend(layout) * profile.dataOverlap, around = 0, least = 0;
  for (size_t i = 0; i != stages.size(); ++i) {
    least = std::max(least, stages[i].getTime() * microBatches +
                                (splits ? 0 : around));
    around += chunks[i].getTime() + 2 * hop;
  }
  return (1 - 1e-9) * (least + profile.hostPerStep);
}
