//===- Program.h - The orders of all stages of a pipeline, merged ---------===//
#ifndef CLEAVE_COST_PROGRAM_H
#define CLEAVE_COST_PROGRAM_H

#include "cleave/Cost/Orders.h"
#include <cstddef>

namespace cleave {

/// What all stages of a pipeline run, in one order, in which a step comes after
/// all that it waits for. Once a pipeline is full it repeats itself, every
/// micro-batch or, where stages take turns, every p of them, until it drains;
/// so steps are laid out for few micro-batches, and of more, parts repeat.
struct PipelineProgram {
  /// An op of a stage: its number, by kind and virtual stage, and the step that
  /// it waits for, from itself on: -1 is the one before it; 0: it waits for
  /// nothing.
  struct Step {
    uint16_t op, stage;
    int32_t input;
  };
  struct Part {
    size_t first, end; ///< steps
    bool repeats;
  };

  int64_t microBatches = 0; ///< if nothing repeats
  int64_t period = 0;       ///< micro-batches that a repetition adds; 0: none
  std::vector<Step> steps;
  std::vector<Part> parts; ///< all steps; the second one repeats, if any does
  std::vector<char> sends; ///< by op: whether its result leaves the stage
  /// By stage: the step that its first one waits for; the first stage waits for
  /// none.
  std::vector<size_t> begins;
  /// By stage: numbers of micro-batches in flight, `chunks` each, that no
  /// other moment exceeds in every chunk.
  std::vector<std::vector<int32_t>> peaks;
  /// What an arena has of a part of a stage. Places of micro-batches: of what
  /// the forward pass keeps for the input gradients alone, of what it keeps for
  /// the weights' as well, and of what the former leave for the latter; the
  /// gradients of the part's parameters, and their copies that passes read.
  struct Live {
    int32_t read = 0, kept = 0, between = 0;
    bool gradients = false, copies = false;

    bool covers(const Live &other) const {
      return read >= other.read && kept >= other.kept &&
             between >= other.between && gradients >= other.gradients &&
             copies >= other.copies;
    }
  };
  /// A moment at which no other has more of every part: chunks, and after them
  /// the head and the embedding, where the stage has these. Whether a block's
  /// backward pass or the loss may be under way.
  struct Moment {
    std::vector<Live> parts;
    bool inBlock = false, inLoss = false;
  };
  std::vector<std::vector<Moment>> moments; ///< of an arena, by stage

  /// How often what repeats runs for so many micro-batches.
  int64_t getTimes(int64_t count) const {
    return period ? 1 + (count - microBatches) / period : 1;
  }
  /// Steps of so many micro-batches.
  size_t getNumSteps(int64_t count) const {
    return steps.size() / size_t(microBatches) * size_t(count);
  }
  /// The micro-batches that a shape's program is laid out for: those of a
  /// program that repeats to as many as it has, or its own.
  static int64_t getLaidOut(const PipelineShape &shape);
  static PipelineProgram layOut(const PipelineShape &shape);
};

} // namespace cleave

#endif // CLEAVE_COST_PROGRAM_H
