//===- ReverseMode.h - Gradients of a straight line of ops ----------------===//
#ifndef CLEAVE_PASSES_GRAD_REVERSEMODE_H
#define CLEAVE_PASSES_GRAD_REVERSEMODE_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"

namespace cleave {

/// Builds, where `builder` stands (after the ops of `block`), the gradients of
/// `result` with respect to `leaves`, given d loss / d result as `seed`.
/// A leaf that does not reach the result gets a null value. Fails, naming the
/// op, if one between a leaf and the result has no gradient.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildReverseMode(mlir::OpBuilder &builder, mlir::Block &block,
                 mlir::ValueRange leaves, mlir::Value result, mlir::Value seed);

} // namespace cleave

#endif // CLEAVE_PASSES_GRAD_REVERSEMODE_H
