//===- Meaning.h - How the meaning of an op is written --------------------===//
#ifndef CLEAVE_PASSES_INTERPRET_MEANING_H
#define CLEAVE_PASSES_INTERPRET_MEANING_H

#include "passes/Interpret/SimulatedRanks.h"

namespace cleave {

/// One rank, to an op that computes on each of them alone.
struct RankView {
  SimulatedRanks &ranks;
  int64_t rank;

  const Array &get(mlir::Value value) const { return ranks.get(value, rank); }
  Array &make(mlir::Value result) const { return ranks.make(result, rank); }
  int64_t getShardIndex(mlir::Operation *op) const {
    return ranks.getShardIndex(op, rank);
  }
};

/// The meaning of `Op`: `Self::run(op, view)` on each rank.
template <typename Self, typename Op>
struct Meaning : InterpretableOpInterface::ExternalModel<Self, Op> {
  llvm::LogicalResult interpret(mlir::Operation *op,
                                SimulatedRanks &ranks) const {
    for (int64_t rank = 0; rank < ranks.size(); ++rank)
      if (llvm::failed(Self::run(mlir::cast<Op>(op), RankView{ranks, rank})))
        return llvm::failure();
    return llvm::success();
  }
};

/// The meaning of `Op` by all ranks together: `Self::run(op, ranks)`.
template <typename Self, typename Op>
struct JointMeaning : InterpretableOpInterface::ExternalModel<Self, Op> {
  llvm::LogicalResult interpret(mlir::Operation *op,
                                SimulatedRanks &ranks) const {
    return Self::run(mlir::cast<Op>(op), ranks);
  }
};

/// Learning rate and bias corrections of step t = 0, 1, ... of `steps`.
struct Rates {
  int64_t kind; ///< of xf::ScheduleKind, or exec::LRSchedule, which are alike
  int64_t warmupSteps, decaySteps, stableSteps;
  double lr, minLr, beta1, beta2;

  /// Of xf.schedule or exec.schedule.
  template <typename Op>
  static Rates of(Op op) {
    return {int64_t(op.getKind()),           int64_t(op.getWarmupSteps()),
            int64_t(op.getDecaySteps()),     int64_t(op.getStableSteps()),
            op.getLr().convertToDouble(),    op.getMinLr().convertToDouble(),
            op.getBeta1().convertToDouble(), op.getBeta2().convertToDouble()};
  }

  /// [lr, 1 / (1 - beta1^(t+1)), 1 / (1 - beta2^(t+1)), limit, limit], as
  /// runtime/program/README.md has it; in the step at hand.
  std::vector<double> get(const SimulatedRanks &ranks) const;
};

// The meanings, by theme.
void attachForwardMeanings(mlir::MLIRContext *context);
void attachBackwardMeanings(mlir::MLIRContext *context);
void attachOptimizerMeanings(mlir::MLIRContext *context);
void attachStepMeanings(mlir::MLIRContext *context);
void attachCollectiveMeanings(mlir::MLIRContext *context);
void attachInstructionMeanings(mlir::MLIRContext *context);

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_MEANING_H
