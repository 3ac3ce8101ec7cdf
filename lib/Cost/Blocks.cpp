//===- Blocks.cpp - What a block costs on one device ----------------------===//
//
// Each kernel of a block from its local shape. T tokens of a micro-batch reach
// a device; h is the hidden size; a number of bytes without a type is of
// bf16.
// "Outer" ops work on the residual stream, whole or split over tp (Megatron's
// sequence parallelism); "inner" ones on what the weights' cut leaves.
//
//===----------------------------------------------------------------------===//
#include "cleave/Cost/CostModel.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

static double divide(int64_t size, int64_t parts) {
  return std::max(1., double(size) / double(parts));
}

namespace {
/// Adds up kernels; forward and backward of one op at a time. Each call returns
/// the seconds of its forward kernels, for what recomputation repeats.
struct Kernels {
  const Device &device;
  DType dtype;
  double rate; ///< of matrix products, see Profile::matrixRate
  double launch = device.getMatrix(dtype).launch;
  double forward = 0, backwardInput = 0, backwardWeight = 0;
  double linear = 0; ///< forward seconds of all products

  /// x [rows, in] -> [rows, out] and its two gradients.
  double addLinear(double rows, double out, double in) {
    double time = getMatmulTime(device, dtype, rows, out, in) / rate;
    forward += time;
    linear += time;
    backwardInput += getMatmulTime(device, dtype, rows, in, out) / rate;
    backwardWeight += getMatmulTime(device, dtype, out, in, rows) / rate;
    addCasts(rows * in, rows * out);
    return time;
  }
  /// Pointwise or row kernels that move these bytes.
  double addStream(double forwardBytes, double backwardBytes) {
    double time = launch + getStreamTime(device, forwardBytes);
    forward += time;
    backwardInput += launch + getStreamTime(device, backwardBytes);
    return time;
  }
  /// The same, of a tensor of so many bytes.
  double addPasses(Passes passes, double bytes) {
    return addStream(passes.forward * bytes, passes.backward * bytes);
  }

private:
  /// Below bf16, operands are quantized in two layouts, since products for
  /// gradients read them transposed. Kernels that write an input anyway write
  /// these; output gradients are read and cast. Weights are once a step.
  void addCasts(double input, double output) {
    if (dtype != DType::FP8 && dtype != DType::FP4)
      return;
    forward += getStreamTime(device, input * getBytes(dtype));
    backwardInput += getStreamTime(
        device, output * (getBytes(DType::BF16) + 2 * getBytes(dtype)));
  }
};
} // namespace

double CostModel::getJointTime(CollectiveKind kind, Group group,
                               double bytes) const {
  return group.getSize() > 1
             ? profile.rankSkew + getCollectiveTime(machine, kind, group, bytes)
             : 0;
}

/// Seconds to send `bytes` of tokens to the ranks that own their experts. A
/// token crosses the network once for each node that has some of its `copies`
/// experts and is forwarded inside (DeepSeek-V3, section 3.2.2); of n nodes it
/// meets n (1 - (1 - 1/n)^copies).
double CostModel::getExchangeTime(Group group, double bytes,
                                  double copies) const {
  int64_t inside = getRanksInside(group, machine.getDevicesPerNode());
  double nodes = double(group.getSize()) / double(inside);
  if (nodes <= 1)
    return getJointTime(CollectiveKind::AllToAll, group, bytes);
  double met = nodes * (1 - std::pow(1 - 1 / nodes, copies));
  double forwarded = getCollectiveTime(machine, CollectiveKind::AllToAll,
                                       {inside, group.stride}, bytes);
  double crossing = getCollectiveTime(machine, CollectiveKind::AllToAll, group,
                                      bytes / copies * met);
  return profile.rankSkew + std::max(forwarded, crossing);
}

/// Seconds of a group, but no less than of as many devices as near to each
/// other as can be, so that the usual order of axes bounds all others.
template <typename Time>
static double getScattered(Group group, Group near, Time time) {
  return group == near ? time(near) : std::max(time(near), time(group));
}

