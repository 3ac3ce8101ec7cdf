//===- Bounds.cpp - What layouts cost at least ----------------------------===//
//
// The search leaves out layouts by these. Each is true of all layouts that its
// declaration names, whatever they differ in; the tests hold the search to
// brute force.
//
//===----------------------------------------------------------------------===//
#include "cleave/Cost/CostModel.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

static constexpr double infinity = std::numeric_limits<double>::infinity();

const CostModel::Floor &CostModel::getFloor(const TrainLayout &layout,
                                            Recompute recompute) {
  auto isCutLike = [&](const TrainLayout &other) {
    return layout.tp == other.tp && layout.cp == other.cp &&
           layout.dp == other.dp && layout.pp == other.pp &&
           layout.ep == other.ep && layout.expertTp == other.expertTp &&
           layout.microBatch == other.microBatch &&
           layout.sequenceParallel == other.sequenceParallel &&
           layout.contextKind == other.contextKind;
  };
  // Orders below a branch cut blocks alike.
  if (!isCutLike(floorLayout) ||
      (layout.order != floorLayout.order &&
       (layout.getContextGroup() != floorLayout.getContextGroup() ||
        layout.getRankGroup(layout.ep, layout.expertTp) !=
            floorLayout.getRankGroup(layout.ep, layout.expertTp)))) {
    floorLayout = layout;
    floors.clear();
    whole = getWholeModel(layout);
    headTime = getBlockCost(head, layout, Recompute::None).getTime();
    embeddingWeights =
        getBlockCost(embedding, layout, Recompute::None).denseParameters;
  }
  unsigned key =
      unsigned(recompute) + (recompute == Recompute::Selective
                                 ? unsigned(layout.recomputedModules) << 2
                                 : 0);
  for (const auto &[known, floor] : floors)
    if (known == key)
      return floor;
  Floor floor{infinity, infinity, infinity, infinity, infinity, infinity};
  for (const Block *kind : kinds) {
    const StageCost &cost = getBlockCost(*kind, layout, recompute);
    floor.time = std::min(floor.time, cost.getTime());
    floor.forward = std::min(floor.forward, cost.forward);
    floor.activations = std::min(floor.activations, cost.activations);
    floor.workingSet = std::min(floor.workingSet, cost.workingSet);
    floor.denseParameters =
        std::min(floor.denseParameters, cost.denseParameters);
    floor.expertParameters =
        std::min(floor.expertParameters, cost.expertParameters);
  }
  return floors.emplace_back(key, floor).second;
}

double CostModel::getRoundTrip(const TrainLayout &layout, bool splits,
                               double send) const {
  // The turn of a V-shaped pipeline sends nothing.
  double sends = double((layout.pp - 1) * layout.virtualStages);
  return whole.forward + whole.backward - (splits ? whole.weight : 0) +
         2 * sends * send;
}

double CostModel::addData(double own, double data) const {
  // What runs beside compute slows it down.
  return own + data -
         (1 - profile.overlapSlowdown) *
             std::min(data * profile.dataOverlap, own);
}

double CostModel::getTimeBound(const TrainLayout &layout) {
  return getTimeBound(layout, DataFloor());
}

