//===- XfState.cpp - Verifiers of state and of the step's shape -----------===//
#include "dialects/dist/Placements.h"
#include "dialects/xf/Parameters.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

LogicalResult InitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               InitKind kind, FloatAttr,
                               DenseElementsAttr table) {
  bool rope = kind == InitKind::RopeCos || kind == InitKind::RopeSin;
  if (rope != bool(table))
    return emitError() << "expects " << (rope ? "a" : "no")
                       << " table of frequencies";
  if (table && !table.getElementType().isF32())
    return emitError() << "expects frequencies of f32, got "
                       << table.getElementType();
  return success();
}

LogicalResult PieceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringRef, ArrayRef<int64_t> shape,
                                ArrayRef<int64_t> view,
                                ArrayRef<int64_t> starts,
                                ArrayRef<int64_t> sizes,
                                ArrayRef<int64_t> drop) {
  int64_t elements = llvm::product_of(shape);
  if (llvm::product_of(view) != elements)
    return emitError() << "expects a view of " << elements << " elements, got "
                       << llvm::product_of(view);
  if (starts.size() != view.size() || sizes.size() != view.size())
    return emitError() << "expects " << view.size() << " starts and sizes, got "
                       << starts.size() << " and " << sizes.size();
  for (auto [i, start, size] : llvm::enumerate(starts, sizes))
    if (start < 0 || size < 1 || start > view[i] - size)
      return emitError() << "expects dim " << i << " of the box in [0, "
                         << view[i] << "), got [" << start << ", "
                         << start + size << ")";
  int64_t last = -1;
  for (int64_t dim : drop) {
    if (dim <= last || dim >= int64_t(view.size()) || sizes[dim] != 1)
      return emitError() << "expects to drop ascending dims of size 1, got "
                         << dim;
    last = dim;
  }
  return success();
}

LogicalResult StateOp::verify() {
  ArrayRef<int64_t> shape = getTensorType().getShape();
  ArrayRef<int64_t> logical = getLogicalShape();
  if (logical.size() != shape.size())
    return emitOpError("expects a logical shape of ")
           << shape.size() << " dims, got " << logical.size();
  for (auto [i, size] : llvm::enumerate(logical))
    if (size < 1 || size > shape[i])
      return emitOpError("expects logical dim ")
             << i << " to be between 1 and " << shape[i] << ", got " << size;
  if (getDims() && getDims()->size() != shape.size())
    return emitOpError("expects ")
           << shape.size() << " names of dims, got " << getDims()->size();
  if (auto rows = getRows(); rows && (*rows < 1 || *rows >= shape.size()))
    return emitOpError("expects some of the ")
           << shape.size() << " dims as rows and some as columns, got rows of "
           << int64_t(*rows);
  return success();
}

static LogicalResult verifyStateUse(Operation *op, SymbolTableCollection &table,
                                    FlatSymbolRefAttr name, Type type) {
  auto state = table.lookupNearestSymbolFrom<StateOp>(op, name);
  if (!state)
    return op->emitOpError("expects a state named ") << name;
  if (state.getType() == type)
    return success();
  // In the local program a use sees this rank's shard.
  dist::OnAttr placement = dist::getPlacementAttr(state.getType());
  dist::MeshOp meshOp = dist::findMesh(op);
  if (placement && meshOp && !dist::getPlacementAttr(type)) {
    if (failed(dist::verifyPlacedIfAny(op, state.getType())))
      return failure();
    Mesh mesh = meshOp.getMesh();
    auto local = RankedTensorType::get(
        dist::getPlacement(placement, mesh)
            .getLocalShape(mesh, state.getTensorType().getShape()),
        state.getTensorType().getElementType());
    if (local == type)
      return success();
    InFlightDiagnostic error =
        op->emitOpError("expects this rank's shard of the state, ")
        << local << ", got " << type;
    error.attachNote(state.getLoc()) << "state declared here";
    return error;
  }
  InFlightDiagnostic error = op->emitOpError("expects the state's type ")
                             << state.getType() << ", got " << type;
  error.attachNote(state.getLoc()) << "state declared here";
  return error;
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &table) {
  if (failed(dist::verifyPlacedIfAny(*this, getType())))
    return failure();
  if ((getRole() == StateRole::Copy) != bool(getOf()))
    return emitOpError("expects a copy to say of what, and nothing else to");
  if (!getOf())
    return success();
  auto parameter = table.lookupNearestSymbolFrom<StateOp>(*this, getOfAttr());
  if (!parameter || parameter.getRole() != StateRole::Parameter)
    return emitOpError("expects a parameter named ") << getOfAttr();
  RankedTensorType type = getTensorType(), whole = parameter.getTensorType();
  if (type.clone(whole.getElementType()) == whole &&
      getLogicalShape() == parameter.getLogicalShape() &&
      type.getElementTypeBitWidth() < whole.getElementTypeBitWidth())
    return success();
  InFlightDiagnostic error =
      emitOpError("expects the shape and placement of the parameter, and a "
                  "type with fewer bits than ")
      << whole << ", got " << type;
  error.attachNote(parameter.getLoc()) << "parameter declared here";
  return error;
}

