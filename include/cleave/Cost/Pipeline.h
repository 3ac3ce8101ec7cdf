//===- Pipeline.h - Seconds and memory of pipeline schedules --------------===//
#ifndef CLEAVE_COST_PIPELINE_H
#define CLEAVE_COST_PIPELINE_H

#include "cleave/Cost/Program.h"
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

/// A training step over the stages of a pipeline.
struct PipelineStep {
  PipelineShape shape;
  std::vector<StageTimes> times; ///< of virtual stages, in the model's order
  double send = 0;               ///< s from a stage to the next
  std::vector<double> data;      ///< s of collectives at the end, by stage
  double optimizer = 0;          ///< s
  /// Kept for a micro-batch, by virtual stage: from its forward pass to the end
  /// of its backward pass; and, none or all, from the input gradients to the
  /// weights' where these are apart.
  std::vector<double> activations, between;
};

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
  /// What an arena has of a stage, in which what passes leave for others has
  /// places for the most micro-batches that ever wait; see Program.h.
  llvm::ArrayRef<PipelineProgram::Moment> getMoments(const PipelineShape &shape,
                                                     int64_t stage);

private:
  /// When things are free, after the first `played` steps.
  struct State {
    std::vector<double> stages, links;
    size_t played = 0;
  };

  /// Numbers of micro-batches that are played, and their programs.
  struct Sample {
    PipelineShape shape;
    int64_t few = 0, many = 0;
    const PipelineProgram *fewer = nullptr, *more = nullptr;
  };

  const PipelineProgram &getProgram(PipelineShape shape);
  const Sample &getSample(const PipelineShape &shape);
  void setSeconds(const PipelineProgram &program,
                  llvm::ArrayRef<StageTimes> times, double send);
  /// Plays parts of a program; what repeats so many times.
  void play(const PipelineProgram &program, size_t first, size_t end,
            int64_t times, double send);
  template <bool takesTurns>
  void playPart(const PipelineProgram &program,
                const PipelineProgram::Part &part, int64_t times, double send);

  std::map<std::tuple<Schedule, int64_t, int64_t, int64_t>, PipelineProgram>
      programs;
  Sample last;
  PipelineProgram::Moment full; ///< of a pipeline that is full
  std::vector<double> seconds;  ///< of ops
  bool takesTurns = false; ///< whether a message may wait for the one before
  State now, shared;
  /// When each step's result is where it is needed.
  std::vector<double> arrival;
  std::vector<double> fewEnds;
};

} // namespace cleave

#endif // CLEAVE_COST_PIPELINE_H
