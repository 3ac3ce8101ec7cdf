//===- Blocks.cpp - What a block costs on one device ----------------------===//
//
// Each kernel of a block from its local shape. T tokens of a micro-batch reach
// a device; h is the hidden size; a number of bytes without a type is of bf16.
// "Outer" ops work on the residual stream, whole or split over tp (Megatron's
// sequence parallelism); "inner" ones on what the weights' cut leaves.
//
//===----------------------------------------------------------------------===//
#include "cleave/Cost/CostModel.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

static constexpr double activationBytes = 2;

static double divide(int64_t size, int64_t parts) {
  return std::max(1., double(size) / double(parts));
}

namespace {
/// Adds up kernels; forward and backward of one op at a time.
struct Kernels {
  const Device &device;
  DType dtype;
  double launch = device.getMatrix(dtype).launch;
  double forward = 0, backwardInput = 0, backwardWeight = 0;

  /// x [rows, in] -> [rows, out] and its two gradients.
  void addLinear(double rows, double out, double in) {
    forward += getMatmulTime(device, dtype, rows, out, in);
    backwardInput += getMatmulTime(device, dtype, rows, in, out);
    backwardWeight += getMatmulTime(device, dtype, out, in, rows);
  }
  /// Pointwise or row kernels that move these bytes.
  void addStream(double forwardBytes, double backwardBytes) {
    forward += launch + getStreamTime(device, forwardBytes);
    backwardInput += launch + getStreamTime(device, backwardBytes);
  }
};
} // namespace

CostModel::BlockCost CostModel::computeBlock(const Cut &cut) const {
  const Block &block = *cut.block;
  const Device &device = machine.device;
  double h = double(model.hidden);
  double tokens = double(cut.microBatch) * work.seqLen / double(cut.cp);
  double tp = double(cut.tp);
  double outer = tokens / (cut.sequenceParallel ? tp : 1); // rows outside of tp
  double heads = divide(block.heads, cut.tp);
  double kvHeads = divide(block.kvHeads, cut.tp);
  double queries = heads * block.headDim;
  double keysAndValues = kvHeads * (block.headDim + block.valueDim);
  double mixed = heads * block.valueDim;

  Kernels kernels{device, work.dtype};
  BlockCost cost;

  // Attention.
  if (block.latentRank > 0) {
    double latent = double(block.latentRank + block.sharedKeyDim);
    keysAndValues =
        heads * (block.headDim - block.sharedKeyDim + block.valueDim);
    if (block.queryRank > 0)
      kernels.addLinear(tokens, double(block.queryRank), h);
    kernels.addLinear(tokens, queries,
                      block.queryRank > 0 ? double(block.queryRank) : h);
    kernels.addLinear(tokens, latent, h);
    kernels.addLinear(tokens, keysAndValues, double(block.latentRank));
    double ranks = double(block.queryRank) + latent;
    kernels.addStream(2 * tokens * ranks * activationBytes,
                      4 * tokens * ranks * activationBytes);
    cost.activations += 2 * tokens * ranks * activationBytes;
  } else {
    kernels.addLinear(tokens, queries + keysAndValues, h);
  }
  double rotated = tokens * (queries + keysAndValues / 2) * activationBytes *
                   profile.pointwiseTraffic;
  kernels.addStream(2 * rotated, 2 * rotated);
  double samples = double(cut.microBatch);
  double pairs =
      getCausalPairs(double(work.seqLen), double(block.window)) / cut.cp;
  double attention[2];
  for (Direction direction : {Direction::Forward, Direction::Backward})
    attention[int(direction)] =
        getAttentionTime(device, profile.attention, direction, samples * heads,
                         double(work.seqLen), pairs, double(block.headDim),
                         double(block.valueDim));
  kernels.forward += attention[0];
  kernels.backwardInput += attention[1];
  kernels.addLinear(tokens, h, mixed);

  // MLP.
  double matrices = block.gated ? 2 : 1;
  double width = divide(block.isSparse() ? block.sharedFfn : block.ffn, cut.tp);
  double activated = tokens * width * activationBytes;
  if (block.ffn > 0 || block.sharedFfn > 0) {
    kernels.addLinear(tokens, matrices * width, h);
    kernels.addLinear(tokens, h, width);
    kernels.addStream((matrices + 1) * activated * profile.pointwiseTraffic,
                      (2 * matrices + 1) * activated *
                          profile.pointwiseTraffic);
    cost.activations += (matrices + 1) * activated;
  }
  double expertWeights = 0;
  if (block.isSparse()) {
    // The ranks of a tp group dispatch different tokens unless experts are cut
    // over them.
    double routed =
        tokens * double(cut.expertTp) / tp * double(block.expertsPerToken);
    double local = double(block.experts) / double(cut.ep);
    double each = std::ceil(routed / local / 128) * 128;
    double expertWidth = divide(block.expertFfn, cut.expertTp);
    kernels.addLinear(each * local, matrices * expertWidth, h);
    kernels.addLinear(each * local, h, expertWidth);
    kernels.forward += getMatmulTime(device, DType::BF16, tokens / tp,
                                     double(block.experts), h);
    kernels.backwardInput += 2 * getMatmulTime(device, DType::BF16, tokens / tp,
                                               double(block.experts), h);
    double inner = routed * expertWidth * activationBytes;
    double moved = routed * h * activationBytes;
    // Permute and unpermute, each one read and one write.
    kernels.addStream(
        ((matrices + 1) * inner + 4 * moved) * profile.pointwiseTraffic,
        ((2 * matrices + 1) * inner + 4 * moved) * profile.pointwiseTraffic);
    cost.activations += (matrices + 1) * inner + 2 * moved;
    expertWeights = block.getExpertParameters(model.hidden) / double(cut.ep) /
                    double(cut.expertTp);
    Group group{cut.ep, cut.expertTp > 1 ? cut.tp : 1};
    double exchange =
        2 * getCollectiveTime(machine, CollectiveKind::AllToAll, group, moved);
    cost.expertForward = cost.expertBackward = exchange;
  }

  // Norms and residual adds: read x and the branch, write both.
  double stream = outer * h * activationBytes;
  kernels.addStream(8 * stream * profile.pointwiseTraffic,
                    10 * stream * profile.pointwiseTraffic);

  // Kept for backward: inputs of norms and products, what attention needs.
  cost.activations +=
      4 * stream +
      tokens * (queries + keysAndValues + mixed) * activationBytes +
      tokens * heads * 4;
  if (model.dropout)
    cost.activations += 2 * outer * h; // a byte for each element of a mask
  // What attention keeps of the whole square, the masked half included.
  if (cut.recompute == Recompute::None)
    cost.activations += tokens * double(work.seqLen) * heads *
                        device.attention.find(profile.attention)->second.kept;
  cost.workingSet = cost.activations;

  cost.forward = kernels.forward;
  cost.backwardInput = kernels.backwardInput;
  cost.backwardWeight = kernels.backwardWeight;

  // Communication over tp: two regions in a block.
  double full = tokens * h * activationBytes;
  Group tensor{cut.tp, 1};
  auto collective = [&](CollectiveKind kind, Group group, double bytes) {
    return getCollectiveTime(machine, kind, group, bytes);
  };
  double region =
      cut.sequenceParallel
          ? collective(CollectiveKind::AllGather, tensor, full) +
                collective(CollectiveKind::ReduceScatter, tensor, full)
          : collective(CollectiveKind::AllReduce, tensor, full);
  cost.tensorForward = cost.tensorBackward = 2 * region;

  // Communication over cp.
  if (cut.cp > 1) {
    Group context{cut.cp, cut.tp};
    double keys = full / h * keysAndValues * double(cut.cp);
    switch (cut.contextKind) {
    case ContextKind::AllGather:
      cost.contextForward =
          collective(CollectiveKind::AllGather, context, keys);
      cost.contextBackward =
          cost.contextForward +
          collective(CollectiveKind::ReduceScatter, context, keys);
      break;
    case ContextKind::Ring: {
      // Blocks of keys travel beside the attention of the block before.
      double step = getSendTime(machine, cut.tp, keys / double(cut.cp));
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
          collective(CollectiveKind::AllToAll, context, moved);
      break;
    }
    }
  }

  if (cut.recompute == Recompute::Full) {
    cost.recompute = cost.forward;
    cost.tensorBackward += cost.tensorForward;
    cost.contextBackward += cost.contextForward;
    cost.expertBackward += cost.expertForward;
    cost.activations = stream;
  } else if (cut.recompute == Recompute::Selective) {
    cost.recompute = attention[0];
  }

  double denseWeights = block.getParameters(model.hidden) -
                        block.getExpertParameters(model.hidden);
  cost.denseParameters = denseWeights / tp;
  cost.expertParameters = expertWeights;
  // A micro-batch's gradient is added to what earlier ones left.
  cost.backwardWeight +=
      getStreamTime(device, 2 * profile.gradientBytes *
                                (cost.denseParameters + expertWeights));
  return cost;
}

