//===- Placements.cpp - Between tensor encodings and lib's placements -----===//
#include "dialects/dist/Placements.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;

OnAttr dist::getPlacementAttr(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<OnAttr>(tensor.getEncoding()) : OnAttr();
}

AxisList dist::getAxes(ArrayAttr names, const Mesh &mesh) {
  AxisList axes;
  for (auto name : names.getAsValueRange<StringAttr>()) {
    std::optional<Axis> axis = mesh.getAxisIndex(name);
    // Verifiers have checked the names. An axis by another number would be a
    // wrong result without a word, so this is checked in every build.
    if (!axis)
      llvm::report_fatal_error("the mesh " + llvm::Twine(mesh.toString()) +
                               " has no axis \"" + name + "\"");
    axes.push_back(*axis);
  }
  return axes;
}

ArrayAttr dist::getAxesAttr(MLIRContext *context, const Mesh &mesh,
                            ArrayRef<Axis> axes) {
  SmallVector<Attribute> names;
  for (Axis axis : axes)
    names.push_back(StringAttr::get(context, mesh.getName(axis)));
  return ArrayAttr::get(context, names);
}

Placement dist::getPlacement(OnAttr attr, const Mesh &mesh) {
  Placement placement;
  for (auto dim : attr.getDims().getAsRange<ArrayAttr>())
    placement.dims.push_back(getAxes(dim, mesh));
  placement.partial = getAxes(attr.getPartial(), mesh);
  llvm::sort(placement.partial);
  placement.reduction = attr.getReduction() == ReductionKind::Max
                            ? Reduction::Max
                            : Reduction::Sum;
  return placement;
}

OnAttr dist::getPlacementAttr(FlatSymbolRefAttr name, const Mesh &mesh,
                              const Placement &placement) {
  MLIRContext *context = name.getContext();
  SmallVector<Attribute> dims;
  for (const AxisList &dim : placement.dims)
    dims.push_back(getAxesAttr(context, mesh, dim));
  bool max = placement.isPartial() && placement.reduction == Reduction::Max;
  return OnAttr::get(context, name, ArrayAttr::get(context, dims),
                     getAxesAttr(context, mesh, placement.partial),
                     max ? ReductionKind::Max : ReductionKind::Sum);
}

RankedTensorType dist::withPlacement(RankedTensorType type, OnAttr attr) {
  return RankedTensorType::get(type.getShape(), type.getElementType(), attr);
}

RankedTensorType dist::withLeadingDim(RankedTensorType type, int64_t size) {
  SmallVector<int64_t> shape{size};
  llvm::append_range(shape, type.getShape());
  Attribute encoding = type.getEncoding();
  if (OnAttr attr = getPlacementAttr(type)) {
    MLIRContext *context = type.getContext();
    SmallVector<Attribute> dims{ArrayAttr::get(context, {})};
    llvm::append_range(dims, attr.getDims());
    encoding =
        OnAttr::get(context, attr.getMesh(), ArrayAttr::get(context, dims),
                    attr.getPartial(), attr.getReduction());
  }
  return RankedTensorType::get(shape, type.getElementType(), encoding);
}

/// Checks that the mesh has the axes; emits an error at `op`.
static LogicalResult verifyNames(Operation *op, ArrayAttr names,
                                 const Mesh &mesh) {
  for (auto axis : names.getAsValueRange<StringAttr>())
    if (!mesh.getAxisIndex(axis))
      return op->emitOpError("expects axes of ")
             << mesh.toString() << ", got \"" << axis << "\"";
  return success();
}

LogicalResult dist::verifyPlaced(Operation *op, Type type, StringRef name,
                                 const Mesh &mesh) {
  OnAttr attr = getPlacementAttr(type);
  if (!attr)
    return op->emitOpError("expects a placement on ") << type;
  if (attr.getMesh().getValue() != name)
    return op->emitOpError("expects the mesh @")
           << name << ", got " << attr.getMesh();
  for (auto dim : attr.getDims().getAsRange<ArrayAttr>())
    if (failed(verifyNames(op, dim, mesh)))
      return failure();
  if (failed(verifyNames(op, attr.getPartial(), mesh)))
    return failure();
  Placement placement = getPlacement(attr, mesh);
  if (llvm::Error error =
          placement.verify(mesh, cast<RankedTensorType>(type).getShape()))
    return op->emitOpError(llvm::toString(std::move(error)));
  return success();
}

Mesh dist::getNominalMesh(TypeRange types) {
  SmallVector<MeshAxis> axes;
  auto add = [&](ArrayAttr names) {
    for (auto name : names.getAsValueRange<StringAttr>())
      if (llvm::none_of(axes, [&](auto &axis) { return axis.name == name; }))
        axes.push_back({name.str(), 1});
  };
  for (Type type : types)
    if (OnAttr attr = getPlacementAttr(type)) {
      for (auto dim : attr.getDims().getAsRange<ArrayAttr>())
        add(dim);
      add(attr.getPartial());
    }
  return Mesh(axes);
}

MeshOp dist::createMesh(ModuleOp module, const Mesh &mesh,
                        std::optional<Axis> stages) {
  OpBuilder b(module.getBodyRegion());
  SmallVector<Attribute> axes;
  for (const MeshAxis &axis : mesh.getAxes())
    axes.push_back(AxisAttr::get(b.getContext(), axis.name, axis.size));
  auto created =
      MeshOp::create(b, module.getLoc(), "mesh", b.getArrayAttr(axes));
  if (stages)
    created.setStageAxis(mesh.getName(*stages));
  return created;
}

MeshOp dist::lookupMesh(Operation *module) {
  auto meshes = module->getRegion(0).getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

MeshOp dist::findMesh(Operation *op) {
  Operation *table = SymbolTable::getNearestSymbolTable(op);
  return table ? lookupMesh(table) : MeshOp();
}

LogicalResult dist::verifyAxes(Operation *op, ArrayAttr names) {
  llvm::SmallPtrSet<Attribute, 8> seen;
  for (Attribute name : names)
    if (!seen.insert(name).second)
      return op->emitOpError("expects each axis once, got ")
             << name << " twice";
  MeshOp mesh = findMesh(op);
  return mesh ? verifyNames(op, names, mesh.getMesh()) : success();
}

LogicalResult dist::verifyPlacedIfAny(Operation *op, Type type) {
  MeshOp mesh = findMesh(op);
  if (!mesh || !getPlacementAttr(type))
    return success();
  return verifyPlaced(op, type, mesh.getSymName(), mesh.getMesh());
}

LogicalResult dist::verifyMessage(Operation *op, int64_t stage,
                                  int64_t channel) {
  MeshOp mesh = findMesh(op);
  if (stage < 0)
    return op->emitOpError("expects a stage of at least 0, got ") << stage;
  if (mesh && stage >= mesh.getNumStages())
    return op->emitOpError("expects a stage below ")
           << mesh.getNumStages() << ", got " << stage;
  if (channel < 0)
    return op->emitOpError("expects a channel of at least 0, got ") << channel;
  return success();
}
