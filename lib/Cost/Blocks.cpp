//===- Blocks.cpp - What a block costs on one device ----------------------===//
//
// Each kernel of a block from its local shape. T tokens of a micro-batch reach
// a device; h is the hidden size; a number of bytes without a type is of
// bf16.
// "Outer" ops work on the residual stream, whole or split over tp (Megatron's
// sequence parallelism); "inner" ones on what the weights' cut leaves.
//
//===----------------------------------------------------------------------===//
#include "KernelSum.h"
#include "cleave/Cost/CostModel.h"
#include "cleave/Cost/ProductParts.h"
#include "cleave/Streams/Parts.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace cleave;

static double divide(int64_t size, int64_t parts) {
  return std::max(1., double(size) / double(parts));
}

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

/// One block under one cut: each part adds its kernels, what they keep for the
/// backward pass and what selective recomputation repeats of them.
class CostModel::BlockPricer {
public:
  BlockPricer(const CostModel &costs, const Cut &cut, const TensorParts *parts)
      : costs(costs), cut(cut), parts(parts) {
    if (block.latentRank > 0)
      keysAndValues =
          heads * (block.headDim - block.sharedKeyDim + block.valueDim);
  }

  BlockCost price() {
    addProjections();
    addAttention();
    addDenseMLP();
    if (block.isSparse())
      addExperts();
    addNorms();
    if (!profile.hasArena() || block.isSparse())
      cost.workingSet = cost.workingSetApart = cost.activations;
    cost.forward = kernels.forward;
    cost.backwardInput = kernels.backwardInput;
    cost.backwardWeight = kernels.backwardWeight;
    addTensorExchange();
    if (cut.cp > 1)
      addContextExchange();
    recompute();
    addBetween();
    if (profile.hasArena() && !block.isSparse())
      addWorkingSet();
    cost.expertForward *= 1 - profile.expertOverlap;
    cost.expertBackward *= 1 - profile.expertOverlap;
    addWeights();
    return cost;
  }

private:
  /// Whether results of a module are dropped, which takes as long again.
  bool drops(unsigned module, double seconds) {
    if (!isRecomputed(module))
      return false;
    cost.recompute += seconds;
    return true;
  }
  /// Bytes kept for the backward pass, or repeated for it if they are dropped;
  /// `isRead`: not by weights' gradients.
  void keep(double bytes, bool isDropped, bool isRead) {
    (isDropped ? dropped : cost.activations) += bytes;
    if (isRead)
      (isDropped ? droppedRead : cost.read) += bytes;
  }
  bool isRecomputed(unsigned module) const {
    return cut.recompute == Recompute::Selective &&
           cut.recomputedModules & module;
  }

  /// Several weights that read the stream.
  double addProjection(llvm::ArrayRef<double> outs) {
    if (profile.fusedProjections)
      return kernels.addLinear(
          tokens, std::accumulate(outs.begin(), outs.end(), 0.), h);
    // What tp reduces is added up before, by a kernel of its own, which reads
    // all gradients and writes their sum.
    if (profile.hasArena() && cut.tp > 1 && outs.size() > 1)
      kernels.backwardInput +=
          getStreamTime(device, 2 * tokens * h * activationBytes);
    return kernels.addLinears(tokens, outs, h);
  }

  /// Queries, keys and values, of latent ranks or straight from the stream,
  /// and their rotation.
  void addProjections() {
    if (block.latentRank > 0) {
      double latent = double(block.latentRank + block.sharedKeyDim);
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
        cost.activations -=
            tokens * (queries + keysAndValues) * activationBytes;
    } else {
      addProjection({queries, keysAndValues / 2, keysAndValues / 2});
    }
    cost.activations += tokens * (queries + keysAndValues) * activationBytes;
    cost.read += tokens * (queries + keysAndValues) * activationBytes;
    // Weights of norms have gradients, of what these read.
    if (block.headNorm != Block::HeadNorm::None) {
      cost.activations += getNormedBytes();
      cost.read += getNormedBytes() -
                   tokens * (queries + keysAndValues / 2) * activationBytes;
    }
    outputs += tokens * (queries + keysAndValues);
    double rotated = tokens * (queries + keysAndValues / 2) * activationBytes;
    kernels.addPasses(ropePasses, rotated * traffic);
    if (block.headNorm == Block::HeadNorm::None)
      return;
    kernels.addPasses(normPasses, getNormedBytes() * traffic);
    if (profile.hasArena())
      addHeadNorms(rotated);
  }

