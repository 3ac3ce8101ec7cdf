//===- Simulate.h - One training step, event by event ---------------------===//
#ifndef CLEAVE_SIMULATE_SIMULATE_H
#define CLEAVE_SIMULATE_SIMULATE_H

#include "cleave/Cost/Pipeline.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

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

/// Each stage has a compute stream, which runs its order of ops, and a
/// communication stream, which sends one message at a time and at last reduces
/// gradients.
Simulation simulate(const PipelineStep &step);

/// Chrome's trace format, which ui.perfetto.dev shows: a process for each
/// stage, a thread for each of its streams, times in microseconds.
void printTrace(llvm::raw_ostream &os, const Simulation &simulation);

} // namespace cleave

#endif // CLEAVE_SIMULATE_SIMULATE_H
