//===- Layout.h - The degrees of every parallelism ------------------------===//
#ifndef CLEAVE_COST_LAYOUT_H
#define CLEAVE_COST_LAYOUT_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace cleave {

enum class Schedule {
  GPipe,
  OneFOneB,
  Interleaved,
  ZeroBubbleH1,
  ZeroBubbleH2,
  ZeroBubbleV
};
enum class ContextKind { AllGather, Ring, Ulysses };
enum class Recompute { None, Selective, Full };

/// What selective recomputation repeats before the backward pass of a block;
/// a set. What it repeats need not be kept.
enum RecomputedModules : unsigned {
  recomputeNorms = 1,
  recomputeAttention = 2,   ///< scores and weighted sum, not the projections
  recomputeOutput = 4,      ///< projection of attention's output
  recomputeUp = 8,          ///< first product of the dense MLP
  recomputeActivation = 16, ///< of the dense MLP
  recomputeDown = 32,
  recomputeExpertActivation = 64,
  recomputeExperts = 128, ///< routed experts with their exchange
  recomputeLatent = 256,  ///< products that expand compressed keys, queries
  recomputeHalf = 512     ///< every second product, all pointwise kernels
};

/// Kernels that move bytes and multiply nothing: cheap to repeat.
constexpr unsigned recomputePointwise =
    recomputeNorms | recomputeActivation | recomputeExpertActivation;

llvm::StringRef getName(Schedule schedule);
llvm::StringRef getName(ContextKind kind);
llvm::StringRef getName(Recompute recompute);

/// A training step's cut over tp * cp * dp * pp devices, innermost axis first:
/// ranks of a tp group are neighbours. Experts are cut over ep * expertTp
/// devices, which share the ranks of tp * cp * dp.
struct TrainLayout {
  int64_t tp = 1, cp = 1, dp = 1, pp = 1;
  int64_t ep = 1, expertTp = 1;
  bool sequenceParallel = false; ///< residual stream split over tp
  ContextKind contextKind = ContextKind::AllGather;
  int zero = 0;              ///< ZeRO stage, over dp * cp
  int64_t zeroGroup = 0;     ///< ranks that share one copy; 0: all of dp * cp
  int64_t microBatch = 1;    ///< samples of a rank in one micro-batch
  int64_t virtualStages = 1; ///< model chunks of one device
  Schedule schedule = Schedule::OneFOneB;
  Recompute recompute = Recompute::None;
  /// Under Recompute::Selective; otherwise without meaning.
  unsigned recomputedModules = recomputeAttention;
  double recomputeShare = 1; ///< of the blocks that recompute, evenly spread

  int64_t getDevices() const { return tp * cp * dp * pp; }
  bool operator==(const TrainLayout &) const = default;
};

} // namespace cleave

#endif // CLEAVE_COST_LAYOUT_H
