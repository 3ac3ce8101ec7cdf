//===- Simulate.h - Collectives on arrays, the obvious way ----------------===//
//
// An oracle for what steps mean: every rank has its array, each step is carried
// out rank by rank by cutting, joining and reducing whole arrays. Nothing here
// knows what a placement is, but to make the first arrays and to check the
// last.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_LIB_PLACEMENT_ARRAYS_H
#define CLEAVE_TEST_LIB_PLACEMENT_ARRAYS_H

#include "cleave/Placement/Placement.h"
#include <algorithm>
#include <vector>

namespace cleave::simulate {

using Shape = llvm::SmallVector<int64_t, 4>;

/// A row-major array seen as [outer, size of a dim, inner].
struct Array {
  Shape shape;
  std::vector<int64_t> data;

  int64_t getOuter(unsigned dim) const {
    int64_t outer = 1;
    for (unsigned d = 0; d < dim; ++d)
      outer *= shape[d];
    return outer;
  }
  int64_t getInner(unsigned dim) const {
    int64_t inner = 1;
    for (unsigned d = dim + 1; d < shape.size(); ++d)
      inner *= shape[d];
    return inner;
  }
};

/// Piece `number` of `count` equal pieces along `dim`.
inline Array cut(const Array &in, unsigned dim, int64_t number, int64_t count) {
  Array out;
  out.shape = in.shape;
  out.shape[dim] /= count;
  int64_t run = out.shape[dim] * in.getInner(dim);
  for (int64_t outer = 0; outer < in.getOuter(dim); ++outer) {
    auto begin = in.data.begin() + (outer * count + number) * run;
    out.data.insert(out.data.end(), begin, begin + run);
  }
  return out;
}

/// The arrays one after the other along `dim`.
inline Array join(const std::vector<Array> &parts, unsigned dim) {
  Array out;
  out.shape = parts[0].shape;
  out.shape[dim] *= parts.size();
  int64_t run = parts[0].shape[dim] * parts[0].getInner(dim);
  for (int64_t outer = 0; outer < parts[0].getOuter(dim); ++outer)
    for (const Array &part : parts)
      out.data.insert(out.data.end(), part.data.begin() + outer * run,
                      part.data.begin() + (outer + 1) * run);
  return out;
}

inline Array reduce(const std::vector<Array> &parts, Reduction reduction) {
  Array out = parts[0];
  for (size_t p = 1; p < parts.size(); ++p)
    for (size_t i = 0; i < out.data.size(); ++i)
      out.data[i] = reduction == Reduction::Sum
                        ? out.data[i] + parts[p].data[i]
                        : std::max(out.data[i], parts[p].data[i]);
  return out;
}

/// The shard of `rank`, cut axis by axis.
inline Array getShard(const Mesh &mesh, Array whole, const Placement &placement,
                      int64_t rank) {
  for (unsigned dim = 0; dim < placement.dims.size(); ++dim)
    for (Axis axis : placement.dims[dim])
      whole =
          cut(whole, dim, mesh.getCoordinate(rank, axis), mesh.getSize(axis));
  return whole;
}

/// A global value as addends: one array for each shard index along the partial
/// axes of a placement.
inline std::vector<Array> makeAddends(llvm::ArrayRef<int64_t> shape,
                                      int64_t count, unsigned seed) {
  std::vector<Array> addends(count);
  uint64_t state = seed * 2654435761u + 1;
  for (Array &addend : addends) {
    addend.shape.assign(shape.begin(), shape.end());
    int64_t elements = addend.getInner(0) * (shape.empty() ? 1 : shape[0]);
    for (int64_t i = 0; i < elements; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      addend.data.push_back(static_cast<int64_t>(state >> 40) - (1 << 23));
    }
  }
  return addends;
}

/// What each rank holds of the value under `placement`.
inline std::vector<Array> distribute(const Mesh &mesh,
                                     const std::vector<Array> &addends,
                                     const Placement &placement) {
  std::vector<Array> ranks;
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    ranks.push_back(
        getShard(mesh, addends[mesh.getShardIndex(rank, placement.partial)],
                 placement, rank));
  return ranks;
}

/// True if `ranks` hold `value` as `placement` says.
inline bool holds(const Mesh &mesh, const std::vector<Array> &ranks,
                  const Array &value, const Placement &placement) {
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
    std::vector<Array> group;
    for (int64_t member : mesh.getGroup(rank, placement.partial))
      group.push_back(ranks[member]);
    Array sum = reduce(group, placement.reduction);
    Array want = getShard(mesh, value, placement, rank);
    if (sum.shape != want.shape || sum.data != want.data)
      return false;
  }
  return true;
}

} // namespace cleave::simulate

#endif // CLEAVE_TEST_LIB_PLACEMENT_ARRAYS_H
