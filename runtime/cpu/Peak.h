//===- Peak.h - What one core can do at most ------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_PEAK_H
#define CLEAVE_RUNTIME_CPU_PEAK_H

#include "runtime/cpu/Features.h"

namespace cleave::cpu {

/// Runs independent chains of the widest multiply-add of `isa` from registers
/// on the calling thread for about `seconds`, and returns FLOP/s: the best of
/// many short runs. `bf16Pairs`: of vdpbf16ps, which multiplies pairs of bf16
/// into f32, where `isa` has it; else 0. The CPU must have `isa`.
double measurePeak(Isa isa, bool bf16Pairs, double seconds);

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_PEAK_H
