//===- Workload.h - What a step trains ------------------------------------===//
#ifndef CLEAVE_COST_WORKLOAD_H
#define CLEAVE_COST_WORKLOAD_H

#include "cleave/Cost/Work.h"
#include "cleave/Hardware/Hardware.h"

namespace cleave {

/// What is trained, per step: so many sequences of so many tokens.
struct Workload {
  int64_t seqLen = 0, globalBatch = 0;
  DType dtype = DType::BF16;  ///< of matrix products
  DType moments = DType::F32; ///< of the optimizer, between steps
  /// Of what they leave: activations, and the products of router and head.
  DType getActivationType() const {
    return dtype == DType::F32 ? DType::F32 : DType::BF16;
  }
  /// Bytes of a parameter that products read, and of its optimizer's state:
  /// two moments and, unless parameters are in f32 themselves, a copy that is.
  double getParameterBytes() const { return getBytes(getActivationType()); }
  double getMomentBytes() const { return 2 * getBytes(moments); }
  double getStateBytes() const {
    return getMomentBytes() + (dtype == DType::F32 ? 0 : 4);
  }
  /// Bytes that the optimizer moves for a parameter: the update's, and the
  /// weight in the type of products, where that is another.
  double getOptimizerTraffic() const {
    return gradientNormBytes + getUpdateBytes(getMomentBytes()) +
           (dtype == DType::F32 ? 0 : 2);
  }
};

} // namespace cleave

#endif // CLEAVE_COST_WORKLOAD_H
