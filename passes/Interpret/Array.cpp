//===- Array.cpp - A tensor in f64 ----------------------------------------===//
#include "passes/Interpret/Array.h"
#include <cmath>

using namespace cleave;

Array Array::zeros(llvm::ArrayRef<int64_t> shape) {
  Array array{shape.vec(), {}};
  array.data.assign(size_t(array.count(0, shape.size())), 0.0);
  return array;
}

int64_t Array::count(size_t begin, size_t end) const {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i)
    product *= shape[i];
  return product;
}

/// Calls `visit(i, j)` for element i of the shard of `rank`, which is element j
/// of the whole.
template <typename Visit>
static void forEachElement(llvm::ArrayRef<int64_t> shape,
                           const Placement &placement, const Mesh &mesh,
                           int64_t rank, Visit visit) {
  auto local = placement.getLocalShape(mesh, shape);
  auto offsets = placement.getLocalOffsets(mesh, shape, rank);
  int64_t size = 1;
  for (int64_t extent : local)
    size *= extent;
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t d = local.size(); d-- > 0;) {
      at += (offsets[d] + rest % local[d]) * stride;
      rest /= local[d];
      stride *= shape[d];
    }
    visit(size_t(i), size_t(at));
  }
}

Array cleave::split(const Array &whole, const Placement &placement,
                    const Mesh &mesh, int64_t rank) {
  Array part = Array::zeros(placement.getLocalShape(mesh, whole.shape));
  if (placement.isPartial() && placement.reduction == Reduction::Sum &&
      mesh.getShardIndex(rank, placement.partial) != 0)
    return part;
  forEachElement(whole.shape, placement, mesh, rank,
                 [&](size_t i, size_t j) { part.data[i] = whole.data[j]; });
  return part;
}

Array cleave::join(llvm::ArrayRef<const Array *> parts,
                   llvm::ArrayRef<int64_t> shape, const Placement &placement,
                   const Mesh &mesh) {
  Array whole = Array::zeros(shape);
  std::vector<bool> written(whole.data.size());
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
    // One of each set of copies.
    bool isCopy = false;
    for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis)
      isCopy |=
          placement.isCopiedAlong(axis) && mesh.getCoordinate(rank, axis) != 0;
    if (isCopy)
      continue;
    const Array &part = *parts[size_t(rank)];
    forEachElement(shape, placement, mesh, rank, [&](size_t i, size_t j) {
      double &to = whole.data[j];
      if (!written[j])
        to = part.data[i];
      else if (placement.reduction == Reduction::Max)
        to = std::max(to, part.data[i]);
      else
        to += part.data[i];
      written[j] = true;
    });
  }
  return whole;
}

std::optional<int64_t> cleave::findDifference(const Array &a, const Array &b,
                                              double tolerance) {
  double largest = 0;
  for (const Array *array : {&a, &b})
    for (double x : array->data)
      largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < a.data.size(); ++i)
    if (a.data[i] != b.data[i] &&
        !(std::abs(a.data[i] - b.data[i]) <= tolerance * largest))
      return int64_t(i);
  return std::nullopt;
}
