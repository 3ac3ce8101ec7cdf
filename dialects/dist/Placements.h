//===- Placements.h - Between tensor encodings and lib's placements -------===//
#ifndef CLEAVE_DIALECTS_DIST_PLACEMENTS_H
#define CLEAVE_DIALECTS_DIST_PLACEMENTS_H

#include "dialects/dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::dist {

/// The attribute, of an op without a sharding rule, by which a person says that
/// every rank is to do it whole.
constexpr llvm::StringLiteral replicateName = "dist.replicate";

/// The placement of a tensor type, null if it has none.
OnAttr getPlacementAttr(mlir::Type type);

/// The placement with axes as indices into `mesh`, which must have them all.
Placement getPlacement(OnAttr attr, const Mesh &mesh);

/// The same as an attribute.
OnAttr getPlacementAttr(mlir::FlatSymbolRefAttr name, const Mesh &mesh,
                        const Placement &placement);

/// `type` under another placement.
mlir::RankedTensorType withPlacement(mlir::RankedTensorType type, OnAttr attr);

/// `type` with a first dim of `size`, which no axis splits.
mlir::RankedTensorType withLeadingDim(mlir::RankedTensorType type,
                                      int64_t size);

/// Checks that a tensor type is placed on `mesh`, called `name`: its axes are
/// the mesh's and divide its dims. Emits an error at `op`.
mlir::LogicalResult verifyPlaced(mlir::Operation *op, mlir::Type type,
                                 llvm::StringRef name, const Mesh &mesh);

/// A mesh of the axes that these types name, each of size 1: enough to check
/// an op on its own, where sizes do not matter.
Mesh getNominalMesh(mlir::TypeRange types);

/// Axis names as an attribute, and back. `mesh` must have every one of them.
mlir::ArrayAttr getAxesAttr(mlir::MLIRContext *context, const Mesh &mesh,
                            llvm::ArrayRef<Axis> axes);
AxisList getAxes(mlir::ArrayAttr names, const Mesh &mesh);

/// The one mesh of a module; null if there is none.
MeshOp lookupMesh(mlir::Operation *module);

/// Gives a module the mesh `mesh`, called "mesh"; `stages`: its axis of
/// pipeline stages, if it has one.
MeshOp createMesh(mlir::ModuleOp module, const Mesh &mesh,
                  std::optional<Axis> stages);

/// The mesh of the module around `op`; null if there is none.
MeshOp findMesh(mlir::Operation *op);

/// Checks that `names` are distinct axes of the mesh around `op`, if there is
/// one: an op may be looked at alone.
mlir::LogicalResult verifyAxes(mlir::Operation *op, mlir::ArrayAttr names);

/// Checks that `type` is placed on the mesh around `op`, if it has a placement
/// and there is a mesh.
mlir::LogicalResult verifyPlacedIfAny(mlir::Operation *op, mlir::Type type);

/// Checks that a message goes over a channel, to or from a stage that the mesh
/// around `op` has, if there is one.
mlir::LogicalResult verifyMessage(mlir::Operation *op, int64_t stage,
                                  int64_t channel);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_PLACEMENTS_H