  /// What our own programs do besides of norms of `local` bytes of queries and
  /// keys: gradients of weights, and under tp of norms of all channels the
  /// rotation of all, and slices of it: on the way back also of gradients, of
  /// the norms' outputs and inputs.
  void addHeadNorms(double local) {
    kernels.backwardWeight += getStreamTime(device, 2 * local * traffic);
    double whole = getNormedBytes();
    if (whole == local)
      return;
    double slices = (whole + local) * traffic;
    kernels.forward += getStreamTime(
        device, ropePasses.forward * (whole - local) * traffic + slices);
    kernels.backwardInput += getStreamTime(device, 2 * slices);
  }

  /// Of what norms of queries and keys read; one of all channels reads them
  /// gathered.
  double getNormedBytes() const {
    return tokens * activationBytes *
           (block.headNorm == Block::HeadNorm::Each
                ? queries + keysAndValues / 2
                : double((block.heads + block.kvHeads) * block.headDim));
  }

  /// Attention and the projection of its output.
  void addAttention() {
    double samples = double(cut.microBatch), seqLen = double(costs.work.seqLen);
    double pairs = block.getPairs(costs.work.seqLen) / double(cut.cp);
    // A ring meets keys block by block, and a chunk only its own.
    double rows =
        seqLen / (cut.contextKind == ContextKind::Ring ? double(cut.cp) : 1);
    if (block.chunk > 0)
      rows = std::min(rows, double(block.chunk));
    for (Direction direction : {Direction::Forward, Direction::Backward})
      attention[int(direction)] = getAttentionTime(
          device, profile.attention, costs.work.getActivationType(), direction,
          samples * heads, rows, pairs, double(block.headDim),
          double(block.valueDim));
    double kept = device.attention.find(profile.attention)->second.kept;
    // The host takes as long for a collective as for several kernels.
    if (cut.tp > 1)
      cost.launches += 0.2;
    // Megatron's fused softmax needs a multiple of 4 of samples times heads;
    // its absence is 8 kernels in a block of about 30, forward and backward.
    if (kept > 0 && std::fmod(samples * heads, 4) != 0)
      cost.launches += 0.4;
    kernels.forward += attention[0];
    kernels.backwardInput += attention[1];
    bool dropsScores = drops(recomputeAttention, attention[0]);
    bool dropsOutput =
        drops(recomputeOutput, kernels.addLinear(tokens, h, mixed));
    outputs += outer * h;
    // The second residual sum is repeated with the projection before it.
    cost.activations += stream;
    keep(stream, dropsOutput, /*isRead=*/false);
    // Attention's output is kept as attention and as its projection need it.
    keep(
        tokens * mixed *
            (activationBytes + (inputBytes < activationBytes ? inputBytes : 0)),
        dropsScores && dropsOutput, /*isRead=*/false);
    // What attention keeps of the whole square, the masked half included;
    // fused kernels keep a row's sum.
    double scores = tokens * seqLen * heads * kept;
    keep(kept > 0 ? scores : tokens * heads * 4, dropsScores, /*isRead=*/true);
  }

  /// The MLP, or in a block of experts those that see every token.
  void addDenseMLP() {
    if (block.ffn == 0 && block.sharedFfn == 0)
      return;
    double width =
        divide(block.isSparse() ? block.sharedFfn : block.ffn, cut.tp);
    double activated = tokens * width * activationBytes;
    double up =
        addProjection(llvm::SmallVector<double, 2>(size_t(matrices), width));
    double activation = kernels.addPasses(getActivationPasses(block.gated),
                                          activated * traffic);
    double down = kernels.addLinear(tokens, h, width);
    if (profile.prunesRepeats && !block.isSparse() && !block.normsAfter)
      unneeded = down;
    outputs += tokens * matrices * width + outer * h;
    keep(matrices * activated, drops(recomputeUp, up), /*isRead=*/true);
    keep(tokens * width * inputBytes, drops(recomputeActivation, activation),
         /*isRead=*/false);
    // What it gives is only read by what nothing repeats.
    if (!profile.prunesRepeats || block.normsAfter)
      drops(recomputeDown, down);
  }

