//===- Measure.h - What this machine's kernels and ranks take -------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_MEASURE_H
#define CLEAVE_TOOLS_CLEAVE_MEASURE_H

#include "cleave/Calibrate/Fit.h"
#include "runtime/base/Status.h"

namespace cleave::tool {

/// A layer's weight, and the tokens that it is applied to.
struct Layer {
  int64_t tokens, outputs, inputs;
};
/// An m x k by k x n product of a step.
struct LayerProduct {
  int64_t m, n, k;
  bool transA, transB;
  bool isWeightGradient; ///< is added to sums in f32
};
/// Of each layer x w^T forward, and the products of the two gradients.
std::vector<LayerProduct> getLayerProducts(llvm::ArrayRef<Layer> layers);

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