double CostModel::getTimeBound(const TrainLayout &layout,
                               llvm::ArrayRef<DataFloor> floors) {
  double block = getFloor(layout, Recompute::None).time;
  const StageCost &sum = whole;
  double microBatches =
      double(work.globalBatch) / double(layout.dp * layout.microBatch);
  // Some device computes as much as the mean does, and the one with the most
  // blocks as much as these.
  double mean = sum.getTime() / double(layout.pp);
  double most = std::ceil(double(kindOf.size()) / double(layout.pp)) * block;
  double least = infinity;
  for (const DataFloor &data : floors)
    least = std::min(
        least, std::max(addData(most, data.each) * microBatches +
                            addData(most, data.once) - most,
                        getRoundTrip(layout, /*splits=*/true, data.send)));
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
  double bytes = weight + profile.gradientBytes + work.getStateBytes();
  double ranks = double(layout.dp * layout.cp);
  double expertRanks = double(layout.getExpertRanks());
  for (size_t kind = 0; kind != kinds.size(); ++kind) {
    double routed = kinds[kind]->getExpertParameters(model.hidden);
    double other = (kinds[kind]->getParameters(model.hidden) - routed) / tp;
    routed /= double(layout.ep * layout.expertTp);
    dense += double(kindCounts[kind]) * other;
    experts += double(kindCounts[kind]) * routed;
    least = std::min(least, other + routed);
    // Some stage has this many blocks of the kind.
    most = std::max(most, std::ceil(double(kindCounts[kind]) / pp) * bytes *
                              (other / ranks + routed / expertRanks));
  }
  double cut = dense / ranks + experts / expertRanks;
  double tokens =
      double(layout.microBatch) * double(work.seqLen) / double(layout.cp);
  double inputs = double(kindOf.size()) * h * work.getParameterBytes() /
                  (layout.sequenceParallel ? tp : 1);
  double logits = getBytes(work.getActivationType()) * vocab;
  double mean = (cut * bytes + tokens * (inputs + logits)) / pp;
  // Below ZeRO 3 parameters are whole; with it a block's are, and its gradient,
  // but at ends without a block.
  double inner = layout.pp == 1 ? 1 : std::max(pp - 2, 1.) / pp;
  double whole = std::min(weight * (dense + experts - cut) / pp,
                          inner * least * (2 * weight + profile.gradientBytes));
  double tensors = std::max({mean + whole, most, tokens * logits});
  return (1 - 1e-9) *
         (machine.device.reserve + (1 + profile.allocatorGaps) * tensors);
}

/// Blocks of the device that has the most, or fewer; and of that with the head.
static std::pair<int64_t, int64_t> getMostBlocks(const TrainLayout &layout,
                                                 int64_t blocks) {
  int64_t all = layout.pp * layout.virtualStages;
  int64_t most = (blocks + layout.pp - 1) / layout.pp;
  int64_t first = layout.getNumBlocks(0, blocks);
  int64_t last = layout.getNumBlocks(all - 1, blocks);
  if (all <= 2)
    return {std::max({most, first, last}), last};
  int64_t inner = blocks - first - last;
  if (layout.virtualStages == 1)
    return {std::max({first, last, (inner + all - 3) / (all - 2)}), last};
  int64_t fewest = std::min(first, inner / (all - 2));
  return {most, last + (layout.virtualStages - 1) * fewest};
}

DataFloor CostModel::getDataFloor(const TrainLayout &layout) {
  const Floor &floor = getFloor(layout, Recompute::None);
  double most = std::ceil(double(kindOf.size()) / double(layout.pp));
  StageCost stage;
  stage.denseParameters = most * floor.denseParameters;
  stage.expertParameters = most * floor.expertParameters;
  auto [gradients, parameters] = getDataTimes(layout, stage);
  DataFloor data;
  if (layout.zero == 3)
    data.each = gradients + 2 * parameters;
  else if (layout.zero == 2 && getMicroBatches(layout) > 1)
    data = {gradients, parameters};
  else
    data.once = gradients + parameters;
  data.once += getCopyTime(layout, stage);
  data.send = getSend(layout) * profile.dataOverlap;
  return data;
}

double CostModel::getBusyBound(const TrainLayout &layout, DataFloor data) {
  int64_t blocks = int64_t(kindOf.size());
  auto [most, last] = getMostBlocks(layout, blocks);
  double block = getFloor(layout, Recompute::None).time;
  if (layout.recompute != Recompute::None) {
    // Of b blocks of a virtual stage at least b * count / most recompute.
    double again = layout.recomputeBlocks == 0
                       ? 1
                       : double(layout.recomputeBlocks) /
                             double(layout.getMostBlocks(blocks));
    block += again * (getFloor(layout, layout.recompute).time - block);
  }
  double own = double(most) * block;
  double end = double(last) * block + headTime;
  double microBatches =
      double(work.globalBatch) / double(layout.dp * layout.microBatch);
  double seconds = std::max(addData(own, data.each) * microBatches +
                                addData(own, data.once) - own,
                            end * microBatches);
  // The first stage waits for its last micro-batch to come back.
  bool splits = PipelineShape{.schedule = layout.schedule}.splitsBackward();
  double ahead = double(layout.getNumBlocks(0, blocks)) *
                 getFloor(layout, Recompute::None).forward;
  seconds = std::max(seconds, (std::ceil(microBatches) - 1) * ahead +
                                  getRoundTrip(layout, splits, data.send));
  // The last stage waits for a micro-batch to come, and the others for it to
  // come back.
  if (layout.pp > 1 && !splits) {
    int64_t all = layout.pp * layout.virtualStages;
    int64_t first = layout.getNumBlocks(0, blocks);
    int64_t inner = blocks - first - layout.getNumBlocks(all - 1, blocks);
    int64_t before =
        first + (all > 2 ? (layout.pp - 2) * (inner / (all - 2)) : 0);
    seconds = std::max(seconds, end * microBatches + double(before) * block);
  }
  return (1 - 1e-9) * (seconds + profile.hostPerStep);
}