  /// Router, exchange of tokens both ways, and this rank's experts.
  void addExperts() {
    // The ranks of a tp group dispatch different tokens unless experts are cut
    // over them.
    double routed = tokens * double(cut.expertTp) / double(cut.tp) *
                    double(block.expertsPerToken);
    double local = double(block.experts) / double(cut.ep);
    double each = std::ceil(routed / local / 128) * 128;
    double width = divide(block.expertFfn, cut.expertTp);
    double before = kernels.forward;
    kernels.addLinear(each * local, matrices * width, h);
    kernels.addLinear(each * local, h, width);
    double inner = routed * width * activationBytes;
    double moved = routed * h * activationBytes;
    double activation =
        kernels.addPasses(getActivationPasses(block.gated), inner * traffic);
    kernels.addPasses(permutationPasses, moved);
    double experts = kernels.forward - before;
    double router =
        getMatmulTime(device, costs.work.getActivationType(),
                      tokens / double(cut.tp), double(block.experts), h);
    kernels.forward += router;
    kernels.backwardInput += 2 * router;
    outputs += routed * (matrices * width + h);
    double exchange =
        2 *
        getScattered(cut.expertGroup, {cut.ep, cut.expertTp}, [&](Group group) {
          return costs.getExchangeTime(group, moved,
                                       double(block.expertsPerToken));
        });
    // Routing and the exchange launch several times the kernels of a dense
    // block; permutation for several experts of a rank, and their products,
    // as many again.
    cost.launches *= local > 1 ? 6 : 3;
    cost.expertForward = cost.expertBackward = exchange;
    if (drops(recomputeExperts, experts)) {
      cost.expertBackward += exchange;
    } else {
      cost.activations += matrices * inner + moved + routed * h * inputBytes;
      if (!drops(recomputeExpertActivation, activation))
        cost.activations += routed * width * inputBytes;
    }
  }

  void addNorms() {
    double norms = kernels.addPasses(sumAndNormPasses, 2 * stream * traffic);
    if (profile.hasArena()) {
      // Our own kernels have the gradients of norms' weights apart, which read
      // what norms read and the gradients of what they give. Where tp reduces
      // the latter, nothing else is done with them in one kernel; with norms
      // after them, products read what the sum leaves, which is not read again.
      // Behind what tp reduces they run where that does.
      if (!profile.cutsProducts || cut.tp == 1)
        kernels.backwardWeight += getStreamTime(device, 4 * stream * traffic);
      if (block.normsAfter)
        kernels.forward -= getStreamTime(device, 2 * stream * traffic);
      else if (cut.tp > 1)
        kernels.backwardInput += getStreamTime(device, 2 * stream * traffic);
    }
    // What is split along the sequence is gathered before it is read again.
    bool isDropped = drops(recomputeNorms, norms / 2);
    keep(outer * h * inputBytes, isDropped, /*isRead=*/cut.sequenceParallel);
    // With its norms after them, a block's products read its own input.
    keep(outer * h * inputBytes,
         isDropped && !(profile.hasArena() && block.normsAfter),
         /*isRead=*/cut.sequenceParallel);
    if (costs.model.dropout)
      cost.activations += 2 * outer * h; // a byte for each element of a mask
  }

  /// Over tp: two regions in a block, each with a copy of what is gathered and
  /// of what is scattered if the sequence is not first.
  void addTensorExchange() {
    double full = tokens * h * activationBytes;
    Group tensor{cut.tp, 1};
    auto getTime = [&](CollectiveKind kind) {
      return costs.getJointTime(kind, tensor, full);
    };
    reduction = getTime(cut.sequenceParallel ? CollectiveKind::ReduceScatter
                                             : CollectiveKind::AllReduce);
    if (parts) {
      cost.tensorForward = parts->forward.communication;
      cost.tensorBackward = parts->backward.communication;
      cost.hiddenForward = cost.tensorForward - parts->forward.exposed;
      cost.hiddenBackward = cost.tensorBackward - parts->backward.exposed;
      cost.forward += parts->forward.longer;
      cost.backwardInput += parts->backward.longer;
    } else {
      double region =
          reduction +
          (cut.sequenceParallel ? getTime(CollectiveKind::AllGather) : 0);
      if (!profile.sequenceFirst && cut.sequenceParallel && cut.microBatch > 1)
        region += 2 * getStreamTime(device, 2 * full);
      cost.tensorForward = cost.tensorBackward = 2 * region;
    }
    // A product that is repeated leaves its result to be reduced again.
    if (profile.prunesRepeats)
      cost.tensorBackward +=
          reduction * (isRecomputed(recomputeOutput) +
                       (block.normsAfter && isRecomputed(recomputeDown)));
    // A norm of all channels has queries and keys gathered, and on the way back
    // their gradients as well.
    double gathered = 0;
    if (block.headNorm == Block::HeadNorm::Whole)
      for (int64_t count : {block.heads, block.kvHeads}) {
        double bytes = tokens * double(count * block.headDim) * activationBytes;
        double time =
            costs.getJointTime(CollectiveKind::AllGather, tensor, bytes);
        cost.tensorForward += time;
        cost.tensorBackward += 2 * time;
        gathered += time;
        // The weights of such norms are split as what they scale.
        if (profile.hasArena()) {
          double weight = costs.getJointTime(CollectiveKind::AllGather, tensor,
                                             double(count * block.headDim) *
                                                 activationBytes);
          cost.tensorForward += weight;
          cost.tensorBackward += weight;
        }
      }
    if (parts && gathered > 0) {
      // Keys are gathered beside the norm of queries; on the way back, beside
      // norms and products, and what is gathered again beside others.
      double norms = getStreamTime(device, getNormedBytes() * traffic);
      cost.hiddenForward += std::min(gathered, normPasses.forward * norms / 2);
      cost.hiddenBackward +=
          gathered + std::min(gathered, normPasses.backward * norms +
                                            getSeconds({{keysAndValues}, h},
                                                       Pass::Input, 1));
    }
    if (profile.gathersAgain && cut.sequenceParallel &&
        cut.recompute != Recompute::Full) {
      double again = 2 * getTime(CollectiveKind::AllGather);
      cost.tensorBackward += again;
      // It can be at any time, beside all that is computed.
      if (parts)
        cost.hiddenBackward += again;
    }
  }

