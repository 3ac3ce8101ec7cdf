//===- Dist.cpp - The dist dialect and its verifiers ----------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/dist/Placements.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;

#include "dialects/dist/DistDialect.cpp.inc"
#include "dialects/dist/DistEnums.cpp.inc"

#include "dialects/dist/CollectiveInterface.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/dist/Dist.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/Dist.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// OnAttr
//===----------------------------------------------------------------------===//

static ParseResult parseAxisNames(AsmParser &parser, ArrayAttr &names) {
  SmallVector<Attribute> list;
  auto parseName = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name))
      return failure();
    list.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseName))
    return failure();
  names = ArrayAttr::get(parser.getContext(), list);
  return success();
}

static void printAxisNames(AsmPrinter &printer, ArrayAttr names) {
  printer << "{";
  llvm::interleaveComma(
      names.getAsValueRange<StringAttr>(), printer,
      [&](StringRef name) { printer.printKeywordOrString(name); });
  printer << "}";
}

Attribute OnAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<Attribute> dims;
  ArrayAttr partial = ArrayAttr::get(parser.getContext(), {});
  ReductionKind reduction = ReductionKind::Sum;
  auto parseDim = [&]() -> ParseResult {
    ArrayAttr names;
    if (parseAxisNames(parser, names))
      return failure();
    dims.push_back(names);
    return success();
  };
  if (parser.parseLess() || parser.parseAttribute(mesh) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (succeeded(parser.parseOptionalKeyword("max")))
      reduction = ReductionKind::Max;
    else if (parser.parseKeyword("partial", " or 'max'"))
      return {};
    if (parser.parseEqual() || parseAxisNames(parser, partial))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<OnAttr>(parser.getContext(), mesh,
                                   ArrayAttr::get(parser.getContext(), dims),
                                   partial, reduction);
}

void OnAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", [";
  llvm::interleaveComma(getDims().getAsRange<ArrayAttr>(), printer,
                        [&](ArrayAttr dim) { printAxisNames(printer, dim); });
  printer << "]";
  if (!getPartial().empty()) {
    printer << (getReduction() == ReductionKind::Max ? ", max = "
                                                     : ", partial = ");
    printAxisNames(printer, getPartial());
  }
  printer << ">";
}

LogicalResult OnAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                             FlatSymbolRefAttr, ArrayAttr dims,
                             ArrayAttr partial, ReductionKind) {
  llvm::SmallPtrSet<Attribute, 8> seen;
  auto check = [&](ArrayAttr names) -> LogicalResult {
    for (Attribute name : names)
      if (!seen.insert(name).second)
        return emitError() << "expects each axis once, got " << name
                           << " twice in one placement";
    return success();
  };
  for (auto dim : dims.getAsRange<ArrayAttr>())
    if (failed(check(dim)))
      return failure();
  return check(partial);
}

//===----------------------------------------------------------------------===//
// MeshOp
//===----------------------------------------------------------------------===//

Mesh MeshOp::getMesh() {
  SmallVector<MeshAxis> axes;
  for (auto axis : getAxes().getAsRange<AxisAttr>())
    axes.push_back({axis.getName().str(), axis.getSize()});
  return Mesh(axes);
}

LogicalResult MeshOp::verify() {
  if (llvm::Error error = getMesh().verify())
    return emitOpError(llvm::toString(std::move(error)));
  if (getStageAxis() && !getMesh().getAxisIndex(*getStageAxis()))
    return emitOpError("expects as axis of stages one of ")
           << getMesh().toString() << ", got \"" << *getStageAxis() << "\"";
  return success();
}

Mesh MeshOp::getStageMesh() {
  SmallVector<MeshAxis> axes(getMesh().getAxes());
  for (MeshAxis &axis : axes)
    if (getStageAxis() && axis.name == *getStageAxis())
      axis.size = 1;
  return Mesh(axes);
}

