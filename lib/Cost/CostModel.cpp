//===- CostModel.cpp - A training step, from the costs of its blocks ------===//
#include "cleave/Cost/CostModel.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>
#include <cmath>

using namespace cleave;

namespace {
/// What runs beside compute: hides up to `window`, slows it, shows the rest.
struct Overlapped {
  double exposed, slowdown;
  double left; ///< of the window
};
} // namespace

static Overlapped overlap(double communication, double window, double share,
                          double slowdown) {
  double hidden = std::min(communication * share, window);
  return {communication - hidden, hidden * slowdown, window - hidden};
}

/// What the host adds to `busy` seconds of device work that it takes `host`
/// seconds to launch: nothing where kernels are long, all where they are
/// short, and part of both where long and short kernels mix.
static double getWait(double host, double busy) {
  return std::pow(std::pow(host, 4) + std::pow(busy, 4), 0.25) - busy;
}

CostModel::CostModel(const Architecture &model, const Machine &machine,
                     const Workload &work, const Profile &profile)
    : model(model), machine(machine), work(work), profile(profile) {
  for (const BlockRun &run : model.blocks) {
    size_t kind = 0;
    while (kind != kinds.size() && !(*kinds[kind] == run.block))
      ++kind;
    if (kind == kinds.size())
      kinds.push_back(&run.block);
    kindOf.insert(kindOf.end(), size_t(run.count), uint16_t(kind));
    kindCounts.resize(kinds.size(), 0);
    kindCounts[kind] += run.count;
  }
  std::vector<int64_t> before(kinds.size(), 0);
  for (uint16_t kind : kindOf) {
    kindsBefore.insert(kindsBefore.end(), before.begin(), before.end());
    ++before[kind];
  }
  kindsBefore.insert(kindsBefore.end(), before.begin(), before.end());
}

