//===- Cpus.h - What this process may run on ------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_CPUS_H
#define CLEAVE_RUNTIME_BASE_CPUS_H

namespace cleave::runtime {

/// CPUs in this process's affinity mask, at least 1.
int getAvailableCpus();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CPUS_H
