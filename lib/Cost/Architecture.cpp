//===- Architecture.cpp - Weights and FLOPs from sizes --------------------===//
#include "cleave/Cost/Architecture.h"
#include "cleave/Cost/Work.h"
#include <algorithm>

using namespace cleave;

double Block::getAttentionParameters(int64_t hidden) const {
  double width = double(heads) * headDim;
  double output = double(hidden) * heads * valueDim;
  if (latentRank == 0)
    return hidden * width + double(hidden) * kvHeads * (headDim + valueDim) +
           output;
  double queries =
      queryRank > 0 ? queryRank * (hidden + width) : hidden * width;
  double latent = double(hidden) * (latentRank + sharedKeyDim);
  double keysAndValues =
      double(latentRank) * heads * (headDim - sharedKeyDim + valueDim);
  return queries + latent + keysAndValues + output;
}

double Block::getDenseParameters(int64_t hidden) const {
  return (gated ? 3. : 2.) * hidden * (isSparse() ? sharedFfn : ffn);
}

double Block::getExpertParameters(int64_t hidden) const {
  return (gated ? 3. : 2.) * hidden * expertFfn * experts;
}

double Block::getRouterParameters(int64_t hidden) const {
  return double(hidden) * experts;
}

double Block::getPairs(int64_t seqLen) const {
  return chunk > 0 ? getChunkedPairs(double(seqLen), double(chunk))
                   : getCausalPairs(double(seqLen), double(window));
}

int64_t Block::getMatrices() const {
  int64_t matrices = gated ? 3 : 2;
  int64_t attention = latentRank == 0 ? 4 : queryRank > 0 ? 5 : 4;
  return attention + (getDenseParameters(1) > 0 ? matrices : 0) +
         (isSparse() ? matrices + 1 : 0);
}

double Block::getLargestTensor(int64_t hidden) const {
  double width = double(heads) * headDim;
  double attention =
      latentRank == 0
          ? hidden * std::max(width, double(heads) * valueDim)
          : std::max(queryRank > 0 ? queryRank * width : hidden * width,
                     double(latentRank) * heads *
                         (headDim - sharedKeyDim + valueDim));
  return std::max(attention, getDenseParameters(hidden) / (gated ? 3 : 2));
}

double Block::getParameters(int64_t hidden) const {
  return getAttentionParameters(hidden) + getDenseParameters(hidden) +
         getExpertParameters(hidden) + getRouterParameters(hidden) +
         2. * hidden + double(vectors);
}

int64_t Architecture::getNumBlocks() const {
  int64_t count = 0;
  for (const BlockRun &run : blocks)
    count += run.count;
  return count;
}

double Architecture::getParameters() const {
  double sum = double(vocab) * double(getEmbeddingWidth()) * (tied ? 1 : 2) +
               2 * getProjectionParameters() + double(positions) * hidden +
               hidden + double(vectors);
  for (const BlockRun &run : blocks)
    sum += run.count * run.block.getParameters(hidden);
  return sum;
}

double Architecture::getFlopsPerToken(int64_t seqLen) const {
  double weights = double(vocab) * double(getEmbeddingWidth()) +
                   2 * getProjectionParameters();
  double attention = 0;
  for (const auto &[block, count] : blocks) {
    double routed = block.isSparse() ? block.getExpertParameters(hidden) *
                                           block.expertsPerToken / block.experts
                                     : 0;
    weights += count * (block.getAttentionParameters(hidden) +
                        block.getDenseParameters(hidden) + routed +
                        block.getRouterParameters(hidden));
    double pairs =
        double(block.heads) * block.getPairs(seqLen) / double(seqLen);
    for (Direction direction : {Direction::Forward, Direction::Backward})
      attention +=
          count * getAttentionFlops(direction, pairs, double(block.headDim),
                                    double(block.valueDim))
                      .model;
  }
  // A product and the gradients of both of its operands.
  return 3 * getMatmulFlops(1, weights, 1).model + attention;
}