  /// Weights that read one input.
  struct Products {
    llvm::SmallVector<double, 3> outs;
    double in;
  };
  using Pass = KernelSum::Pass;

  /// Seconds of their products in so many parts of the rows.
  double getSeconds(const Products &products, Pass pass, int64_t parts) const {
    double seconds = 0, rows = tokens / double(parts);
    auto add = [&](double out) {
      seconds += kernels.getProduct(pass, rows, out, products.in);
    };
    if (profile.fusedProjections)
      add(std::accumulate(products.outs.begin(), products.outs.end(), 0.));
    else
      llvm::for_each(products.outs, add);
    return double(parts) * seconds;
  }

  /// The collectives between two groups of products, in the number of parts
  /// that takes the least time. Parts of what is split along the sequence are
  /// of samples, and of blocks of the sequence where there are few.
  template <typename GetParts>
  Exchange cutExchange(llvm::ArrayRef<CollectiveKind> kinds,
                       GetParts &&getParts) const {
    Exchange best;
    double least = 0, whole = 0;
    double skew = double(kinds.size()) * costs.profile.rankSkew;
    constexpr int64_t inOne[] = {1};
    double rows = tokens;
    if (cut.sequenceParallel) {
      int64_t shard[] = {cut.microBatch, int64_t(outer) / cut.microBatch,
                         costs.model.hidden};
      rows = double(countRows(shard, 1) * countBlocks(shard, 1));
    }
    for (int64_t count : llvm::concat<const int64_t>(inOne, partCounts)) {
      if (std::fmod(rows, double(count)) != 0)
        continue;
      ProductParts parts = getParts(count);
      parts.count = count;
      parts.skew = skew;
      for (CollectiveKind kind : kinds)
        parts.communication +=
            double(count) *
            getCollectiveTime(costs.machine, kind, {cut.tp, 1},
                              tokens * h * activationBytes / double(count));
      double products = parts.before + parts.after;
      if (count == 1)
        whole = products;
      Exchange found{parts.communication + skew, parts.getExposed(),
                     products - whole};
      double time = found.exposed + found.longer;
      if (count > 1 && time > least - leastSavedByParts * parts.communication)
        continue;
      least = time;
      best = found;
    }
    return best;
  }

