//===- Tensors.h - What lowerings ask of tensor types ---------------------===//
#ifndef CLEAVE_PASSES_KERNELS_TENSORS_H
#define CLEAVE_PASSES_KERNELS_TENSORS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace cleave {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// The program format's code of a tensor's element type.
inline int64_t getTypeCode(mlir::Value value) {
  mlir::Type type = typeOf(value).getElementType();
  return type.isBF16() ? 1 : type.isInteger(32) ? 2 : 0;
}

inline int64_t product(llvm::ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_TENSORS_H
