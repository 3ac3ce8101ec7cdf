//===- Layout.h - The degrees of every parallelism ------------------------===//
#ifndef CLEAVE_COST_LAYOUT_H
#define CLEAVE_COST_LAYOUT_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave {

enum class Schedule {
  GPipe,
  OneFOneB,
  EagerOneFOneB,
  Interleaved,
  ZeroBubbleH1,
  ZeroBubbleH2,
  ZeroBubbleV,
  DualPipeV
};
constexpr int numSchedules = 8;
/// Whether a stage has two parts of the model, one on the way down the stages
/// and one on the way up again.
constexpr bool isVShaped(Schedule schedule) {
  return schedule == Schedule::ZeroBubbleV || schedule == Schedule::DualPipeV;
}
enum class ContextKind { AllGather, Ring, Ulysses };
constexpr int numContextKinds = 3;
enum class Recompute { None, Selective, Full };

/// The order of the axes over the devices, innermost first; tp is the
/// innermost, since its messages are the most.
enum class AxisOrder {
  ContextDataPipeline,
  ContextPipelineData,
  DataContextPipeline,
  DataPipelineContext,
  PipelineContextData,
  PipelineDataContext
};
constexpr int numAxisOrders = 6;

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
  recomputeHalf = 512,    ///< every second product, all pointwise kernels
  recomputeAll = 1023
};

/// Kernels that move bytes and multiply nothing: cheap to repeat.
constexpr unsigned recomputePointwise =
    recomputeNorms | recomputeActivation | recomputeExpertActivation;

llvm::StringRef getName(Schedule schedule);
/// None of that name; those that there are, joined by commas.
std::optional<Schedule> findSchedule(llvm::StringRef name);
std::string listSchedules();
llvm::StringRef getName(ContextKind kind);
llvm::StringRef getName(Recompute recompute);
/// "tp-cp-dp-pp" ...
llvm::StringRef getName(AxisOrder order);

/// The ranks of a collective: `ranks` of them, neighbours `stride` devices
/// apart, or `outerRanks` such rows, `outerStride` devices apart.
struct Group {
  int64_t ranks = 1, stride = 1;
  int64_t outerRanks = 1, outerStride = 1;

  int64_t getSize() const { return ranks * outerRanks; }
  bool operator==(const Group &) const = default;
};

/// A training step's cut over tp * cp * dp * pp devices, innermost axis first:
/// ranks of a tp group are neighbours. Experts are cut over ep * expertTp
/// devices, which share the ranks of tp * cp * dp.
struct TrainLayout {
  static constexpr int64_t even = -1;

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
  /// Of each virtual stage's blocks, the first so many recompute; 0: all.
  int64_t recomputeBlocks = 0;
  /// Blocks of the first and the last virtual stage, which have the embedding
  /// and the head besides; both `even` or neither. The rest is as even as it
  /// can be.
  int64_t firstBlocks = even, lastBlocks = even;
  AxisOrder order = AxisOrder::ContextDataPipeline;

  int64_t getDevices() const { return tp * cp * dp * pp; }
  /// The devices that share a copy of dense weights under ZeRO, and those of an
  /// expert's.
  int64_t getShards() const;
  int64_t getExpertRanks() const;
  /// The ranks of a cp group.
  Group getContextGroup() const;
  /// Of the ranks of tp, cp and dp in their order: `ranks`, each `step` after
  /// the one before it.
  Group getRankGroup(int64_t ranks, int64_t step) const;
  /// Devices from a stage to the next.
  int64_t getPipelineStride() const;
  /// Blocks of a virtual stage, of `blocks` on all of them.
  int64_t getNumBlocks(int64_t virtualStage, int64_t blocks) const;
  /// Those of the virtual stage that has the most.
  int64_t getMostBlocks(int64_t blocks) const;
  bool operator==(const TrainLayout &) const = default;
};

} // namespace cleave

#endif // CLEAVE_COST_LAYOUT_H
