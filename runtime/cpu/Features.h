//===- Features.h - Which instruction set the kernels use -----------------===//
#ifndef CLEAVE_RUNTIME_CPU_FEATURES_H
#define CLEAVE_RUNTIME_CPU_FEATURES_H

namespace cleave::cpu {

/// The variants of the kernels, each needing what the one before it needs.
/// Avx512: F, BW, DQ, VL. Avx512Bf16 adds vdpbf16ps, for bf16 x bf16 GEMM.
enum class Isa { Portable, Avx2, Avx512, Avx512Bf16 };

const char *getName(Isa isa);

/// The best variant that this CPU and operating system run.
Isa getBestIsa();

/// The variant in use: the best, unless a test chose another.
Isa getActiveIsa();

/// Makes `isa` the active variant of the process; false, and no change, where
/// the CPU lacks it. For tests and benchmarks; not while kernels run.
bool setActiveIsa(Isa isa);

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_FEATURES_H