double CostModel::getWorkingSet(const TrainLayout &layout) {
  double stages = double(layout.pp);
  double inner = layout.pp == 1 ? 1 : std::max(stages - 2, 1.) / stages;
  return (1 - 1e-9) * inner * getFloor(layout, Recompute::None).workingSet;
}

StateFloor CostModel::getStateFloor(const TrainLayout &layout) {
  const Floor &floor = getFloor(layout, Recompute::None);
  auto split = [&](int zero, double bytes) {
    bool cuts = layout.zero >= zero;
    double dense = bytes / (cuts ? double(layout.getShards()) : 1);
    double expert = bytes / (cuts ? double(layout.getExpertRanks()) : 1);
    return std::pair(dense, expert);
  };
  StateFloor state;
  for (auto [dense, expert] :
       {split(3, work.getParameterBytes()), split(2, profile.gradientBytes),
        split(1, work.getStateBytes())}) {
    state.block +=
        dense * floor.denseParameters + expert * floor.expertParameters;
    state.embedding += dense * embeddingWeights;
  }
  return state;
}

MemoryFloor CostModel::getMemoryFloor(const TrainLayout &layout) {
  PipelineShape shape = getShape(layout);
  if (!(shape == peakShape)) {
    peakShape = shape;
    kept.assign(size_t(shape.getVirtualStages()), 1);
    size_t count = size_t(std::min<int64_t>(layout.pp, 2));
    pipeline.getPeaks(shape, kept,
                      llvm::MutableArrayRef(peaks).take_front(count));
  }
  Floor plain = getFloor(layout, Recompute::None);
  const Floor &other = getFloor(layout, layout.recompute);
  double again = other.activations;
  double workingSet = std::min(plain.workingSet, other.workingSet);
  // A virtual stage at an end may have fewer blocks than the others.
  int64_t blocks = int64_t(kindOf.size()), all = shape.getVirtualStages();
  int64_t first = layout.getNumBlocks(0, blocks);
  int64_t last = layout.getNumBlocks(all - 1, blocks);
  int64_t inner = all > 2 ? (blocks - first - last) / (all - 2) : last;
  MemoryFloor floor{.gaps = getGaps(layout), .reserve = machine.device.reserve};
  for (int64_t stage = 0; stage != std::min<int64_t>(layout.pp, 2); ++stage) {
    bool isEnd = stage == 0 || layout.pp == 2;
    int64_t each = !isEnd             ? inner
                   : shape.chunks > 1 ? std::min({first, inner, last})
                   : stage == 0       ? first
                                      : last;
    int64_t recompute = layout.recompute == Recompute::None ? 0
                        : layout.recomputeBlocks == 0
                            ? each
                            : std::min(each, layout.recomputeBlocks);
    floor.kept[size_t(stage)] =
        workingSet +
        peaks[size_t(stage)] * (double(each - recompute) * plain.activations +
                                double(recompute) * again);
    floor.blocks[size_t(stage)] = double(each * shape.chunks);
  }
  return floor;
}

double CostModel::getScheduleBound(const TrainLayout &layout) {
  buildStages(layout);
  double microBatches =
      double(work.globalBatch) / double(layout.dp * layout.microBatch);
  bool splits = PipelineShape{.schedule = layout.schedule}.splitsBackward();
  double hop = getSend(layout) * profile.dataOverlap, around = 0, least = 0;
  for (size_t i = 0; i != stages.size(); ++i) {
    least = std::max(least, stages[i].getTime() * microBatches +
                                (splits ? 0 : around));
    around += chunks[i].getTime() + 2 * hop;
  }
  return (1 - 1e-9) * (least + profile.hostPerStep);
}
