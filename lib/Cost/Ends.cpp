//===- Ends.cpp - What embedding and head cost on one device --------------===//
#include "KernelSum.h"
#include "cleave/Cost/CostModel.h"
#include <algorithm>
#include <cmath>

using namespace cleave;

double CostModel::getVocabShard(int64_t tp) const {
  if (profile.vocabMultiple == 0)
    return double(std::max<int64_t>(1, model.vocab / tp));
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
    KernelSum kernels{machine.device, work.getActivationType(),
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
  cost.largestEnd = cost.denseParameters;
  cost.between = full; // the gradient of its rows
  return cost;
}

CostModel::BlockCost CostModel::computeHead(const Cut &cut) const {
  double h = double(model.hidden);
  double tokens = double(cut.microBatch) * work.seqLen / double(cut.cp);
  double vocab = getVocabShard(cut.tp);
  DType type = work.getActivationType();
  double slow = type == DType::BF16 ? getMisalignment(vocab) : 1;
  KernelSum kernels{machine.device, type, profile.matrixRate / slow};
  double width = double(model.getEmbeddingWidth());
  if (model.embeddingWidth > 0)
    kernels.addLinear(tokens, width, h);
  kernels.addLinear(tokens, vocab, width);
  double logits = tokens * vocab;
  // One kernel that reads logits as the product left them is one for the row's
  // maximum and one for its sum where tp compares the former in between.
  double read = getBytes(profile.hasArena() ? type : DType::F32);
  double passes = profile.hasArena() && cut.tp == 1 ? 0.5 : 1;
  auto getLoss = [&](Direction direction) {
    return profile.pointwiseTraffic *
           (direction == Direction::Forward ? passes : 1) *
           getLossBytes(direction, logits, read, getBytes(type));
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
  cost.largestEnd = cost.denseParameters;
  // Logits, or later their gradient, are kept; the rest is of the loss.
  double most = getLogitBytes(), kept = getKeptLogitBytes();
  // In an arena what is split along the sequence is kept so, and gathered
  // again.
  bool isSplit = profile.hasArena() && cut.sequenceParallel;
  double outer = isSplit ? full / double(cut.tp) : full;
  cost.activations = kept * logits + 2 * outer;
  cost.read = kept * logits + (isSplit ? outer : 0);
  cost.loss = (most - kept) * logits;
  // Gradients of the logits, and of what the norm before them gives.
  cost.between = kept * logits + outer + (isSplit ? full : 0);
  return cost;
}
