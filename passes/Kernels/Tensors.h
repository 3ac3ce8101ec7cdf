//===- Tensors.h - What lowerings ask of tensor types ---------------------===//
#ifndef CLEAVE_PASSES_KERNELS_TENSORS_H
#define CLEAVE_PASSES_KERNELS_TENSORS_H

#include "dialects/exec/Work.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace cleave {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

inline mlir::Type elementOf(mlir::Value value) {
  return typeOf(value).getElementType();
}

/// The kernel ABI's code of a tensor's element type, by which workspaces are
/// sized.
inline int64_t getTypeCode(mlir::Value value) {
  std::optional<program::DType> type = exec::getDType(elementOf(value));
  assert(type && "tensors have elements that operands have");
  return int64_t(*type);
}

/// Of a tensor whose bytes can be counted.
inline int64_t getBytes(mlir::Type type) {
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  return tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
}

inline int64_t product(llvm::ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_TENSORS_H
