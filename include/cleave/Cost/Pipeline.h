//===- Pipeline.h - Orders and seconds of pipeline schedules --------------===//
#ifndef CLEAVE_COST_PIPELINE_H
#define CLEAVE_COST_PIPELINE_H

#include "cleave/Cost/Layout.h"
#include "llvm/ADT/ArrayRef.h"
#include <map>
#include <tuple>
#include <vector>

namespace cleave {

/// Seconds of one virtual stage for one micro-batch.
struct StageTimes {
  double forward = 0, backwardInput = 0, backwardWeight = 0;
  double getBackward() const { return backwardInput + backwardWeight; }
  double getTotal() const { return forward + getBackward(); }
};

/// A model is cut into stages * chunks virtual stages; each device, called a
/// stage, has `chunks` of them.
struct PipelineShape {
  Schedule schedule = Schedule::OneFOneB;
  int64_t stages = 1, chunks = 1, microBatches = 1;

  int64_t getVirtualStages() const { return stages * chunks; }
  bool operator==(const PipelineShape &) const = default;
  /// The virtual stage that is a stage's chunk. Of 2 x 2, by stage: interleaved
  /// 0 2, 1 3; V-shaped 0 3, 1 2.
  int64_t getVirtualStage(int64_t stage, int64_t chunk) const;
  int64_t getStage(int64_t virtualStage) const;
  /// Whether input and weight gradients are apart (zero-bubble schedules).
  /// Their optimizer does not wait for other stages either (Qi et al. 2024,
  /// section 4), so a step then takes what its longest stage takes from its own
  /// start to its own end.
  bool splitsBackward() const { return schedule >= Schedule::ZeroBubbleH1; }
};

/// A training step over the stages of a pipeline.
struct PipelineStep {
  PipelineShape shape;
  std::vector<StageTimes> times;   ///< of virtual stages, in the model's order
  double send = 0;                 ///< s from a stage to the next
  std::vector<double> data;        ///< s of collectives at the end, by stage
  double optimizer = 0;            ///< s
  std::vector<double> activations; ///< kept for a micro-batch, by virtual stage
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

/// What each stage runs, in order: GPipe (Huang et al. 2019), 1F1B and
/// interleaved (Narayanan et al. 2021), ZB-H1, ZB-H2 and ZB-V (Qi et al. 2024)
/// as published. With a number of micro-batches that p does not divide,
/// interleaved runs all forward passes first.
std::vector<std::vector<PipelineOp>> getOrders(const PipelineShape &shape);

/// Evaluates schedules; remembers their orders. Not for several threads.
class PipelineModel {
public:
  /// Seconds from the start of a step to the end of the last gradient, by
  /// recurrence over the order: an op starts when its stage is free and its
  /// input has arrived; a stage sends one message at a time, beside compute.
  /// Exact for some p micro-batches; of more, each adds to the step what the
  /// last ones did. `times` are of virtual stages, in the model's order;
  /// `starts` and `ends`, of stages, are filled.
  double getSeconds(const PipelineShape &shape,
                    llvm::ArrayRef<StageTimes> times, double send,
                    std::vector<double> &starts, std::vector<double> &ends);

  /// Most that the first stages keep at any time, if each micro-batch in flight
  /// of a virtual stage keeps activations of it; as many stages as `peaks`.
  void getPeaks(const PipelineShape &shape, llvm::ArrayRef<double> activations,
                llvm::MutableArrayRef<double> peaks);

  /// An op of a stage: the number of its cost, and which result it waits for,
  /// counted from 1; 0: none.
  struct Step {
    int32_t op, input;
  };

private:
  /// What all stages run, for `few` micro-batches and for `many`; both begin
  /// alike. Steps are first those of both, then what few end with, then what
  /// many do; if few are as many, all are of both.
  struct Program {
    int64_t few = 0, many = 0;
    std::vector<Step> steps; ///< a step comes after all that it waits for
    size_t shared = 0, fewEnd = 0;
    std::vector<int32_t> begins; ///< input of each stage's first op
    /// By stage: numbers of micro-batches in flight, `chunks` each, that no
    /// other moment exceeds in every chunk.
    std::vector<std::vector<int32_t>> peaks;
  };
  struct OpCost {
    double seconds;
    int32_t stage, sends; ///< sends: whether its result leaves the stage
  };

  const Program &get(const PipelineShape &shape);
  /// Fills the costs of ops, which are numbered by kind and virtual stage.
  void setCosts(const PipelineShape &shape, llvm::ArrayRef<StageTimes> times,
                double send);
  template <bool takesTurns>
  void play(const Program &program, size_t first, size_t last, double send);

  std::map<std::tuple<Schedule, int64_t, int64_t, int64_t, int64_t>, Program>
      programs;
  PipelineShape lastShape;
  const Program *last = nullptr; ///< of that shape
  std::vector<OpCost> opCosts;
  bool takesTurns = false; ///< whether a message may wait for the one before
  std::vector<double> arrival, freeAt, linkFreeAt, fewEnds, sharedLinks;
};

} // namespace cleave

#endif // CLEAVE_COST_PIPELINE_H
