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
  /// See PipelineShape::endsAlone for what the end of a step is.
  double step = 0;
  /// By stage: first and last gradient's end, seconds of compute, most
  /// activations at any time.
  std::vector<double> starts, ends, busy, peaks;
  std::vector<SimulatedEvent> events; ///< in the order of their ends
};

/// Each stage has a stream of compute, which runs its order of ops, one of
/// messages, which sends one at a time, and one of the reductions at the end.
Simulation simulate(const PipelineStep &step);

/// Chrome's trace format, which ui.perfetto.dev shows: a process for each stage
/// with a thread for each of its streams and a counter of its activations, and
/// arrows from what computes a message to what waits for it. Times are whole
/// nanoseconds, so that slices of a thread never overlap.
void printTrace(llvm::raw_ostream &os, const PipelineStep &step,
                const Simulation &simulation);

} // namespace cleave

#endif // CLEAVE_SIMULATE_SIMULATE_H
