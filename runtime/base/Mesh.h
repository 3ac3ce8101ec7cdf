//===- Mesh.h - Ranks as points of a grid with axes -----------------------===//
#ifndef CLEAVE_RUNTIME_BASE_MESH_H
#define CLEAVE_RUNTIME_BASE_MESH_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Axes of a mesh by index, major first.
using AxisList = std::vector<uint8_t>;

/// Sizes of the axes; the last axis varies fastest over the ranks. The product
/// of the sizes fits an int.
class Mesh {
public:
  Mesh() = default;
  explicit Mesh(std::vector<int> sizes);

  std::span<const int> getSizes() const { return sizes; }
  int getWorldSize() const { return world; }
  int getCoordinate(int rank, int axis) const {
    return rank / strides[axis] % sizes[axis];
  }
  /// The rank that differs from `rank` on `axis` only, and is `coordinate`
  /// there.
  int moveTo(int rank, int axis, int coordinate) const {
    return rank + (coordinate - getCoordinate(rank, axis)) * strides[axis];
  }
  /// Number of shards over `axes`; 1 where there is none.
  int getShardCount(std::span<const uint8_t> axes) const;
  /// Mixed-radix number of the rank's coordinates on `axes`.
  int getShardIndex(int rank, std::span<const uint8_t> axes) const;
  /// The ranks that differ from `rank` on `axes` only, by shard index.
  std::vector<int> getGroup(int rank, std::span<const uint8_t> axes) const;

private:
  std::vector<int> sizes;
  std::vector<int> strides; ///< ranks between neighbours on an axis
  int world = 1;
};

/// "rank 2", "ranks 0 and 2", "ranks 0, 1, 2, 3, 4, 5, 6 and 61 more": at least
/// one.
std::string listRanks(std::span<const int> ranks);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_MESH_H
