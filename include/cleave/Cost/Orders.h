//===- Orders.h - What the stages of a pipeline run, in order -------------===//
#ifndef CLEAVE_COST_ORDERS_H
#define CLEAVE_COST_ORDERS_H

#include "cleave/Cost/Layout.h"
#include <string>
#include <vector>

namespace cleave {

/// A model is cut into stages * chunks virtual stages; each device, called a
/// stage, has `chunks` of them.
struct PipelineShape {
  Schedule schedule = Schedule::OneFOneB;
  int64_t stages = 1, chunks = 1, microBatches = 1;
  /// Whether the optimizers of zero-bubble schedules wait for each other, too.
  bool endsTogether = false;

  int64_t getVirtualStages() const { return stages * chunks; }
  bool operator==(const PipelineShape &) const = default;
  /// The virtual stage that is a stage's chunk. Of 2 x 2, by stage: interleaved
  /// 0 2, 1 3; V-shaped 0 3, 1 2.
  int64_t getVirtualStage(int64_t stage, int64_t chunk) const {
    return chunk * stages + (turnsBack(chunk) ? stages - 1 - stage : stage);
  }
  int64_t getStage(int64_t virtualStage) const {
    int64_t chunk = virtualStage / stages, at = virtualStage % stages;
    return turnsBack(chunk) ? stages - 1 - at : at;
  }
  /// Whether input and weight gradients are apart (zero-bubble schedules and
  /// DualPipe's, though some follow each other there).
  bool splitsBackward() const { return schedule >= Schedule::ZeroBubbleH1; }
  /// Whether a stage's optimizer does not wait for other stages, so that a step
  /// takes what its longest stage takes from its own start to its own end: in
  /// zero-bubble schedules as published (Qi et al. 2024, section 4).
  bool endsAlone() const { return splitsBackward() && !endsTogether; }
  /// Whether virtual stages take micro-batches in groups of p: all of a group
  /// on one chunk, then on the next.
  bool cyclesChunks() const { return chunks > 1 && !splitsBackward(); }
  /// Whether all forward passes come first: GPipe, and interleaved if p does
  /// not divide the micro-batches, since a last group of fewer than p would
  /// leave the alternation too early.
  bool goesForwardFirst() const;
  /// Micro-batches in flight at most of each chunk of a stage, if they peak
  /// together; otherwise 0.
  int64_t getAlikeInFlight(int64_t stage) const;

private:
  /// Whether a chunk goes from the last stage to the first.
  bool turnsBack(int64_t chunk) const {
    return isVShaped(schedule) && chunk % 2 == 1;
  }
};

enum class PipelineOpKind : uint8_t {
  Forward,
  Backward, ///< both gradients
  BackwardInput,
  BackwardWeight
};
struct PipelineOp {
  PipelineOpKind kind;
  int32_t chunk, microBatch;
  bool operator==(const PipelineOp &) const = default;
};

/// Why the schedule cannot have that many virtual stages, and what can; empty
/// if it can.
std::string findProblem(const PipelineShape &shape);

/// What a stage runs, in order: GPipe (Huang et al. 2019), 1F1B and interleaved
/// (Narayanan et al. 2021), eager 1F1B (Zhuang et al. 2023, "On Optimizing the
/// Communication of Model Parallelism"; there with two more micro-batches in
/// flight for each stage below, here with three, so that a stage may send for
/// as long as it computes), ZB-H1, ZB-H2 and ZB-V (Qi et al. 2024) as
/// published; DualPipe's V shape (Qi et al. 2025, "DualPipe could be better
/// without the Dual", as deepseek-ai/DualPipe has it), a pair of a forward and
/// a backward pass being one after the other.
std::vector<PipelineOp> getOrder(const PipelineShape &shape, int64_t stage);
/// The same of all stages.
std::vector<std::vector<PipelineOp>> getOrders(const PipelineShape &shape);

} // namespace cleave

#endif // CLEAVE_COST_ORDERS_H
