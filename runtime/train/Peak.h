//===- Peak.h - What a core could do at best ------------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_PEAK_H
#define CLEAVE_RUNTIME_TRAIN_PEAK_H

namespace cleave::runtime {

/// Measured f32 FMA throughput of the calling thread's core, in GFLOP/s, with
/// the widest vectors it has (AVX-512, AVX2, or the compiler's default): the
/// best of several short runs of independent multiply-adds in registers.
/// Takes about 20 ms.
double measureCorePeakGflops();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_PEAK_H