/// Whether the ranks hold candidates for a maximum.
static bool isPartialByMax(Type type) {
  dist::OnAttr on = dist::getPlacementAttr(type);
  return on && !on.getPartial().empty() &&
         on.getReduction() == dist::ReductionKind::Max;
}

LogicalResult OutputOp::verify() {
  if (isPartialByMax(getValue().getType()))
    return emitOpError("expects a value that is whole or partial by sum, got ")
           << getValue().getType();
  auto type = cast<RankedTensorType>(getValue().getType());
  if (getLogical() && int64_t(getLogical()->size()) != type.getRank())
    return emitOpError("expects a logical shape of rank ")
           << type.getRank() << ", got [" << *getLogical() << "]";
  return success();
}

LogicalResult OutputOp::verifySymbolUses(SymbolTableCollection &table) {
  if (!getState())
    return success();
  auto state = table.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr());
  if (!state)
    return emitOpError("expects a state named ") << getStateAttr();
  // The local program keeps the global type beside the shard.
  auto type = cast<RankedTensorType>(getValue().getType());
  if (auto global = (*this)->getAttrOfType<TypeAttr>("global"))
    if (auto tensor = dyn_cast<RankedTensorType>(global.getValue()))
      type = tensor;
  if (type.getShape() == state.getTensorType().getShape())
    return success();
  InFlightDiagnostic error = emitOpError("expects the shape of its state ")
                             << state.getType() << ", got " << type;
  error.attachNote(state.getLoc()) << "state declared here";
  return error;
}

LogicalResult GetOp::verifySymbolUses(SymbolTableCollection &table) {
  return verifyStateUse(*this, table, getStateAttr(), getType());
}

LogicalResult SetOp::verifySymbolUses(SymbolTableCollection &table) {
  return verifyStateUse(*this, table, getStateAttr(), getValue().getType());
}

/// The type of one micro-batch's slice of an input.
static RankedTensorType getSliceType(RankedTensorType type) {
  Attribute encoding = type.getEncoding();
  if (auto on = dyn_cast_or_null<dist::OnAttr>(encoding)) {
    auto dims =
        ArrayAttr::get(type.getContext(), on.getDims().getValue().drop_front());
    encoding = dist::OnAttr::get(type.getContext(), on.getMesh(), dims,
                                 on.getPartial(), on.getReduction());
  }
  return RankedTensorType::get(type.getShape().drop_front(),
                               type.getElementType(), encoding);
}

/// The place in the order of each segment's run for each micro-batch.
static FailureOr<std::vector<std::vector<int64_t>>> getPlaces(AccumulateOp op) {
  ArrayRef<int64_t> order = op.getOrder().value_or(ArrayRef<int64_t>());
  size_t segments = op.getSegments()->size(), count = op.getCount();
  // By divisions: a count is as large as its type allows.
  bool isWhole = segments == 0 ? order.empty()
                               : order.size() % (2 * segments) == 0 &&
                                     order.size() / (2 * segments) == count;
  if (!isWhole)
    return op.emitOpError("expects an order of one run of each of its ")
           << segments << " segments for each of its " << count
           << " micro-batches";
  std::vector<std::vector<int64_t>> places(segments,
                                           std::vector<int64_t>(count, -1));
  for (size_t i = 0; i < order.size(); i += 2) {
    int64_t segment = order[i], microBatch = order[i + 1];
    if (segment < 0 || size_t(segment) >= segments || microBatch < 0 ||
        size_t(microBatch) >= count)
      return op.emitOpError("expects runs of its segments for its "
                            "micro-batches, got ")
             << segment << ", " << microBatch;
    if (places[segment][microBatch] >= 0)
      return op.emitOpError("runs segment ")
             << segment << " twice for micro-batch " << microBatch;
    places[segment][microBatch] = int64_t(i / 2);
  }
  return places;
}