  static Exchange add(const Exchange &a, const Exchange &b) {
    return {a.communication + b.communication, a.exposed + b.exposed,
            a.longer + b.longer};
  }

public:
  /// The exchanges of a block, each way two: attention's output with the MLP's
  /// input, and the MLP's output with the next block's. Whatever is repeated.
  TensorParts cutExchanges() const {
    using enum CollectiveKind;
    Products inputs{{queries, keysAndValues / 2, keysAndValues / 2}, h};
    Products output{{h}, mixed};
    double width = divide(block.ffn, cut.tp);
    Products up{llvm::SmallVector<double, 3>(size_t(matrices), width), h};
    Products down{{h}, width};
    llvm::SmallVector<CollectiveKind, 2> region = {AllReduce};
    if (cut.sequenceParallel)
      region = {ReduceScatter, AllGather};
    auto forward = [&](const Products &before, const Products &after) {
      return cutExchange(region, [&](int64_t count) {
        return ProductParts{.before = getSeconds(before, Pass::Forward, count),
                            .after = getSeconds(after, Pass::Forward, count)};
      });
    };
    // On the way back, the gradients of the weights that read the stream are
    // computed meanwhile.
    auto backward = [&](const Products &before, const Products &after) {
      return cutExchange(region, [&](int64_t count) {
        return ProductParts{.before = getSeconds(before, Pass::Input, count),
                            .after = getSeconds(after, Pass::Input, count),
                            .beside = getSeconds(before, Pass::Weight, 1),
                            .isBroken = cut.sequenceParallel};
      });
    };
    Exchange inner = forward(output, up), outer = forward(down, inputs);
    Exchange innerBack = backward(up, output);
    Exchange outerBack = backward(inputs, down);
    TensorParts parts;
    parts.forward = add(inner, outer);
    parts.backward = add(innerBack, outerBack);
    return parts;
  }

private:
  /// Over cp: keys and values, or heads.
  void addContextExchange() {
    double token = tokens * activationBytes; // bytes of one channel
    double keys = token * keysAndValues * double(cut.cp);
    auto getTime = [&](CollectiveKind kind, double bytes) {
      return getScattered(cut.contextGroup, {cut.cp, cut.tp}, [&](Group group) {
        return costs.getJointTime(kind, group, bytes);
      });
    };
    switch (cut.contextKind) {
    case ContextKind::AllGather:
      cost.contextForward = getTime(CollectiveKind::AllGather, keys);
      cost.contextBackward =
          cost.contextForward + getTime(CollectiveKind::ReduceScatter, keys);
      return;
    case ContextKind::Ring: {
      // Blocks of keys travel beside the attention of the block before.
      double step =
          getScattered(cut.contextGroup, {cut.cp, cut.tp}, [&](Group group) {
            return getSendTime(costs.machine, group, keys / double(cut.cp));
          });
      double hops = double(cut.cp - 1);
      cost.contextForward =
          std::max(0., hops * step - attention[0] * hops / double(cut.cp));
      cost.contextBackward =
          std::max(0., 2 * hops * step - attention[1] * hops / double(cut.cp));
      return;
    }
    case ContextKind::Ulysses:
      cost.contextForward = cost.contextBackward = getTime(
          CollectiveKind::AllToAll, token * (queries + keysAndValues + mixed));
      return;
    }
  }

  /// Gradients of the products' outputs, gathered where the stream is split,
  /// and inputs that are gathered or repeated.
  void addBetween() {
    bool isFull = cut.recompute == Recompute::Full;
    double width =
        divide(block.isSparse() ? block.sharedFfn : block.ffn, cut.tp);
    // Of the two products that leave the block gathered; of norms' outputs, for
    // the gradients of their weights.
    double elements = outputs + 2 * (tokens - outer) * h + 2 * outer * h;
    double normed = block.headNorm == Block::HeadNorm::None
                        ? 0
                        : tokens * (queries + keysAndValues / 2);
    elements += normed;
    if (isFull)
      elements += normed + outer * h; // what norms read
    if (isFull || cut.sequenceParallel || isRecomputed(recomputeNorms))
      elements += 2 * tokens * h;
    if (isFull ||
        (isRecomputed(recomputeAttention) && isRecomputed(recomputeOutput)))
      elements += tokens * mixed;
    if (isFull || isRecomputed(recomputeActivation))
      elements += tokens * width;
    cost.between = elements * activationBytes;
  }

  /// What lives only inside of a block's backward pass, besides what it
  /// repeats. There is most at the activation: gradients of what it reads and
  /// gives, the former of as many products as there are, and of the stream that
  /// the product after it leaves; or at the sum of the gradients of attention's
  /// input. Where weight gradients are apart, these have places.
  void addWorkingSet() {
    double width = divide(block.ffn, cut.tp);
    double inputs = (profile.fusedProjections ? 1 : 3) * tokens * h;
    double gathered = cut.sequenceParallel ? tokens * h : 0;
    double atActivation =
        (matrices + 1) * tokens * width + outer * h + gathered;
    double atInput =
        inputs + tokens * (queries + keysAndValues) + outer * h + gathered;
    // By then the repeated activation has been read.
    bool isDropped =
        cut.recompute == Recompute::Full || isRecomputed(recomputeActivation);
    cost.workingSet =
        std::max(atActivation * activationBytes + dropped -
                     (isDropped ? tokens * width * inputBytes : 0),
                 atInput * activationBytes);
    cost.workingSetApart =
        std::max(tokens * width * activationBytes + droppedRead,
                 (inputs + tokens * h) * activationBytes);
  }

