//===- cpu_kernels_peak.h - What one core can do at most ------------------===//
#ifndef CLEAVE_BENCH_CPU_KERNELS_PEAK_H
#define CLEAVE_BENCH_CPU_KERNELS_PEAK_H

#include "runtime/cpu/Features.h"

/// Runs independent chains of the widest multiply-add of `isa` from registers
/// for about `seconds`, and returns FLOP/s. `bf16`: of pairs, where it exists;
/// else 0.
double measurePeak(cleave::cpu::Isa isa, bool bf16, double seconds);

#endif // CLEAVE_BENCH_CPU_KERNELS_PEAK_H
