//===- Placement.h - Where the parts of a tensor live ---------------------===//
#ifndef CLEAVE_PLACEMENT_PLACEMENT_H
#define CLEAVE_PLACEMENT_PLACEMENT_H

#include "cleave/Mesh/Mesh.h"
#include "llvm/ADT/Hashing.h"

namespace cleave {

/// How the addends of a partial value combine into the value.
enum class Reduction { Sum, Max };

/// Where the parts of a tensor live on a mesh. A rank holds, of each dim, the
/// shard numbered by its shard index along the dim's axes (major first: `{a,
/// b}` cuts by `a`, then each piece by `b`). Along `partial` axes the ranks
/// hold addends of the value, not the value. Along any other axis they hold
/// copies.
struct Placement {
  /// One list for each dim; empty where the dim is whole.
  llvm::SmallVector<AxisList, 4> dims;
  /// Ascending.
  AxisList partial;
  /// Means something only where `partial` is not empty.
  Reduction reduction = Reduction::Sum;

  Placement() = default;
  Placement(llvm::ArrayRef<AxisList> dims, llvm::ArrayRef<Axis> partial,
            Reduction reduction = Reduction::Sum);
  /// A copy of the whole tensor on every rank.
  static Placement getReplicated(unsigned rank);

  bool isReplicated() const;
  bool isPartial() const { return !partial.empty(); }
  /// True if `axis` splits a dim.
  bool isSplitBy(Axis axis) const;
  bool isPartialOver(Axis axis) const;
  /// Whether ranks that differ along `axis` only hold the same.
  bool isCopiedAlong(Axis axis) const {
    return !isSplitBy(axis) && !isPartialOver(axis);
  }

  bool operator==(const Placement &other) const;

  /// Checks this as the placement of a tensor of the given global shape: as
  /// many dims, axes of the mesh, each used once, dims that divide.
  llvm::Error verify(const Mesh &mesh, llvm::ArrayRef<int64_t> shape) const;

  /// Shape of a rank's shard; the placement must verify.
  llvm::SmallVector<int64_t, 4>
  getLocalShape(const Mesh &mesh, llvm::ArrayRef<int64_t> shape) const;

  /// Where the shard of `rank` starts in the tensor; the placement must verify.
  llvm::SmallVector<int64_t, 4> getLocalOffsets(const Mesh &mesh,
                                                llvm::ArrayRef<int64_t> shape,
                                                int64_t rank) const;

  /// `[{dp}, {}, {tp}]`, `[{dp}] partial={tp}` or `[{dp}] partial=max{tp}`.
  std::string toString(const Mesh &mesh) const;

  /// Reads what toString writes. Fails on an unknown axis or a wrong form, and
  /// names it; whether the placement fits a shape is for `verify`.
  static llvm::Expected<Placement> parse(const Mesh &mesh,
                                         llvm::StringRef text);
};

/// Found by this name by llvm::hash_combine.
// NOLINTNEXTLINE(readability-identifier-naming)
llvm::hash_code hash_value(const Placement &placement);

} // namespace cleave

#endif // CLEAVE_PLACEMENT_PLACEMENT_H