CostModel::BlockCost CostModel::computeEmbedding(const Cut &cut) const {
  double h = double(model.hidden);
  double tokens = double(cut.microBatch) * work.seqLen / double(cut.cp);
  double full = tokens * h * activationBytes;
  BlockCost cost;
  cost.forward = getStreamTime(machine.device, 2 * full);
  cost.backwardWeight = getStreamTime(machine.device, 4 * full);
  Group tensor{cut.tp, 1};
  cost.tensorForward =
      getCollectiveTime(machine,
                        cut.sequenceParallel ? CollectiveKind::ReduceScatter
                                             : CollectiveKind::AllReduce,
                        tensor, full);
  if (cut.sequenceParallel)
    cost.tensorBackward =
        getCollectiveTime(machine, CollectiveKind::AllGather, tensor, full);
  cost.denseParameters =
      (double(model.vocab) / double(cut.tp) + double(model.positions)) * h;
  return cost;
}

CostModel::BlockCost CostModel::computeHead(const Cut &cut) const {
  double h = double(model.hidden);
  double tokens = double(cut.microBatch) * work.seqLen / double(cut.cp);
  double vocab = double(model.vocab) / double(cut.tp);
  Kernels kernels{machine.device, DType::BF16};
  kernels.addLinear(tokens, vocab, h);
  // Logits in f32: the product's output is read for the row maximum, the sum
  // and the gradient.
  double logits = tokens * vocab;
  kernels.addStream(8 * logits * profile.pointwiseTraffic,
                    6 * logits * profile.pointwiseTraffic);
  BlockCost cost;
  cost.forward = kernels.forward;
  cost.backwardInput = kernels.backwardInput;
  cost.backwardWeight = kernels.backwardWeight;
  Group tensor{cut.tp, 1};
  double full = tokens * h * activationBytes;
  if (cut.sequenceParallel)
    cost.tensorForward =
        getCollectiveTime(machine, CollectiveKind::AllGather, tensor, full);
  cost.tensorBackward =
      getCollectiveTime(machine,
                        cut.sequenceParallel ? CollectiveKind::ReduceScatter
                                             : CollectiveKind::AllReduce,
                        tensor, full);
  cost.denseParameters = model.tied ? 0 : double(model.vocab) / cut.tp * h;
  cost.activations = 4 * logits + 2 * full;
  cost.workingSet = 4 * logits;
  return cost;
}
