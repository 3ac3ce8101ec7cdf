//===- SimulateTasks.h - A step of a program, task by task ----------------===//
#ifndef CLEAVE_SIMULATE_SIMULATETASKS_H
#define CLEAVE_SIMULATE_SIMULATETASKS_H

#include "cleave/Tasks/Price.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

/// One execution of a task: from when its stream came to it, with all that it
/// waits for by events done, to its end. A message that is received, and what
/// stages meet in, begin before the others are there.
struct TaskSpan {
  int64_t stage, task, run;
  double start, end;
};

/// Where the time of a stage's own stream goes. The four are its step.
struct StageTime {
  double compute = 0;
  double exposed = 0; ///< collectives and messages of its own stream
  /// For what other streams of the rank communicate, and what these slow down.
  double waiting = 0;
  double idle = 0; ///< for other stages
  /// Of all streams: what tasks that communicate take by themselves.
  double communication = 0;

  double getStep() const { return compute + exposed + waiting + idle; }
};

struct TaskSimulation {
  double step = 0; ///< seconds
  std::vector<StageTime> stages;
  PerTask<double> seconds; ///< of all executions of a task, as spans have them
  PerTask<int64_t> counts; ///< executions
  std::vector<TaskSpan> spans; ///< if they are kept; of each stream in order
};

/// Plays a step as the runtime executes it, a rank for each stage. The rank's
/// own stream, number 0, goes through the runs in order, executes what is its
/// own and hands the rest to their streams: so a task of another stream begins
/// once that one came to it, its own stream is free, and the events that it
/// waits for are recorded. What shares a link with others is slower by as many
/// as there are at each time; compute loses the slowdown of what was handed
/// over before, as fast as it can, unless its stream waits meanwhile. A
/// message is there once it is sent. Messages between the same stages of one
/// channel are received in the order in which they are sent; collectives
/// between stages begin when all stages are there.
///
/// The program must be one that the loader accepts: there, nobody waits for
/// ever.
TaskSimulation simulate(const TaskProgram &program, const TaskTimes &times,
                        bool keepSpans = false);

/// Chrome's trace format, as `train --trace` writes it: a process for each
/// stage, with tracks for compute, for collectives and messages of its own
/// stream, and for each further stream. Spans must have been kept.
void printTrace(llvm::raw_ostream &os, const TaskProgram &program,
                const TaskSimulation &simulation);

} // namespace cleave

#endif // CLEAVE_SIMULATE_SIMULATETASKS_H