int64_t MeshOp::getNumStages() {
  Mesh mesh = getMesh();
  if (!getStageAxis())
    return 1;
  return mesh.getAxes()[*mesh.getAxisIndex(*getStageAxis())].size;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyMessage(*this, getStage(), getChannel());
}
LogicalResult RecvOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyMessage(*this, getStage(), getChannel());
}

//===----------------------------------------------------------------------===//
// ReshardOp
//===----------------------------------------------------------------------===//

/// Both types have a placement that fits their rank, on one mesh, and are
/// otherwise the same.
static LogicalResult verifyPlacedPair(Operation *op, Type from, Type to) {
  auto source = cast<RankedTensorType>(from);
  auto target = cast<RankedTensorType>(to);
  if (source.getShape() != target.getShape() ||
      source.getElementType() != target.getElementType())
    return op->emitOpError("expects operand and result to have one shape and "
                           "element type");
  OnAttr a = getPlacementAttr(from), b = getPlacementAttr(to);
  if (!a || !b)
    return op->emitOpError("expects a placement on operand and result");
  if (a.getMesh() != b.getMesh())
    return op->emitOpError("expects one mesh, got ")
           << a.getMesh() << " and " << b.getMesh();
  for (OnAttr attr : {a, b})
    if (int64_t(attr.getDims().size()) != source.getRank())
      return op->emitOpError("expects one list of axes for each of ")
             << source.getRank() << " dims, got " << attr;
  return success();
}

LogicalResult ReshardOp::verify() {
  Type from = getInput().getType(), to = getType();
  if (failed(verifyPlacedPair(*this, from, to)))
    return failure();
  OnAttr a = getPlacementAttr(from), b = getPlacementAttr(to);
  for (Attribute axis : b.getPartial())
    if (!llvm::is_contained(a.getPartial(), axis) ||
        a.getReduction() != b.getReduction())
      return emitOpError("cannot make a value partial over axis ") << axis;
  return success();
}

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

namespace {
/// The dims of a collective that change: one grows by the number of ranks, one
/// shrinks by it.
struct ChangedDims {
  std::optional<int64_t> grows, shrinks;
};
} // namespace

static ChangedDims getChangedDims(Operation *op) {
  ChangedDims changed;
  if (auto sharding = dyn_cast<ShardOpInterface>(op))
    for (const Shard &shard : sharding.getShards())
      (shard.value == op->getOperand(0) ? changed.grows : changed.shrinks) =
          shard.dim;
  return changed;
}

/// A shard that is one of several blocks has as much of each.
static LogicalResult verifyBlocks(Operation *op, const Shard &shard) {
  auto type = cast<RankedTensorType>(shard.value.getType());
  int64_t size = type.getDimSize(shard.dim);
  MeshOp meshOp = findMesh(op);
  if (OnAttr placement = getPlacementAttr(type); placement && meshOp) {
    Mesh mesh = meshOp.getMesh();
    auto axes = cast<ArrayAttr>(placement.getDims()[size_t(shard.dim)]);
    // What is wrong with them is said elsewhere.
    for (auto name : axes.getAsValueRange<StringAttr>())
      if (std::optional<Axis> axis = mesh.getAxisIndex(name))
        size /= mesh.getSize(*axis);
  }
  if (shard.blocks < 1 || size % shard.blocks != 0)
    return op->emitOpError("expects blocks of at least 1 that divide ")
           << size << ", the size of a shard along dim " << shard.dim
           << ", got " << shard.blocks;
  return success();
}

