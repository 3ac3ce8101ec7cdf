//===- Shapes.h - What the verifiers of xf share --------------------------===//
#ifndef CLEAVE_DIALECTS_XF_SHAPES_H
#define CLEAVE_DIALECTS_XF_SHAPES_H

#include "dialects/xf/Xf.h"

namespace cleave::xf {

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// `[2, 8]`
std::string formatShape(llvm::ArrayRef<int64_t> shape);

inline llvm::SmallVector<int64_t> concat(llvm::ArrayRef<int64_t> a,
                                         llvm::ArrayRef<int64_t> b) {
  llvm::SmallVector<int64_t> all(a);
  all.append(b.begin(), b.end());
  return all;
}

/// Checks that `value`, called `what`, has `expected` shape.
mlir::LogicalResult expectShape(mlir::Operation *op, llvm::StringRef what,
                                mlir::Value value,
                                llvm::ArrayRef<int64_t> expected);

/// Checks that `value`, called `what`, has the shape and element type of
/// `model`.
mlir::LogicalResult expectLike(mlir::Operation *op, llvm::StringRef what,
                               mlir::Value value, mlir::Value model);

/// Returns x's dims before those of `weight`, which are its trailing ones.
mlir::FailureOr<llvm::ArrayRef<int64_t>>
getNormRows(mlir::Operation *op, mlir::Value x, mlir::Value weight);

/// q `[b, s, heads, d]`, k and v `[b, s, kv_heads, d]`, kv_heads divides heads,
/// lse `[b, heads, s]`.
mlir::LogicalResult verifyHeads(mlir::Operation *op, mlir::Value q,
                                mlir::Value k, mlir::Value v, mlir::Value lse);

} // namespace cleave::xf

#endif // CLEAVE_DIALECTS_XF_SHAPES_H
