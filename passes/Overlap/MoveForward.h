//===- MoveForward.h - The end of a forward pass, with the backward pass --===//
#ifndef CLEAVE_PASSES_OVERLAP_MOVEFORWARD_H
#define CLEAVE_PASSES_OVERLAP_MOVEFORWARD_H

#include "passes/Overlap/OverlapModel.h"

namespace cleave {

/// Instructions of `forward` that `backward` can do before all of its own, in
/// each micro-batch: those that use `value` and all that depends on them, with
/// what only they need. Nothing if they cannot be.
std::optional<Instructions> findMovable(exec::SegmentOp forward,
                                        exec::SegmentOp backward,
                                        mlir::Value value);

/// Lets `backward` do so.
void moveForward(const Instructions &movable, exec::SegmentOp backward);

} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_MOVEFORWARD_H