CostModel::BlockCost CostModel::computeBlock(const Cut &cut) const {
  const Block &block = *cut.block;
  const Device &device = machine.device;
  const DType activationType = work.getActivationType();
  const double activationBytes = getBytes(activationType);
  double h = double(model.hidden);
  double tokens = double(cut.microBatch) * work.seqLen / double(cut.cp);
  double tp = double(cut.tp);
  double outer = tokens / (cut.sequenceParallel ? tp : 1); // rows outside of tp
  double heads = divide(block.heads, cut.tp);
  double kvHeads = divide(block.kvHeads, cut.tp);
  double queries = heads * block.headDim;
  double keysAndValues = kvHeads * (block.headDim + block.valueDim);
  double mixed = heads * block.valueDim;

  Kernels kernels{device, work.dtype, profile.matrixRate};
  BlockCost cost;
  bool selective = cut.recompute == Recompute::Selective;
  double traffic = profile.pointwiseTraffic;
  // Of an input that only products need: kept as they read it.
  double inputBytes = std::min(activationBytes, getBytes(work.dtype));
  // Adds what a module repeats; says whether its results are dropped.
  auto drops = [&](unsigned module, double seconds) {
    if (!selective || !(cut.recomputedModules & module))
      return false;
    cost.recompute += seconds;
    return true;
  };

  // Attention.
  double outputs = 0; // elements that this block's products write
  if (block.latentRank > 0) {
    double latent = double(block.latentRank + block.sharedKeyDim);
    keysAndValues =
        heads * (block.headDim - block.sharedKeyDim + block.valueDim);
    if (block.queryRank > 0)
      kernels.addLinear(tokens, double(block.queryRank), h);
    kernels.addLinear(tokens, latent, h);
    double up = kernels.addLinear(
        tokens, queries, block.queryRank > 0 ? double(block.queryRank) : h);
    up += kernels.addLinear(tokens, keysAndValues, double(block.latentRank));
    double ranks = double(block.queryRank) + latent;
    kernels.addStream(2 * tokens * ranks * activationBytes,
                      4 * tokens * ranks * activationBytes);
    cost.activations += 2 * tokens * ranks * activationBytes;
    if (drops(recomputeLatent, up))
      cost.activations -= tokens * (queries + keysAndValues) * activationBytes;
  } else {
    kernels.addLinear(tokens, queries + keysAndValues, h);
  }
  outputs += tokens * (queries + keysAndValues);
  double rotated = tokens * (queries + keysAndValues / 2) * activationBytes;
  kernels.addPasses(ropePasses, rotated * traffic);
  double samples = double(cut.microBatch);
  double pairs =
      getCausalPairs(double(work.seqLen), double(block.window)) / cut.cp;
  // A ring meets keys block by block.
  double rows = double(work.seqLen) /
                (cut.contextKind == ContextKind::Ring ? double(cut.cp) : 1);
  double attention[2];
  for (Direction direction : {Direction::Forward, Direction::Backward})
    attention[int(direction)] = getAttentionTime(
        device, profile.attention, direction, samples * heads, rows, pairs,
        double(block.headDim), double(block.valueDim));
  double kept = device.attention.find(profile.attention)->second.kept;
  // The host takes as long for a collective as for several kernels.
  if (cut.tp > 1)
    cost.launches += 0.2;
  // Megatron's fused softmax needs a multiple of 4 of samples times heads; its
  // absence is 8 kernels in a block of about 30, forward and backward.
  if (kept > 0 && std::fmod(samples * heads, 4) != 0)
    cost.launches += 0.4;
  kernels.forward += attention[0];
  kernels.backwardInput += attention[1];
  bool dropsScores = drops(recomputeAttention, attention[0]);
  bool dropsOutput =
      drops(recomputeOutput, kernels.addLinear(tokens, h, mixed));
  outputs += outer * h;

  // MLP.
  double matrices = block.gated ? 2 : 1;
  double width = divide(block.isSparse() ? block.sharedFfn : block.ffn, cut.tp);
  double activated = tokens * width * activationBytes;
  if (block.ffn > 0 || block.sharedFfn > 0) {
    double up = kernels.addLinear(tokens, matrices * width, h);
    double activation = kernels.addPasses(getActivationPasses(block.gated),
                                          activated * traffic);
    double down = kernels.addLinear(tokens, h, width);
    outputs += tokens * matrices * width + outer * h;
    if (!drops(recomputeUp, up))
      cost.activations += matrices * activated;
    if (!drops(recomputeActivation, activation))
      cost.activations += tokens * width * inputBytes;
    drops(recomputeDown, down);
  }
  double expertWeights = 0;
  double repeatedExchange = 0;
  if (block.isSparse()) {
    // The ranks of a tp group dispatch different tokens unless experts are cut
    // over them.
    double routed =
        tokens * double(cut.expertTp) / tp * double(block.expertsPerToken);
    double local = double(block.experts) / double(cut.ep);
    double each = std::ceil(routed / local / 128) * 128;
    double expertWidth = divide(block.expertFfn, cut.expertTp);
    double before = kernels.forward;
    kernels.addLinear(each * local, matrices * expertWidth, h);
    kernels.addLinear(each * local, h, expertWidth);
    double inner = routed * expertWidth * activationBytes;
    double moved = routed * h * activationBytes;
    double activation =
        kernels.addPasses(getActivationPasses(block.gated), inner * traffic);
    kernels.addPasses(permutationPasses, moved);
    double experts = kernels.forward - before;
    kernels.forward += getMatmulTime(device, activationType, tokens / tp,
                                     double(block.experts), h);
    kernels.backwardInput +=
        2 * getMatmulTime(device, activationType, tokens / tp,
                          double(block.experts), h);
    outputs += routed * (matrices * expertWidth + h);
    expertWeights = block.getExpertParameters(model.hidden) / double(cut.ep) /
                    double(cut.expertTp);
    double exchange =
        2 *
        getScattered(cut.expertGroup, {cut.ep, cut.expertTp}, [&](Group group) {
          return getExchangeTime(group, moved, double(block.expertsPerToken));
        });
    // Routing, permutation and the exchange launch several times the kernels
    // of a dense block.
    cost.launches *= 6;
    cost.expertForward = cost.expertBackward = exchange;
    if (drops(recomputeExperts, experts)) {
      repeatedExchange = exchange;
    } else {
      cost.activations += matrices * inner + moved + routed * h * inputBytes;
      if (!drops(recomputeExpertActivation, activation))
        cost.activations += routed * expertWidth * inputBytes;
    }
  }
  cost.expertBackward += repeatedExchange;

  double stream = outer * h * activationBytes;
  double norms = kernels.addPasses(sumAndNormPasses, 2 * stream * traffic);

  // Kept for backward: inputs of norms and products, what attention needs.
  // The second residual sum is repeated with the projection before it.
  cost.activations += (dropsOutput ? 1 : 2) * stream +
                      tokens * (queries + keysAndValues) * activationBytes;
  if (!drops(recomputeNorms, norms / 2))
    cost.activations += 2 * outer * h * inputBytes;
  // Attention's output is kept as attention and as its projection need it.
  if (!dropsScores || !dropsOutput)
    cost.activations +=
        tokens * mixed *
        (activationBytes + (inputBytes < activationBytes ? inputBytes : 0));
  if (model.dropout)
    cost.activations += 2 * outer * h; // a byte for each element of a mask
  // What attention keeps of the whole square, the masked half included; fused
  // kernels keep a row's sum.
  double scores = tokens * double(work.seqLen) * heads * kept;
  if (!dropsScores)
    cost.activations += kept > 0 ? scores : tokens * heads * 4;
  cost.workingSet = cost.activations;

  cost.forward = kernels.forward;
  cost.backwardInput = kernels.backwardInput;
  cost.backwardWeight = kernels.backwardWeight;
  if (selective && cut.recomputedModules & recomputeHalf) {
    // Attention's output is kept, every second product and all between again.
    cost.recompute += kernels.forward - attention[0] - kernels.linear / 2;
    cost.activations = stream + tokens * mixed * activationBytes +
                       outputs / 2 * activationBytes;
  }

  // Communication over tp: two regions in a block.
  double full = tokens * h * activationBytes;
  Group tensor{cut.tp, 1};
  auto collective = [&](CollectiveKind kind, double bytes) {
    return getJointTime(kind, tensor, bytes);
  };
  double region = cut.sequenceParallel
                      ? collective(CollectiveKind::AllGather, full) +
                            collective(CollectiveKind::ReduceScatter, full)
                      : collective(CollectiveKind::AllReduce, full);
  cost.tensorForward = cost.tensorBackward = 2 * region;

  // Communication over cp.
  if (cut.cp > 1) {
    auto collective = [&](CollectiveKind kind, double bytes) {
      return getScattered(cut.contextGroup, {cut.cp, cut.tp}, [&](Group group) {
        return getJointTime(kind, group, bytes);
      });
    };
    double keys = full / h * keysAndValues * double(cut.cp);
    switch (cut.contextKind) {
    case ContextKind::AllGather:
      cost.contextForward = collective(CollectiveKind::AllGather, keys);
      cost.contextBackward =
          cost.contextForward + collective(CollectiveKind::ReduceScatter, keys);
      break;
    case ContextKind::Ring: {
      // Blocks of keys travel beside the attention of the block before.
      double step =
          getScattered(cut.contextGroup, {cut.cp, cut.tp}, [&](Group group) {
            return getSendTime(machine, group, keys / double(cut.cp));
          });
      double hops = double(cut.cp - 1);
      cost.contextForward =
          std::max(0., hops * step - attention[0] * hops / double(cut.cp));
      cost.contextBackward =
          std::max(0., 2 * hops * step - attention[1] * hops / double(cut.cp));
      break;
    }
    case ContextKind::Ulysses: {
      double moved = full / h * (queries + keysAndValues + mixed) *
                     double(cut.cp) / double(cut.cp);
      cost.contextForward = cost.contextBackward =
          collective(CollectiveKind::AllToAll, moved);
      break;
    }
    }
  }

  // Every second product repeats the gather of its input.
  if (selective && cut.recomputedModules & recomputeHalf)
    cost.tensorBackward += cost.tensorForward / 2;
  if (cut.recompute == Recompute::Full) {
    cost.recompute = cost.forward;
    cost.tensorBackward += cost.tensorForward;
    cost.contextBackward += cost.contextForward;
    cost.expertBackward += cost.expertForward;
    cost.activations = stream;
  }

  cost.expertForward *= 1 - profile.expertOverlap;
  cost.expertBackward *= 1 - profile.expertOverlap;

  double denseWeights = block.getParameters(model.hidden) -
                        block.getExpertParameters(model.hidden);
  cost.denseParameters = denseWeights / tp;
  cost.expertParameters = expertWeights;
  // A product adds a micro-batch's gradient to what earlier ones left: bytes
  // that take time where they exceed its arithmetic.
  double accumulated =
      getStreamTime(device, 2 * profile.gradientBytes *
                                (cost.denseParameters + expertWeights));
  cost.backwardWeight = std::pow(
      std::pow(cost.backwardWeight, 4) + std::pow(accumulated, 4), 0.25);
  return cost;
}

