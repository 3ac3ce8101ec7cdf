//===- Peak.h - What a core could do at best ------------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_PEAK_H
#define CLEAVE_RUNTIME_TRAIN_PEAK_H

#include "runtime/program/Program.h"

namespace cleave::runtime {

/// The type of the factors in most of a program's matrix products: BF16, or
/// F32 where it has none.
program::DType getMatrixType(const Program &program);

/// What the calling thread's core could do at best in products of this type,
/// in GFLOP/s: measured throughput of the widest multiply-adds that the kernels
/// use here. Of BF16 that is the better of converting to f32 and, where the CPU
/// has AVX512-BF16, multiplying pairs at once, which takes twice the time of
/// f32 on some CPUs and half of it on others; the runtime's matrix products
/// choose by the CPU, whatever the program was compiled for. Takes 20 ms for
/// each of these.
double measureCorePeakGflops(program::DType type);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_PEAK_H