/// Each op is in a segment, and what it uses was computed before, in whatever
/// order the segments run.
static LogicalResult verifySegments(AccumulateOp op) {
  if (!op.getSegments() && op.getOrder())
    return op.emitOpError("expects the segments that its order runs");
  if (!op.getSegments())
    return success();
  auto places = getPlaces(op);
  if (failed(places))
    return failure();
  auto getFirst = [&](int64_t segment) {
    return *llvm::min_element((*places)[segment]);
  };
  for (Operation &each : op.getBody().front().without_terminator()) {
    std::optional<int64_t> segment = AccumulateOp::getSegment(&each);
    if (!segment || *segment < 0 || *segment >= int64_t(places->size()))
      return each.emitOpError("expects ")
             << AccumulateOp::segmentName << ", one of "
             << int64_t(places->size()) << " segments";
  }
  llvm::DenseSet<std::pair<int64_t, int64_t>> checked;
  int64_t last = -1;
  for (Operation &each : op.getBody().front().without_terminator()) {
    std::optional<int64_t> segment = AccumulateOp::getSegment(&each);
    if (getFirst(*segment) < last)
      return each.emitOpError("expects to stand with the others of its "
                              "segment, in the order of their first runs");
    last = getFirst(*segment);
    for (Value operand : each.getOperands()) {
      Operation *from = operand.getDefiningOp();
      if (!from || from->getBlock() != each.getBlock())
        continue;
      int64_t earlier = *AccumulateOp::getSegment(from);
      if (earlier == *segment || !checked.insert({earlier, *segment}).second)
        continue;
      for (auto [before, after] :
           llvm::zip((*places)[earlier], (*places)[*segment]))
        if (before > after)
          return each.emitOpError("uses a value of segment ")
                 << earlier << ", which the order runs after it";
    }
  }
  return success();
}

std::optional<int64_t> AccumulateOp::getSegment(Operation *op) {
  auto attr = op->getAttrOfType<IntegerAttr>(segmentName);
  return attr ? std::optional<int64_t>(attr.getInt()) : std::nullopt;
}

LogicalResult AccumulateOp::verify() {
  if (int64_t(getCount()) < 1)
    return emitOpError("expects a count of at least 1, got ")
           << int64_t(getCount());
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("expects ")
           << getInputs().size() << " block arguments, one per input, got "
           << block.getNumArguments();
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    auto type = cast<RankedTensorType>(input.getType());
    if (type.getRank() < 1 || type.getDimSize(0) != int64_t(getCount()))
      return emitOpError("expects dim 0 of input ")
             << i << " to be the count, " << getCount();
    if (auto on = dist::getPlacementAttr(type))
      if (!cast<ArrayAttr>(on.getDims()[0]).empty())
        return emitOpError("expects dim 0 of input ")
               << i << " not to be split";
    if (block.getArgument(i).getType() != getSliceType(type))
      return emitOpError("expects block argument ")
             << i << " of type " << getSliceType(type) << ", got "
             << block.getArgument(i).getType();
  }
  auto yield = cast<YieldOp>(block.getTerminator());
  if (yield.getOperandTypes() != getResultTypes())
    return emitOpError("expects to yield values of its result types");
  for (auto [i, type] : llvm::enumerate(getResultTypes()))
    if (isPartialByMax(type))
      return emitOpError("expects result ")
             << i << " to be whole or partial by sum, got " << type;
  return success();
}

LogicalResult AccumulateOp::verifyRegions() { return verifySegments(*this); }

/// What an `xf.accumulate` without values ends in.
void YieldOp::build(OpBuilder &, OperationState &) {}

StateOp xf::getRoundedParameter(CastOpInterface op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return {};
  auto get = op->getOperand(0).getDefiningOp<GetOp>();
  if (!get)
    return {};
  auto state =
      SymbolTable::lookupNearestSymbolFrom<StateOp>(op, get.getStateAttr());
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  RankedTensorType whole = state.getTensorType();
  bool isRounded =
      type.clone(whole.getElementType()) == whole &&
      type.getElementTypeBitWidth() < whole.getElementTypeBitWidth();
  return isRounded && state.getRole() == StateRole::Parameter ? state
                                                              : StateOp();
}