double CostModel::getVocabShard(int64_t tp) const {
  if (profile.vocabMultiple == 0)
    return std::floor(divide(model.vocab, tp));
  return std::ceil(double(model.vocab) / double(tp) / profile.vocabMultiple) *
         profile.vocabMultiple;
}

CostModel::BlockCost CostModel::computeEmbedding(const Cut &cut) const {
  double h = double(model.hidden);
  double tokens = double(cut.microBatch) * work.seqLen / double(cut.cp);
  double full = tokens * h * getBytes(work.getActivationType());
  BlockCost cost;
  cost.launches = 0.5;
  double width = double(model.getEmbeddingWidth());
  double rows = full / h * width;
  cost.forward = getStreamTime(machine.device, embeddingPasses.forward * rows);
  cost.backwardWeight =
      getStreamTime(machine.device, embeddingPasses.backward * rows);
  if (model.embeddingWidth > 0) {
    Kernels kernels{machine.device, work.getActivationType(),
                    profile.matrixRate};
    kernels.addLinear(tokens, h, width);
    cost.forward += kernels.forward;
    cost.backwardInput = kernels.backwardInput;
    cost.backwardWeight += kernels.backwardWeight;
  }
  Group tensor{cut.tp, 1};
  cost.tensorForward =
      getJointTime(cut.sequenceParallel ? CollectiveKind::ReduceScatter
                                        : CollectiveKind::AllReduce,
                   tensor, full);
  if (cut.sequenceParallel)
    cost.tensorBackward = getJointTime(CollectiveKind::AllGather, tensor, full);
  cost.denseParameters = getVocabShard(cut.tp) * width +
                         double(model.positions) * h +
                         model.getProjectionParameters();
  return cost;
}

