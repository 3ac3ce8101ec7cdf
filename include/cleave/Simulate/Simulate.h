//===- Simulate.h - One training step, event by event ---------------------===//
#ifndef CLEAVE_SIMULATE_SIMULATE_H
#define CLEAVE_SIMULATE_SIMULATE_H

#include "cleave/Cost/Pipeline.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

/// A training step over the stages of a pipeline. Each stage has a compute
/// stream, which runs its order of ops, and a communication stream, which sends
/// one message at a time and at last reduces gradients.
struct SimulatedStep {
  PipelineShape shape;
  std::vector<StageTimes> times;   ///< of virtual stages, in the model's order
  double send = 0;                 ///< s from a stage to the next
  std::vector<double> data;        ///< s of collectives at the end, by stage
  double optimizer = 0;            ///< s
  std::vector<double> activations; ///< kept for a micro-batch, by virtual stage
};

/// Something that a stream did.
struct SimulatedEvent {
  enum Kind { Compute, Send, Data, Optimizer } kind;
  PipelineOp op; ///< what was computed, or whose result was sent
  int64_t stage;
  double start, end;
};

struct Simulation {
  /// See PipelineShape::splitsBackward for what the end of a step is.
  double step = 0;
  /// By stage: first and last gradient's end, seconds of compute, most
  /// activations at any time.
  std::vector<double> starts, ends, busy, peaks;
  std::vector<SimulatedEvent> events; ///< in the order of their ends
};

Simulation simulate(const SimulatedStep &step);

/// Chrome's trace format, which ui.perfetto.dev shows: a process for each
/// stage, a thread for each of its streams, times in microseconds.
void printTrace(llvm::raw_ostream &os, const Simulation &simulation);

} // namespace cleave

#endif // CLEAVE_SIMULATE_SIMULATE_H