  /// What is repeated of a whole block, or of its half.
  void recompute() {
    if (isRecomputed(recomputeHalf)) {
      // Attention's output is kept, every second product and all between
      // again, with the gather of its input.
      cost.recompute += cost.forward - attention[0] - kernels.linear / 2;
      cost.activations = stream + tokens * mixed * activationBytes +
                         outputs / 2 * activationBytes;
      cost.read = 0;
      cost.tensorBackward += cost.tensorForward / 2;
    }
    if (cut.recompute == Recompute::Full) {
      cost.recompute = cost.forward - unneeded;
      cost.tensorBackward +=
          cost.tensorForward - (unneeded > 0 ? reduction : 0);
      cost.hiddenBackward +=
          std::min(cost.hiddenForward,
                   cost.tensorForward - (unneeded > 0 ? reduction : 0));
      cost.contextBackward += cost.contextForward;
      cost.expertBackward += cost.expertForward;
      dropped = cost.activations - stream;
      droppedRead = cost.read;
      cost.activations = stream;
      cost.read = 0;
    }
  }

  /// Parameters of this device, and the sum of their gradients.
  void addWeights() {
    double routed = block.getExpertParameters(costs.model.hidden);
    cost.denseParameters =
        (block.getParameters(costs.model.hidden) - routed) / double(cut.tp);
    cost.expertParameters = routed / double(cut.ep) / double(cut.expertTp);
    cost.pieces = costs.getPieces(block);
    if (!profile.blockBuffers) {
      cost.vectors = 2 + double(block.vectorTensors);
      // No gradient needs a bias, unless all is repeated.
      cost.vectorsAgain = cut.recompute == Recompute::Full ? cost.vectors
                          : block.headNorm == Block::HeadNorm::None ? 2
                                                                    : 4;
      cost.vectorParameters = (2 * h + double(block.vectors)) / double(cut.tp);
    }
    cost.largest = costs.getLargestPiece(block, cut.tp, cost.denseParameters,
                                         cost.expertParameters);
    // A product adds a micro-batch's gradient to what earlier ones left.
    cost.backwardWeight =
        addSums(device,
                2 * profile.gradientBytes *
                    (cost.denseParameters + cost.expertParameters),
                cost.backwardWeight);
  }

  const CostModel &costs;
  const Cut &cut;
  const TensorParts *parts;
  const Block &block = *cut.block;
  const Device &device = costs.machine.device;
  const Profile &profile = costs.profile;
  const double activationBytes = getBytes(costs.work.getActivationType());
  /// Of an input that only products need: kept as they read it.
  const double inputBytes =
      std::min(activationBytes, getBytes(costs.work.dtype));
  const double traffic = profile.pointwiseTraffic;

  const double h = double(costs.model.hidden);
  const double tokens =
      double(cut.microBatch) * costs.work.seqLen / double(cut.cp);
  /// Rows of the residual stream, and its bytes.
  const double outer = tokens / (cut.sequenceParallel ? double(cut.tp) : 1);
  const double stream = outer * h * activationBytes;
  // Channels of this rank.
  const double heads = divide(block.heads, cut.tp);
  const double queries = heads * block.headDim;
  double keysAndValues =
      divide(block.kvHeads, cut.tp) * (block.headDim + block.valueDim);
  const double mixed = heads * block.valueDim;
  const double matrices = block.gated ? 2 : 1; ///< of an MLP's way up

  KernelSum kernels{device, costs.work.dtype, profile.matrixRate};
  BlockCost cost;
  double attention[2] = {}; ///< seconds, both ways
  double outputs = 0;       ///< elements that the products write
  /// Bytes that are repeated instead of kept; of them, those that no weight's
  /// gradient reads.
  double dropped = 0, droppedRead = 0;
  /// Seconds of what full recomputation leaves out, and of the exchange of a
  /// product's result.
  double unneeded = 0, reduction = 0;
};

CostModel::BlockCost CostModel::computeBlock(const Cut &cut,
                                             const TensorParts *parts) const {
  return BlockPricer(*this, cut, parts).price();
}

CostModel::TensorParts CostModel::computeTensorParts(const Cut &cut) const {
  return BlockPricer(*this, cut, nullptr).cutExchanges();
}
