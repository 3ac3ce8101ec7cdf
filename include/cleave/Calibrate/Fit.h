//===- Fit.h - Constants of a device from measured seconds ----------------===//
#ifndef CLEAVE_CALIBRATE_FIT_H
#define CLEAVE_CALIBRATE_FIT_H

#include "cleave/Cost/Kernels.h"

namespace cleave {

/// An m x k by k x n product.
struct MatmulSample {
  int64_t m = 0, n = 0, k = 0;
  double seconds = 0;
};

/// Causal attention of `heads` over all samples, `rows` queries each.
struct AttentionSample {
  Direction direction = Direction::Forward;
  int64_t heads = 0, rows = 0, headDim = 0;
  double seconds = 0;
};

/// A collective whose full buffer is `bytes` on each of `ranks`.
struct CollectiveSample {
  CollectiveKind kind = CollectiveKind::AllReduce;
  int64_t ranks = 0;
  double bytes = 0, seconds = 0;
};

/// Fits `efficiency`, `tile_startup`, `launch` and `memory_efficiency` of the
/// unit for `dtype`, whose peak is given, to products: the least sum of
/// absolute logarithms of predicted over measured.
void fitMatmuls(Device &device, DType dtype,
                llvm::ArrayRef<MatmulSample> samples);

/// The same of an attention kernel's shares, ramp and narrowness.
AttentionUnit fitAttention(const Device &device,
                           llvm::ArrayRef<AttentionSample> samples);

/// The same of one kind's startups, and of its bandwidth by ranks.
CollectiveCurve fitCollective(CollectiveKind kind,
                              llvm::ArrayRef<CollectiveSample> samples);

} // namespace cleave

#endif // CLEAVE_CALIBRATE_FIT_H
