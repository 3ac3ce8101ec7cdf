//===- Cpus.h - What this process may run on ------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_CPUS_H
#define CLEAVE_RUNTIME_BASE_CPUS_H

namespace cleave::runtime {

/// CPUs in this process's affinity mask, at least 1.
int getAvailableCpus();

/// Says that the calling thread works for short whiles between long waits, as
/// one that communicates does: what it waited for is then looked at at once,
/// not when a computing thread's time slice of milliseconds ends. It gets no
/// larger a share of the cores for that. Asks for slices of 0.1 ms, which
/// Linux has had since 6.12, and for timers that are not put together with
/// later ones; where the kernel has neither, nothing changes.
void expectShortWork();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CPUS_H
