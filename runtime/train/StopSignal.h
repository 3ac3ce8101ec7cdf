//===- StopSignal.h - Stopping when asked to ------------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_STOPSIGNAL_H
#define CLEAVE_RUNTIME_TRAIN_STOPSIGNAL_H

namespace cleave::runtime {

/// From now on SIGTERM, SIGINT and SIGUSR1 (which Slurm and mpirun pass on
/// before they stop a job) ask the run to stop after its step. A second one
/// ends the process at once, as if nobody had asked to be told.
void installStopSignals();

/// The signal that came, or 0.
int getStopSignal();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_STOPSIGNAL_H
