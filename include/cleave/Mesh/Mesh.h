//===- Mesh.h - Ranks arranged along named axes ---------------------------===//
#ifndef CLEAVE_MESH_MESH_H
#define CLEAVE_MESH_MESH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave {

/// An axis of a mesh, by its position in the mesh.
using Axis = unsigned;
/// Axes of one mesh. Where order matters, major first.
using AxisList = llvm::SmallVector<Axis, 2>;

struct MeshAxis {
  std::string name;
  int64_t size = 1;

  bool operator==(const MeshAxis &) const = default;
};

/// Ranks 0 .. getNumRanks() - 1 as the points of a grid with named axes. The
/// last axis varies fastest: its neighbours are neighbouring ranks.
/// E.g. on ["dp"=2, "tp"=4] rank 6 has the coordinates (1, 2).
class Mesh {
public:
  Mesh() = default;
  /// The axes are as `verify` wants them where a mesh is used.
  explicit Mesh(llvm::ArrayRef<MeshAxis> axes) : axes(axes) {}

  /// Fails on an empty or repeated name, a size below 1, or more than 2^31 - 1
  /// ranks.
  llvm::Error verify() const;

  /// Reads `dp=2,tp=4`, as `getText` writes it, and verifies it.
  static llvm::Expected<Mesh> parse(llvm::StringRef text);
  std::string getText() const;

  llvm::ArrayRef<MeshAxis> getAxes() const { return axes; }
  unsigned getNumAxes() const { return axes.size(); }
  llvm::StringRef getName(Axis axis) const { return axes[axis].name; }
  int64_t getSize(Axis axis) const { return axes[axis].size; }
  /// Product of the sizes; 1 for no axes.
  int64_t getSize(llvm::ArrayRef<Axis> list) const;
  int64_t getNumRanks() const;

  std::optional<Axis> getAxisIndex(llvm::StringRef name) const;

  /// One coordinate for each axis of the mesh.
  llvm::SmallVector<int64_t, 4> getCoordinates(int64_t rank) const;
  int64_t getCoordinate(int64_t rank, Axis axis) const;

  /// The coordinates of `rank` along `list` as one number in mixed radix,
  /// major first: in [0, getSize(list)).
  int64_t getShardIndex(int64_t rank, llvm::ArrayRef<Axis> list) const;

  /// The ranks that differ from `rank` only along `list`, itself included, in
  /// the order of their shard index.
  llvm::SmallVector<int64_t, 8> getGroup(int64_t rank,
                                         llvm::ArrayRef<Axis> list) const;

  /// `{dp, tp}`
  std::string toString(llvm::ArrayRef<Axis> list) const;
  /// `["dp"=4, "tp"=8]`
  std::string toString() const;

  bool operator==(const Mesh &) const = default;

private:
  /// Ranks between neighbours along `axis`.
  int64_t getStride(Axis axis) const;

  llvm::SmallVector<MeshAxis, 4> axes;
};

} // namespace cleave

#endif // CLEAVE_MESH_MESH_H
