//===- Measure.h - What this machine's kernels and ranks take -------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_MEASURE_H
#define CLEAVE_TOOLS_CLEAVE_MEASURE_H

#include "cleave/Calibrate/Fit.h"
#include "runtime/base/Status.h"

namespace cleave::tool {

/// Seconds of the runtime's own kernels on all cores at once. Operands change
/// from call to call, so that they come from memory as in a step.
std::vector<MatmulSample> measureMatmuls(DType dtype, int threads);
std::vector<AttentionSample> measureAttention(int threads);

/// byte/s of a sum of two vectors into a third, all of them in memory, by all
/// threads together.
double measureStream(int threads);

/// Seconds that cores of this machine were busy with other processes, or that a
/// hypervisor took, since it started; 0 where the system does not say.
double getForeignSeconds();

/// Seconds of every collective between `ranks` threads of this process.
runtime::Status measureCollectives(int ranks,
                                   std::vector<CollectiveSample> &samples);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_MEASURE_H