/// The shapes of a collective of the local program, as far as they do not
/// depend on the number of ranks.
static LogicalResult verifyLocalShapes(CollectiveOpInterface op) {
  auto source = cast<RankedTensorType>(op->getOperand(0).getType());
  auto target = cast<RankedTensorType>(op->getResult(0).getType());
  if (source.getRank() != target.getRank() ||
      source.getElementType() != target.getElementType())
    return op->emitOpError("expects operand and result to have one rank and "
                           "element type");
  ChangedDims changed = getChangedDims(op);
  for (std::optional<int64_t> dim : {changed.grows, changed.shrinks})
    if (dim && (*dim < 0 || *dim >= source.getRank()))
      return op->emitOpError("expects dim ")
             << *dim << " to be one of " << source.getRank() << " dims";
  if (changed.grows && changed.grows == changed.shrinks)
    return op->emitOpError("expects two dims, got ")
           << *changed.grows << " twice";
  for (int64_t dim = 0; dim < source.getRank(); ++dim)
    if (dim != changed.grows && dim != changed.shrinks &&
        source.getDimSize(dim) != target.getDimSize(dim))
      return op->emitOpError("expects dim ")
             << dim << " to stay of size " << source.getDimSize(dim) << ", got "
             << target.getDimSize(dim);
  return success();
}

LogicalResult dist::verifyGroup(CollectiveOpInterface op) {
  if (failed(verifyAxes(op, op.getAxes())))
    return failure();
  MeshOp meshOp = findMesh(op);
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  if (!meshOp || getPlacementAttr(from) || getPlacementAttr(to))
    return success();
  Mesh mesh = meshOp.getMesh();
  int64_t ranks = mesh.getSize(getAxes(op.getAxes(), mesh));
  auto source = cast<RankedTensorType>(from);
  auto target = cast<RankedTensorType>(to);
  auto expect = [&](std::optional<int64_t> dim, RankedTensorType part,
                    RankedTensorType whole) -> LogicalResult {
    // By a division: sizes are as large as their type allows.
    if (!dim || (whole.getDimSize(*dim) % ranks == 0 &&
                 whole.getDimSize(*dim) / ranks == part.getDimSize(*dim)))
      return success();
    return op->emitOpError("expects dim ")
           << *dim << " of sizes that differ by the " << ranks
           << " ranks of its group, got " << part.getDimSize(*dim) << " and "
           << whole.getDimSize(*dim);
  };
  ChangedDims changed = getChangedDims(op);
  if (failed(expect(changed.grows, source, target)))
    return failure();
  return expect(changed.shrinks, target, source);
}

/// The result has the placement that `op` makes of its operand's.
static LogicalResult verifyPlacements(CollectiveOpInterface op) {
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  if (op.getAxes().empty())
    return op->emitOpError("expects at least one axis");
  if (!getPlacementAttr(from) && !getPlacementAttr(to))
    return verifyLocalShapes(op);
  if (failed(verifyPlacedPair(op, from, to)))
    return failure();
  Mesh mesh = getNominalMesh({from, to});
  for (auto name : op.getAxes().getAsValueRange<StringAttr>())
    if (!mesh.getAxisIndex(name))
      return op->emitOpError("expects axis \"")
             << name << "\" in the placement of its operand or result";
  llvm::Expected<Placement> expected =
      op.applyTo(mesh, getPlacement(getPlacementAttr(from), mesh));
  if (!expected)
    return op->emitOpError(llvm::toString(expected.takeError()));
  if (!(*expected == getPlacement(getPlacementAttr(to), mesh)))
    return op->emitOpError("expects its result under ")
           << expected->toString(mesh) << ", got " << getPlacementAttr(to);
  return success();
}

static LogicalResult verifyCollective(CollectiveOpInterface op) {
  if (failed(verifyPlacements(op)))
    return failure();
  if (auto sharding = dyn_cast<ShardOpInterface>(*op))
    for (const Shard &shard : sharding.getShards())
      if (failed(verifyBlocks(op, shard)))
        return failure();
  return success();
}

static llvm::Error checkDim(int64_t dim, const Placement &placement) {
  if (dim < 0 || dim >= int64_t(placement.dims.size()))
    return llvm::createStringError("expects dim %lld to be one of %zu dims",
                                   (long long)dim, placement.dims.size());
  return llvm::Error::success();
}