size_t CostModel::CutHash::operator()(const Cut &cut) const {
  uint64_t hash = uint64_t(reinterpret_cast<uintptr_t>(cut.block));
  for (uint64_t part :
       {uint64_t(cut.tp) << 32 | uint64_t(cut.cp),
        uint64_t(cut.ep) << 32 | uint64_t(cut.expertTp),
        uint64_t(cut.contextGroup.stride) << 32 |
            uint64_t(cut.contextGroup.outerStride),
        uint64_t(cut.expertGroup.ranks) << 32 |
            uint64_t(cut.expertGroup.outerStride),
        uint64_t(cut.microBatch) << 32 | cut.recomputedModules << 8 |
            uint64_t(cut.sequenceParallel) << 4 |
            uint64_t(cut.contextKind) << 2 | uint64_t(cut.recompute)}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return size_t(hash);
}

CostModel::Cut CostModel::getCut(const Block &block, const TrainLayout &layout,
                                 Recompute recompute) const {
  return {&block,
          int32_t(layout.tp),
          int32_t(layout.cp),
          int32_t(block.isSparse() ? layout.ep : 1),
          int32_t(block.isSparse() ? layout.expertTp : 1),
          int32_t(layout.microBatch),
          layout.getContextGroup(),
          block.isSparse() ? layout.getRankGroup(layout.ep, layout.expertTp)
                           : Group(),
          layout.sequenceParallel,
          layout.contextKind,
          recompute,
          recompute == Recompute::Selective ? layout.recomputedModules : 0};
}

/// None: collectives over tp are done as wholes.
const CostModel::TensorParts *CostModel::getTensorParts(Cut cut) {
  if (!profile.cutsProducts || cut.tp == 1 || cut.block->isSparse())
    return nullptr;
  cut.recompute = Recompute::None;
  cut.recomputedModules = 0;
  auto [at, isNew] = tensorParts.try_emplace(cut);
  if (isNew)
    at->second = computeTensorParts(cut);
  return &at->second;
}

const CostModel::StageCost &CostModel::getBlockCost(const Block &block,
                                                    const TrainLayout &layout,
                                                    Recompute recompute) {
  Cut cut = getCut(block, layout, recompute);
  auto [at, isNew] = cache.try_emplace(cut);
  if (!isNew)
    return at->second;
  BlockCost cost = cut.block == &embedding ? computeEmbedding(cut)
                   : cut.block == &head
                       ? computeHead(cut)
                       : computeBlock(cut, getTensorParts(cut));
  if (!profile.cutsProducts) {
    cost.hiddenForward = cost.tensorForward * profile.tensorOverlap;
    cost.hiddenBackward = cost.tensorBackward * profile.tensorOverlap;
  }
  double forwardTensor = cost.tensorForward - cost.hiddenForward;
  double backwardTensor = cost.tensorBackward - cost.hiddenBackward;
  double forwardComm = forwardTensor + cost.contextForward + cost.expertForward;
  double backwardComm =
      backwardTensor + cost.contextBackward + cost.expertBackward;
  double slow =
      (cost.hiddenForward + cost.hiddenBackward) * profile.overlapSlowdown;
  double backward =
      cost.recompute + cost.backwardInput + cost.backwardWeight + slow;
  // The device waits for the host where its kernels are too short.
  double host = profile.hostPerBlock * cost.launches;
  double hostForward = getWait(host, cost.forward + forwardComm);
  double hostAgain = host * (recompute == Recompute::Full ? 2.2 : 1.2);
  double hostBackward = getWait(hostAgain, backward + backwardComm);
  StageCost &stage = at->second;
  stage.host = hostForward + hostBackward;
  stage.forward = cost.forward + forwardComm + hostForward;
  stage.backward = backward + backwardComm + hostBackward;
  stage.weight = cost.backwardWeight;
  stage.tensor = forwardTensor + backwardTensor;
  stage.context = cost.contextForward + cost.contextBackward;
  stage.expert = cost.expertForward + cost.expertBackward;
  stage.denseParameters = cost.denseParameters;
  stage.expertParameters = cost.expertParameters;
  stage.activations = cost.activations;
  stage.read = cost.read;
  stage.workingSet = cost.workingSet;
  stage.workingSetApart = cost.workingSetApart;
  stage.loss = cost.loss;
  stage.between = cost.between;
  stage.pieces = cost.pieces;
  stage.vectors = cost.vectors;
  stage.vectorsAgain = cost.vectorsAgain;
  stage.vectorParameters = cost.vectorParameters;
  stage.largest = cost.largest;
  stage.largestEnd = cost.largestEnd;
  return stage;
}

void CostModel::StageCost::add(const StageCost &other, double times) {
  if (times <= 0)
    return;
  forward += times * other.forward;
  backward += times * other.backward;
  weight += times * other.weight;
  tensor += times * other.tensor;
  context += times * other.context;
  expert += times * other.expert;
  held += times * other.held;
  host += times * other.host;
  denseParameters += times * other.denseParameters;
  expertParameters += times * other.expertParameters;
  activations += times * other.activations;
  read += times * other.read;
  between += times * other.between;
  workingSet = std::max(workingSet, other.workingSet);
  workingSetApart = std::max(workingSetApart, other.workingSetApart);
  loss = std::max(loss, other.loss);
  pieces += times * other.pieces;
  vectors += times * other.vectors;
  vectorsAgain += times * other.vectorsAgain;
  vectorParameters += times * other.vectorParameters;
  largest = std::max(largest, other.largest);
  largestEnd = std::max(largestEnd, other.largestEnd);
}

const CostModel::KindCosts &CostModel::getKindCosts(const TrainLayout &layout,
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
  if (!isCutLike(cutLayout) ||
      (layout.order != cutLayout.order &&
       (layout.getContextGroup() != cutLayout.getContextGroup() ||
        layout.getRankGroup(layout.ep, layout.expertTp) !=
            cutLayout.getRankGroup(layout.ep, layout.expertTp)))) {
    cutLayout = layout;
    cutCosts.clear();
    embeddingCost = &getBlockCost(embedding, layout, Recompute::None);
    headCost = &getBlockCost(head, layout, Recompute::None);
    const KindCosts &plain = getKindCosts(layout, Recompute::None);
    whole = StageCost();
    whole.add(*embeddingCost, 1);
    whole.add(*headCost, 1);
    for (size_t kind = 0; kind != kinds.size(); ++kind)
      whole.add(*plain[kind], double(kindCounts[kind]));
    most = getMostBlocks(plain, layout.pp);
  }
  unsigned key =
      unsigned(recompute) + (recompute == Recompute::Selective
                                 ? unsigned(layout.recomputedModules) << 2
                                 : 0);
  for (const auto &[known, costs] : cutCosts)
    if (known == key)
      return costs;
  KindCosts costs;
  for (const Block *kind : kinds)
    costs.push_back(&getBlockCost(*kind, layout, recompute));
  return cutCosts.emplace_back(key, std::move(costs)).second;
}

const CostModel::PipelineBlocks &
CostModel::getPipelineBlocks(const TrainLayout &layout) {
  auto [at, isNew] = pipelineBlocks.try_emplace(
      {layout.pp, layout.virtualStages, isVShaped(layout.schedule),
       layout.firstBlocks, layout.lastBlocks});
  PipelineBlocks &result = at->second;
  if (!isNew)
    return result;
  PipelineShape shape = getShape(layout);
  int64_t all = shape.getVirtualStages();
  std::vector<BlockRange> &ranges = result.ranges;
  for (int64_t i = 0, first = 0; i != all; ++i) {
    int64_t end = first + layout.getNumBlocks(i, int64_t(kindOf.size()));
    ranges.push_back({first, end});
    first = end;
  }
  auto haveLike = [&](BlockRange a, BlockRange b) {
    auto begin = kindOf.begin();
    return std::equal(begin + a.first, begin + a.end, begin + b.first,
                      begin + b.end);
  };
  for (size_t i = 0; i != ranges.size(); ++i)
    result.repeats.push_back(i > 1 && i + 1 != ranges.size() &&
                             haveLike(ranges[i], ranges[i - 1]));
  auto isLike = [&](const DeviceBlocks &a, const DeviceBlocks &b) {
    return a.hasEmbedding == b.hasEmbedding && a.hasHead == b.hasHead &&
           std::equal(a.chunks.begin(), a.chunks.end(), b.chunks.begin(),
                      haveLike);
  };
  for (int64_t stage = layout.pp - 1; stage >= 0; --stage) {
    DeviceBlocks device{.stage = stage,
                        .before = ranges[size_t(stage)].first,
                        .hasEmbedding = stage == 0,
                        .hasHead = stage == shape.getStage(all - 1)};
    for (int64_t chunk = 0; chunk != shape.chunks; ++chunk)
      device.chunks.push_back(
          ranges[size_t(shape.getVirtualStage(stage, chunk))]);
    if (stage < 2)
      result.front.insert(result.front.begin(), device);
    // Of those that are alike, the last one waits longest.
    if (llvm::none_of(result.devices, [&](const DeviceBlocks &other) {
          return isLike(device, other);
        }))
      result.devices.push_back(std::move(device));
  }
  return result;
}

void CostModel::buildStages(const TrainLayout &layout) {
  // A send that does not run beside compute holds both of its stages.
  double hold = getSend(layout) * (1 - profile.dataOverlap);
  // The order of axes matters to stages by their groups and sends only.
  TrainLayout key = layout;
  key.zero = 0;
  key.zeroGroup = 0;
  key.order = AxisOrder();
  Group context = layout.getContextGroup();
  Group experts = layout.getRankGroup(layout.ep, layout.expertTp);
  if (key == built && context == builtContext && experts == builtExperts &&
      hold == builtHold)
    return;
  built = key;
  builtContext = context;
  builtHold = hold;
  builtExperts = experts;
  played = false;
  PipelineShape shape = getShape(layout);
  const PipelineBlocks &blocks = getPipelineBlocks(layout);
  int64_t all = shape.getVirtualStages(), again = getBlocksAgain(layout);
  stages.assign(size_t(layout.pp), StageCost());
  chunks.assign(size_t(all), StageCost());
  counts.assign(size_t(layout.pp), 0);
  const KindCosts &plain = getKindCosts(layout, Recompute::None);
  const KindCosts &other = getKindCosts(layout, layout.recompute);
  for (int64_t at = 0; at != all; ++at) {
    StageCost &chunk = chunks[size_t(at)];
    BlockRange range = blocks.ranges[size_t(at)];
    // Where a V-shaped pipeline turns nothing is sent.
    auto isSent = [&](int64_t from) {
      return from >= 0 && from != all - 1 &&
             (!profile.hasArena() ||
              shape.getStage(from) != shape.getStage(from + 1));
    };
    if (blocks.repeats[size_t(at)] && isSent(at - 2) && isSent(at - 1) &&
        isSent(at)) {
      chunk = chunks[size_t(at - 1)];
    } else {
      if (at == 0)
        chunk.add(*embeddingCost, 1);
      int64_t middle = std::min(range.end, range.first + again);
      for (size_t kind = 0; kind != kinds.size(); ++kind) {
        chunk.add(*plain[kind], double(getCount({middle, range.end}, kind)));
        chunk.add(*other[kind], double(getCount({range.first, middle}, kind)));
      }
      if (at == all - 1)
        chunk.add(*headCost, 1);
      if (isSent(at)) {
        chunk.forward += hold;
        chunk.held += hold;
      }
      if (isSent(at - 1)) {
        chunk.backward += hold;
        chunk.held += hold;
      }
    }
    size_t stage = size_t(shape.getStage(at));
    counts[stage] += range.end - range.first;
    stages[stage].add(chunk, 1);
  }
  // A tied head on another stage than the embedding has a copy of it.
  if (model.tied && shape.getStage(all - 1) != 0) {
    double copied =
        getVocabShard(layout.tp) * double(model.getEmbeddingWidth());
    StageCost &last = stages[size_t(shape.getStage(all - 1))];
    last.denseParameters += copied;
    last.largestEnd = std::max(last.largestEnd, copied);
  }
  memory.resize(stages.size());
  setMemory(shape, stages, chunks, memory);
}

StageMoment CostModel::getMoment(const PipelineShape &shape, int64_t stage,
                                 const PipelineProgram::Moment &moment,
                                 const StageCost &ofStage,
                                 llvm::ArrayRef<StageCost> ofChunks) const {
  bool splits = shape.splitsBackward();
  StageMoment result;
  if (moment.inBlock)
    result.inBlock = splits ? ofStage.workingSetApart : ofStage.workingSet;
  if (moment.inLoss)
    result.inLoss = ofStage.loss;
  auto add = [&](const PipelineProgram::Live &live, const StageCost &cost,
                 double sign) {
    result.kept += sign * (live.read * cost.read +
                           live.kept * (cost.activations - cost.read) +
                           live.between * cost.between);
  };
  auto addParameters = [&](const PipelineProgram::Live &live, double dense,
                           double expert) {
    if (live.gradients) {
      result.gradients.dense += dense;
      result.gradients.expert += expert;
    }
    if (live.copies) {
      result.copies.dense += dense;
      result.copies.expert += expert;
    }
  };
  int64_t all = shape.getVirtualStages();
  bool isTied = model.tied && shape.getStage(all - 1) == shape.getStage(0);
  const PipelineProgram::Live &head = moment.parts[size_t(shape.chunks)];
  // A tied embedding is there as long as the head that reads it.
  const PipelineProgram::Live &embedding =
      isTied ? head : moment.parts[size_t(shape.chunks) + 1];
  double dense = ofStage.denseParameters;
  for (int64_t chunk = 0; chunk != shape.chunks; ++chunk) {
    int64_t at = shape.getVirtualStage(stage, chunk);
    const StageCost &cost = ofChunks[size_t(at)];
    const PipelineProgram::Live &live = moment.parts[size_t(chunk)];
    double own = cost.denseParameters;
    add(live, cost, 1);
    if (at == 0) {
      own -= embeddingCost->denseParameters;
      add(live, *embeddingCost, -1);
      add(moment.parts[size_t(shape.chunks) + 1], *embeddingCost, 1);
      addParameters(embedding, embeddingCost->denseParameters, 0);
      dense -= embeddingCost->denseParameters;
    }
    if (at == all - 1) {
      own -= headCost->denseParameters;
      add(live, *headCost, -1);
      add(head, *headCost, 1);
    }
    addParameters(live, own, cost.expertParameters);
    dense -= own;
  }
  // What is left is the head's, with its copy of a tied embedding.
  addParameters(head, dense, 0);
  return result;
}

void CostModel::setMemory(const PipelineShape &shape,
                          llvm::ArrayRef<StageCost> ofStages,
                          llvm::ArrayRef<StageCost> ofChunks,
                          llvm::MutableArrayRef<StageMemory> memory) {
  if (!profile.hasArena()) {
    kept.resize(ofChunks.size());
    for (size_t i = 0; i != ofChunks.size(); ++i)
      kept[i] = ofChunks[i].activations;
    peaks.resize(memory.size());
    pipeline.getPeaks(shape, kept, peaks);
  }
  for (size_t i = 0; i != memory.size(); ++i) {
    const StageCost &stage = ofStages[i];
    StageMemory &of = memory[i];
    of.parameters = {stage.denseParameters, stage.expertParameters};
    of.largest = stage.largest;
    of.largestEnd = stage.largestEnd;
    of.shares =
        profile.hasArena() && (shape.stages == 1 || shape.microBatches == 1);
    of.moments.clear();
    if (!profile.hasArena()) {
      of.moments.push_back({peaks[i], stage.workingSet, stage.loss,
                            of.parameters, of.parameters});
      continue;
    }
    for (const PipelineProgram::Moment &moment :
         pipeline.getMoments(shape, int64_t(i)))
      of.moments.push_back(
          getMoment(shape, int64_t(i), moment, stage, ofChunks));
  }
}

int64_t CostModel::getBlocksAgain(const TrainLayout &layout) const {
  return layout.recompute == Recompute::None ? 0
         : layout.recomputeBlocks > 0        ? layout.recomputeBlocks
                                             : int64_t(kindOf.size());
}

double CostModel::getSend(const TrainLayout &layout) const {
  if (layout.pp == 1)
    return 0;
  // Of what is split over tp, each rank sends its part.
  bool isSplit = profile.sendsParts || layout.sequenceParallel;
  double sent = double(layout.microBatch) * work.seqLen / double(layout.cp) *
                double(model.hidden) * getBytes(work.getActivationType()) /
                (isSplit ? double(layout.tp) : 1);
  return getSendTime(machine, {layout.pp, layout.getPipelineStride()}, sent);
}

double CostModel::getGaps(const TrainLayout &layout) const {
  bool nests =
      layout.virtualStages == 1 || layout.recompute != Recompute::Selective;
  return profile.allocatorGaps + (nests ? 0 : profile.scatteredGaps);
}

StateBytes CostModel::getStateBytes(const TrainLayout &layout) const {
  double shards = double(layout.getShards());
  double expertShards = double(layout.getExpertRanks());
  auto split = [&](int zero, double bytes) -> StateBytes::Each {
    bool cuts = layout.zero >= zero;
    return {bytes / (cuts ? shards : 1), bytes / (cuts ? expertShards : 1)};
  };
  double weight = work.getParameterBytes(), gradient = profile.gradientBytes;
  double optimizer = work.getStateBytes();
  bool copies = work.dtype != DType::F32;
  if (layout.zero == 3 && profile.blockBuffers) {
    // Shards are of f32, and cast where they enter a buffer.
    weight = gradient = getBytes(DType::F32);
    optimizer = work.getMomentBytes();
    copies = false;
  } else if (work.dtype == DType::F32 && layout.zero > 0 && layout.zero < 3 &&
             shards > 1) {
    // The optimizer's shard of the weights lies beside the gathered whole.
    optimizer += weight;
    copies = true;
  }
  return {.parameters = split(3, weight),
          .gradients = split(2, gradient),
          .optimizer = split(1, optimizer),
          .gathered = getGatheredBytes(layout.zero),
          .copies = copies};
}

double CostModel::getGatheredBytes(int zero) const {
  double weight = work.getParameterBytes(), gradient = profile.gradientBytes;
  if (zero < 3)
    return zero == 2 ? gradient : 0;
  return profile.dataOverlap > 0 ? 2 * weight + gradient
                                 : std::max(weight, gradient);
}

template <typename Visit>
void CostModel::visitMemory(const TrainLayout &layout, Visit visit) const {
  StateBytes state = getStateBytes(layout);
  double gaps = getGaps(layout);
  for (const StageMemory &each : memory) {
    MemoryUse use = each.getMost(state);
    use.reserve = machine.device.reserve + gaps * use.getTensors();
    visit(use);
  }
}

MemoryUse CostModel::getMemory(const TrainLayout &layout) {
  buildStages(layout);
  MemoryUse fullest;
  visitMemory(layout, [&](const MemoryUse &use) {
    if (use.getTotal() > fullest.getTotal())
      fullest = use;
  });
  return fullest;
}

std::vector<MemoryUse> CostModel::getMemoryOfStages(const TrainLayout &layout) {
  buildStages(layout);
  std::vector<MemoryUse> uses;
  visitMemory(layout, [&](const MemoryUse &use) { uses.push_back(use); });
  return uses;
}

Estimate CostModel::price(const TrainLayout &layout) {
  Estimate result = *tryPrice(layout, std::numeric_limits<double>::infinity());
  if (layout.pp > 1) {
    // What sends add is what the step is shorter by without them.
    PipelineShape shape = getShape(layout);
    std::vector<double> starts, ends;
    double with = pipeline.getSeconds(shape, times, send, starts, ends);
    double without = pipeline.getSeconds(shape, times, 0, starts, ends);
    double sends = std::min(result.bubble, with - without);
    result.pipeline += sends;
    result.bubble -= sends;
  }
  return result;
}

PipelineStep CostModel::getPipelineStep(const TrainLayout &layout) {
  PipelineStep step;
  step.optimizer = price(layout).optimizer;
  step.shape = getShape(layout);
  step.times = times;
  step.send = send;
  for (const DataExposure &each : exposed)
    step.data.push_back(each.once);
  for (const StageCost &chunk : chunks) {
    step.activations.push_back(chunk.activations);
    step.between.push_back(profile.hasArena() ? chunk.between : 0);
  }
  return step;
}

PipelineShape CostModel::getShape(const TrainLayout &layout) const {
  return {layout.schedule, layout.pp, layout.virtualStages,
          getMicroBatches(layout), !profile.postValidates};
}

int64_t CostModel::getMicroBatches(const TrainLayout &layout) const {
  return std::max<int64_t>(work.globalBatch / (layout.dp * layout.microBatch),
                           1);
}

double CostModel::getPartialMicroBatches(const TrainLayout &layout) const {
  return double(work.globalBatch) / double(layout.dp * layout.microBatch);
}

CostModel::DataTimes CostModel::getDataTimes(const TrainLayout &layout,
                                             const StageCost &stage) const {
  Group dense = layout.getRankGroup(layout.getShards(), layout.tp);
  Group experts =
      layout.getRankGroup(layout.getExpertRanks(), layout.ep * layout.expertTp);
  // Below ZeRO-2 what has buffers for blocks fills them with many.
  bool isWhole = profile.blockBuffers && layout.zero < 2;
  double pieces = isWhole ? 1 : std::max(stage.pieces, 1.);
  double vectors = isWhole ? 0 : stage.vectors;
  auto getTime = [&](CollectiveKind kind, double bytes, double vectors) {
    double small = vectors > 0 ? stage.vectorParameters : 0;
    double time =
        pieces *
        (getCollectiveTime(machine, kind, dense,
                           (stage.denseParameters - small) * bytes / pieces) +
         getCollectiveTime(machine, kind, experts,
                           stage.expertParameters * bytes / pieces));
    if (vectors > 0)
      time += vectors *
              getCollectiveTime(machine, kind, dense, small * bytes / vectors);
    return time;
  };
  if (layout.zero == 0)
    return {getTime(CollectiveKind::AllReduce, profile.gradientBytes, vectors)};
  DataTimes times{
      getTime(CollectiveKind::ReduceScatter, profile.gradientBytes, vectors),
      getTime(CollectiveKind::AllGather, work.getParameterBytes(), vectors)};
  times.again = profile.hasArena() && layout.zero == 3
                    ? getTime(CollectiveKind::AllGather,
                              work.getParameterBytes(), stage.vectorsAgain)
                    : times.parameters;
  return times;
}

double CostModel::getTiedTime(const TrainLayout &layout) const {
  PipelineShape shape = getShape(layout);
  if (!profile.hasArena() || !model.tied ||
      shape.getStage(shape.getVirtualStages() - 1) == 0)
    return 0;
  double bytes = getVocabShard(layout.tp) * double(model.getEmbeddingWidth()) *
                 profile.gradientBytes /
                 (layout.zero >= 2 ? double(layout.getShards()) : 1);
  return getSendTime(machine, {layout.pp, layout.getPipelineStride()}, bytes);
}

double CostModel::getCopyTime(const TrainLayout &layout,
                              const StageCost &stage) const {
  int64_t ranks = layout.dp * layout.cp;
  if (layout.zeroGroup == 0 || layout.zeroGroup >= ranks)
    return 0;
  return getCollectiveTime(machine, CollectiveKind::AllReduce,
                           layout.getRankGroup(ranks / layout.zeroGroup,
                                               layout.tp * layout.zeroGroup),
                           stage.denseParameters * profile.gradientBytes /
                               double(layout.zeroGroup));
}

CostModel::DataExposure CostModel::getDataExposure(const TrainLayout &layout,
                                                   const StageCost &stage,
                                                   int64_t blocks) const {
  double share = profile.dataOverlap, slow = profile.overlapSlowdown;
  double buckets = double(std::max<int64_t>(blocks, 1));
  // Once a step, a chunk's collectives hide behind its own last pass, but for
  // the first block's gather and the last one's scatter; of interleaved stages
  // also behind the p passes of each chunk between it and the step's end.
  bool turns = layout.schedule == Schedule::Interleaved;
  double chunks = turns ? double(layout.virtualStages) : 1;
  double group = double(std::min(layout.pp, getMicroBatches(layout)));
  double own = std::max(0., 1 - chunks / buckets) / chunks;
  double others = 1 - 1 / chunks;
  auto hideOnce = [&](double communication, double pass) {
    double window = std::min(pass * (own + others * group),
                             pass * own + others * communication);
    return overlap(communication, window, share, slow);
  };
  auto [gradients, parameters, again] = getDataTimes(layout, stage);
  DataExposure result;
  double left = 0; // of the last backward pass, with nothing beside it
  if (layout.zero == 2 && getMicroBatches(layout) > 1) {
    // To stay split, gradients are reduced after each micro-batch.
    Overlapped front = hideOnce(parameters, stage.forward);
    Overlapped back = overlap(gradients, stage.backward, share, slow);
    result.backward = result.each = back.exposed + back.slowdown;
    result.weight = result.backward;
    result.once = gradients / buckets * share + front.exposed + front.slowdown;
    left = back.left;
  } else if (layout.zero < 3) {
    Overlapped back = hideOnce(gradients, stage.backward);
    Overlapped front = hideOnce(parameters, stage.forward);
    result.once = back.exposed + front.exposed + back.slowdown + front.slowdown;
    left = back.left;
  } else {
    // Each micro-batch gathers each block twice and scatters its gradient.
    Overlapped front = overlap(parameters, stage.forward, share, slow);
    Overlapped back = overlap(again + gradients, stage.backward, share, slow);
    result.once = (parameters + gradients) / buckets * share;
    result.each = front.exposed + back.exposed + front.slowdown + back.slowdown;
    result.forward = front.exposed + front.slowdown;
    result.backward = back.exposed + back.slowdown;
    if (again + gradients > 0)
      result.weight = result.backward * gradients / (again + gradients);
    if (profile.blockBuffers) {
      double weights = stage.denseParameters + stage.expertParameters;
      double copied = 2 * weights * work.getParameterBytes();
      double cast =
          weights * (work.getParameterBytes() + profile.gradientBytes);
      result.forward += getStreamTime(machine.device, copied);
      result.backward += getStreamTime(machine.device, copied + cast);
    }
    left = back.left;
  }
  Overlapped rest = overlap(getCopyTime(layout, stage), left, share, slow);
  result.once += rest.exposed + rest.slowdown;
  return result;
}

/// Seconds of the optimizer: gradient, master weight and moments read, all but
/// the gradient written, and the norm's pass over the gradient.
double CostModel::getOptimizerTime(const TrainLayout &layout) const {
  double sharded = layout.zero >= 1 ? double(layout.getShards()) : 1;
  double expertSharded = layout.zero >= 1 ? double(layout.getExpertRanks()) : 1;
  double updated = 0;
  for (const StageCost &each : stages)
    updated = std::max(updated, each.denseParameters / sharded +
                                    each.expertParameters / expertSharded);
  return getStreamTime(machine.device, updated * work.getOptimizerTraffic());
}

void CostModel::setTimes(const PipelineShape &shape) {
  times.resize(chunks.size());
  for (size_t i = 0; i != chunks.size(); ++i) {
    const StageCost &chunk = chunks[i];
    size_t at = size_t(shape.getStage(int64_t(i)));
    const StageCost &stage = stages[at];
    auto getPart = [](double seconds, double ofChunk, double ofStage) {
      return ofStage > 0 ? seconds * ofChunk / ofStage : 0;
    };
    times[i].forward = chunk.forward + getPart(exposed[at].forward,
                                               chunk.forward, stage.forward);
    // What is left of gradients belongs to where these are made.
    double weight =
        profile.hasArena() && shape.splitsBackward() ? exposed[at].weight : 0;
    times[i].backwardInput =
        chunk.backward - chunk.weight +
        getPart(exposed[at].backward - weight, chunk.backward, stage.backward);
    times[i].backwardWeight =
        chunk.weight + getPart(weight, chunk.backward, stage.backward);
  }
}

std::optional<Estimate> CostModel::tryPrice(const TrainLayout &layout,
                                            double seconds) {
  PipelineShape shape = getShape(layout);
  double microBatches = getPartialMicroBatches(layout);
  buildStages(layout);
  double own = 0;
  for (const StageCost &stage : stages)
    own = std::max(own, stage.getTime());
  if ((1 - 1e-9) * (own * microBatches + profile.hostPerStep) > seconds)
    return std::nullopt;
  Estimate result;

  exposed.resize(stages.size());
  double slowest = 0;
  size_t worst = 0;
  for (size_t i = 0; i != stages.size(); ++i) {
    const StageCost &stage = stages[i];
    bool isSame =
        i > 0 && stage.isLike(stages[i - 1]) && counts[i] == counts[i - 1];
    exposed[i] =
        isSame ? exposed[i - 1] : getDataExposure(layout, stage, counts[i]);
    double time = stage.getTime() + exposed[i].forward + exposed[i].backward;
    if (time > slowest) {
      slowest = time;
      worst = i;
    }
  }
  double tied = getTiedTime(layout);
  exposed.front().once += tied;
  exposed[size_t(shape.getStage(shape.getVirtualStages() - 1))].once += tied;
  setTimes(shape);
  double hop = getSend(layout) * profile.dataOverlap;
  played &= hop == send;
  send = hop;
  result.optimizer = getOptimizerTime(layout);

  // No stage takes less than its own work. Before it begins, the stages before
  // it go forward; after it ends, they go back, and the first one reduces.
  double before = 0, after = 0, least = 0;
  for (size_t i = 0; i != stages.size(); ++i) {
    own = (stages[i].getTime() + exposed[i].forward + exposed[i].backward) *
          microBatches;
    least = std::max(least, own + before + exposed[i].once);
    if (shape.splitsBackward())
      continue;
    least = std::max(least, own + before + after + exposed[0].once);
    before += times[i].forward + send;
    after += times[i].getBackward() + send;
  }
  if ((1 - 1e-9) * (least + result.optimizer + profile.hostPerStep) > seconds)
    return std::nullopt;

  // A batch that does not divide ends in part of a micro-batch.
  double part = microBatches / double(shape.microBatches);
  // Only ZeRO 2 and 3 change what a stage does for a micro-batch.
  bool same = llvm::all_of(exposed, [](const DataExposure &each) {
    return each.forward == 0 && each.backward == 0;
  });
  if (!played || !same)
    pipeline.getSeconds(shape, times, send, starts, ends);
  played = same;
  double busy = 0, end = 0;
  for (size_t i = 0; i != stages.size(); ++i) {
    double start = shape.endsAlone() ? starts[i] : 0;
    double ran = part * (ends[i] - start);
    busy = std::max(busy, ran);
    end = std::max(end, ran + exposed[i].once);
  }

  const StageCost &stage = stages[worst];
  result.tensor = stage.tensor * microBatches;
  result.context = stage.context * microBatches;
  result.expert = stage.expert * microBatches;
  result.host = stage.host * microBatches + profile.hostPerStep;
  result.pipeline = stage.held * microBatches;
  result.data = exposed[worst].each * microBatches;
  result.compute = slowest * microBatches - result.tensor - result.context -
                   result.pipeline - result.expert - stage.host * microBatches -
                   result.data;
  result.bubble = std::max(0., busy - slowest * microBatches);
  result.data += end - slowest * microBatches - result.bubble;
  result.step = end + result.optimizer + profile.hostPerStep;
  result.memory = getMemory(layout);
  return result;
}