CostModel::BlockCost CostModel::computeHead(const Cut &cut) const {
  double h = double(model.hidden);
  double tokens = double(cut.microBatch) * work.seqLen / double(cut.cp);
  double vocab = getVocabShard(cut.tp);
  DType type = work.getActivationType();
  double slow = type == DType::BF16 ? getMisalignment(vocab) : 1;
  Kernels kernels{machine.device, type, profile.matrixRate / slow};
  double width = double(model.getEmbeddingWidth());
  if (model.embeddingWidth > 0)
    kernels.addLinear(tokens, width, h);
  kernels.addLinear(tokens, vocab, width);
  double logits = tokens * vocab;
  auto getLoss = [&](Direction direction) {
    return profile.pointwiseTraffic * getLossBytes(direction, logits,
                                                   getBytes(DType::F32),
                                                   getBytes(type));
  };
  kernels.addStream(getLoss(Direction::Forward), getLoss(Direction::Backward));
  BlockCost cost;
  cost.launches = 0.5;
  cost.forward = kernels.forward;
  cost.backwardInput = kernels.backwardInput;
  cost.backwardWeight = kernels.backwardWeight;
  Group tensor{cut.tp, 1};
  double full = tokens * h * getBytes(work.getActivationType());
  if (cut.sequenceParallel)
    cost.tensorForward = getJointTime(CollectiveKind::AllGather, tensor, full);
  cost.tensorBackward =
      getJointTime(cut.sequenceParallel ? CollectiveKind::ReduceScatter
                                        : CollectiveKind::AllReduce,
                   tensor, full);
  cost.denseParameters = (model.tied ? 0 : vocab * width) +
                         model.getProjectionParameters() + h +
                         double(model.vectors);
  // Logits, or later their gradient, are kept; the rest is of the loss. In f32
  // that is another array of the same size.
  double each = getBytes(work.getActivationType());
  double most = work.dtype == DType::F32 ? 2 * each : profile.logitBytes;
  cost.activations = each * logits + 2 * full;
  cost.workingSet = (most - each) * logits;
  return cost;
}
