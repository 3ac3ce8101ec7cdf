//===- Seconds.h - The price of a step from its bytes ---------------------===//
#ifndef CLEAVE_LIB_RESHARD_SECONDS_H
#define CLEAVE_LIB_RESHARD_SECONDS_H

#include "cleave/Reshard/Reshard.h"

namespace cleave::detail {

/// getStepSeconds for a rank that holds `bytes` before the step.
double getSeconds(const Mesh &mesh, Step::Kind kind, llvm::ArrayRef<Axis> axes,
                  double bytes, CollectivePricer price);

} // namespace cleave::detail

#endif // CLEAVE_LIB_RESHARD_SECONDS_H
