//===- AssignStages.h - Which virtual stage an op is on -------------------===//
#ifndef CLEAVE_PASSES_PIPELINE_ASSIGNSTAGES_H
#define CLEAVE_PASSES_PIPELINE_ASSIGNSTAGES_H

#include "cleave/Cost/Orders.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave {

/// The virtual stage of each op of a micro-batch, in the model's order from 0.
using VirtualStages = llvm::DenseMap<mlir::Operation *, int64_t>;

/// `layers` of each virtual stage, in the model's order.
///  1. An op of a layer is on the layer's.
///  2. Of those of no layer, what comes before the layers, as the embedding, is
///     on the first and what comes after them, as the head, on the last; the
///     gradients of both likewise.
///  3. What reads nothing of the micro-batch, as the gathering of a weight, is
///     with those that use it.
///  4. An op that only joins values of another stage is there: so one message
///     goes on from it, not one of each value.
VirtualStages assignStages(mlir::Block &body, llvm::ArrayRef<int64_t> layers);

} // namespace cleave

#endif // CLEAVE_PASSES_PIPELINE_ASSIGNSTAGES_H