/// Takes `axes` from the partial axes of `placement`.
static llvm::Error takePartial(const Mesh &mesh, ArrayRef<Axis> axes,
                               ReductionKind kind, Placement &placement) {
  for (Axis axis : axes) {
    auto it = llvm::find(placement.partial, axis);
    if (it == placement.partial.end())
      return llvm::createStringError("expects an operand that is partial over "
                                     "axis \"%s\"",
                                     mesh.getName(axis).str().c_str());
    placement.partial.erase(it);
  }
  if ((placement.reduction == Reduction::Max) != (kind == ReductionKind::Max))
    return llvm::createStringError("expects the reduction of its operand");
  if (placement.partial.empty())
    placement.reduction = Reduction::Sum;
  return llvm::Error::success();
}

/// Takes `axes` from the minor end of a dim's list.
static llvm::Error takeSuffix(const Mesh &mesh, ArrayRef<Axis> axes,
                              int64_t dim, Placement &placement) {
  if (llvm::Error error = checkDim(dim, placement))
    return error;
  AxisList &list = placement.dims[dim];
  if (list.size() < axes.size() ||
      !llvm::equal(ArrayRef(list).take_back(axes.size()), axes))
    return llvm::createStringError(
        "expects dim %lld to be split by %s last, got %s", (long long)dim,
        mesh.toString(axes).c_str(), mesh.toString(list).c_str());
  list.truncate(list.size() - axes.size());
  return llvm::Error::success();
}

/// Adds `axes` at the minor end of a dim's list.
static llvm::Error addSuffix(const Mesh &mesh, ArrayRef<Axis> axes, int64_t dim,
                             Placement &placement) {
  if (llvm::Error error = checkDim(dim, placement))
    return error;
  for (Axis axis : axes)
    if (!placement.isCopiedAlong(axis))
      return llvm::createStringError(
          "expects an operand that has copies along axis \"%s\"",
          mesh.getName(axis).str().c_str());
  placement.dims[dim].append(axes.begin(), axes.end());
  return llvm::Error::success();
}

llvm::Expected<Placement> AllReduceOp::applyTo(const Mesh &mesh,
                                               const Placement &from) {
  Placement to = from;
  AxisList axes = dist::getAxes(getAxes(), mesh);
  if (llvm::Error error = takePartial(mesh, axes, getReduction(), to))
    return error;
  return to;
}

llvm::Expected<Placement> ReduceScatterOp::applyTo(const Mesh &mesh,
                                                   const Placement &from) {
  Placement to = from;
  AxisList axes = dist::getAxes(getAxes(), mesh);
  if (llvm::Error error = takePartial(mesh, axes, getReduction(), to))
    return error;
  if (llvm::Error error = addSuffix(mesh, axes, getDim(), to))
    return error;
  return to;
}

llvm::Expected<Placement> AllGatherOp::applyTo(const Mesh &mesh,
                                               const Placement &from) {
  Placement to = from;
  if (llvm::Error error =
          takeSuffix(mesh, dist::getAxes(getAxes(), mesh), getDim(), to))
    return error;
  return to;
}

llvm::Expected<Placement> AllToAllOp::applyTo(const Mesh &mesh,
                                              const Placement &from) {
  Placement to = from;
  AxisList axes = dist::getAxes(getAxes(), mesh);
  if (llvm::Error error = takeSuffix(mesh, axes, getDim(), to))
    return error;
  if (llvm::Error error = addSuffix(mesh, axes, getSplitDim(), to))
    return error;
  return to;
}

llvm::Expected<Placement> SliceOp::applyTo(const Mesh &mesh,
                                           const Placement &from) {
  Placement to = from;
  if (llvm::Error error =
          addSuffix(mesh, dist::getAxes(getAxes(), mesh), getDim(), to))
    return error;
  return to;
}

LogicalResult AllReduceOp::verify() { return verifyCollective(*this); }
LogicalResult ReduceScatterOp::verify() { return verifyCollective(*this); }
LogicalResult AllGatherOp::verify() { return verifyCollective(*this); }
LogicalResult AllToAllOp::verify() { return verifyCollective(*this); }
LogicalResult SliceOp::verify() { return verifyCollective(*this); }
