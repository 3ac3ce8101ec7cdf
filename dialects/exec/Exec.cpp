//===- Exec.cpp - The exec dialect and its verifiers ----------------------===//
#include "dialects/exec/Exec.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Work.h"
#include "mlir/IR/DialectImplementation.h"
#include "runtime/program/Limits.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

#include "dialects/exec/ExecDialect.cpp.inc"
#include "dialects/exec/ExecEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttrs.cpp.inc"

#include "dialects/exec/InstructionInterface.cpp.inc"

/// A kernel's body, whose names are its own. As `$body` it would share them
/// with kernels beside it: one that uses a name of another, whose body then
/// turns out to be wrong and is thrown away, would be left with a use of what
/// is gone.
static ParseResult parseKernelBody(OpAsmParser &parser, Region &body) {
  if (parser.parseRegion(body, /*arguments=*/{}, /*enableNameShadowing=*/true))
    return failure();
  if (body.empty())
    body.emplaceBlock();
  return success();
}

static void printKernelBody(OpAsmPrinter &printer, Operation *, Region &body) {
  printer.printRegion(body);
}

/// As the kernel of a launch says, if there is one.
static Accumulate getKernelAccumulation(exec::LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<exec::KernelOp>(
      launch, launch.getKernelAttr());
  return kernel ? kernel.getAccumulate() : Accumulate::Never;
}

#define GET_OP_CLASSES
#include "dialects/exec/Exec.cpp.inc"

void ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/exec/ExecTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/exec/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/Exec.cpp.inc"
      >();
}

LogicalResult OrderAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t stream, int64_t event,
                                ArrayRef<int64_t> waits, bool) {
  constexpr int64_t most = runtime::limits::streams;
  if (stream < 0 || stream >= most)
    return emitError() << "expects a stream of 0 to " << most - 1 << ", got "
                       << stream;
  if (event < 0 || event > maxEvent)
    return emitError() << "expects an event of 0 to " << maxEvent << ", got "
                       << event;
  for (int64_t wait : waits)
    if (wait < 1 || wait > maxEvent)
      return emitError() << "expects to wait for events of 1 to " << maxEvent
                         << ", got " << wait;
  return success();
}

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (attribute.getName() != orderName)
    return op->emitOpError("has an attribute ")
           << attribute.getName() << ", which exec does not have";
  if (!isa<OrderAttr>(attribute.getValue()))
    return op->emitOpError("expects ")
           << orderName << " to be an #exec.order, got "
           << attribute.getValue();
  if (!isa<InstructionOpInterface>(op))
    return op->emitOpError("is no instruction, and has ") << orderName;
  if (cast<OrderAttr>(attribute.getValue()).getWithNext() &&
      !runtime::isBucketed(getOpcode(op).value_or(program::Opcode::NONE)))
    return op->emitOpError("begins together with the next instruction, expects "
                           "an all_reduce, all_gather or reduce_scatter");
  return success();
}

OrderAttr cleave::exec::getOrder(Operation *op) {
  if (auto order = op->getAttrOfType<OrderAttr>(orderName))
    return order;
  return OrderAttr::get(op->getContext(), 0, 0, {});
}

void cleave::exec::setOrder(Operation *op, OrderAttr order) {
  if (order.getStream() == 0 && order.getEvent() == 0 &&
      order.getWaits().empty() && !order.getWithNext())
    op->removeAttr(orderName);
  else
    op->setAttr(orderName, order);
}

BufferOp cleave::exec::getBuffer(Value value) {
  if (auto view = value.getDefiningOp<ViewOp>())
    value = view.getBuffer();
  return value.getDefiningOp<BufferOp>();
}

int64_t cleave::exec::getBytes(Value value) {
  if (auto view = value.getDefiningOp<ViewOp>())
    return int64_t(view.getBytes());
  return int64_t(value.getDefiningOp<BufferOp>().getBytes());
}

/// Each event is recorded by one instruction, and what is waited for by one.
static LogicalResult verifyEvents(ProgramOp program) {
  llvm::DenseMap<int64_t, Operation *> recorders;
  WalkResult walk = program.walk([&](InstructionOpInterface op) {
    int64_t event = getOrder(op).getEvent();
    if (event == 0)
      return WalkResult::advance();
    auto [it, isFirst] = recorders.try_emplace(event, op);
    if (isFirst)
      return WalkResult::advance();
    InFlightDiagnostic error = op->emitOpError("records event ") << event;
    error.attachNote(it->second->getLoc()) << "which this records, too";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  walk = program.walk([&](InstructionOpInterface op) {
    for (int64_t event : getOrder(op).getWaits())
      if (!recorders.contains(event)) {
        op->emitOpError("waits for event ")
            << event << ", which no instruction of its program records";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// The scalar type a kernel body sees for a stored element type.
static Type getComputeType(Type stored) {
  return isa<FloatType>(stored) ? Float32Type::get(stored.getContext())
                                : stored;
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError("expects its body to end in exec.yield");
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("expects ")
           << getInputs().size() << " block arguments, one per input, got "
           << block.getNumArguments();
  if (yield.getNumOperands() != getOutputs().size())
    return emitOpError("expects ")
           << getOutputs().size() << " yielded values, one per output, got "
           << yield.getNumOperands();

  auto check = [&](AccessAttr access, Type seen, const char *what,
                   size_t i) -> LogicalResult {
    if (seen != getComputeType(access.getType()))
      return emitOpError("expects ")
             << what << " " << i << " to be "
             << getComputeType(access.getType()) << ", got " << seen;
    if (access.getColStride() < 0 || access.getColStride() > 1)
      return emitOpError("expects the colStride of ")
             << what << " " << i << " to be 0 or 1, got "
             << access.getColStride();
    if (access.getRowDiv() < 1 || access.getRowMod() < 0)
      return emitOpError("expects the rowDiv of ")
             << what << " " << i << " to be at least 1 and rowMod at least 0";
    if (access.getOffset() < 0 || access.getRowStride() < 0)
      return emitOpError("expects the offset and rowStride of ")
             << what << " " << i << " to be at least 0";
    if (!access.getType().isF32() && !access.getType().isBF16() &&
        !access.getType().isInteger(32))
      return emitOpError("expects ")
             << what << " " << i << " of f32, bf16 or i32, got "
             << access.getType();
    return success();
  };
  for (auto [i, attr] : llvm::enumerate(getInputs()))
    if (failed(check(cast<AccessAttr>(attr), block.getArgument(i).getType(),
                     "input", i)))
      return failure();
  for (auto [i, attr] : llvm::enumerate(getOutputs()))
    if (failed(check(cast<AccessAttr>(attr), yield.getOperand(i).getType(),
                     "output", i)))
      return failure();

  if (int64_t(getRows()) < 1 || int64_t(getColumns()) < 1)
    return emitOpError("expects at least one row and column, got ")
           << getRows() << " and " << getColumns();
  int64_t elements = 0;
  if (llvm::MulOverflow(int64_t(getRows()), int64_t(getColumns()), elements) ||
      uint64_t(elements) > runtime::limits::arenaBytes)
    return emitOpError("expects at most ")
           << runtime::limits::arenaBytes << " elements, got " << getRows()
           << " rows of " << getColumns() << " columns";
  if (getMode() == KernelMode::Flat && getColumns() != 1)
    return emitOpError("expects one column in flat mode, got ") << getColumns();
  if (getMode() != KernelMode::Row && !block.getOps<RowReduceOp>().empty())
    return emitOpError("expects exec.row_reduce in row mode only");
  if (getMode() == KernelMode::Column)
    for (auto [i, attr] : llvm::enumerate(getOutputs())) {
      auto access = cast<AccessAttr>(attr);
      if (access.getColStride() != 1 || access.getRowStride() != 0)
        return emitOpError("expects output ")
               << i << " to be a vector along the columns in column mode";
    }
  return success();
}

LogicalResult cleave::exec::verifyInstruction(InstructionOpInterface op,
                                              SymbolTableCollection &table) {
  if (failed(verifyWork(op)))
    return failure();
  if (auto shards = dyn_cast<PiecesOpInterface>(*op))
    for (const Pieces &pieces : shards.getPieces())
      if (pieces.blocks < 1)
        return op->emitOpError("expects at least one block, got ")
               << pieces.blocks;
  if (auto launch = dyn_cast<LaunchOp>(*op)) {
    auto kernel =
        table.lookupNearestSymbolFrom<KernelOp>(op, launch.getKernelAttr());
    if (!kernel)
      return op->emitOpError("expects a kernel named ")
             << launch.getKernelAttr();
    size_t inputs = kernel.getInputs().size(),
           outputs = kernel.getOutputs().size();
    if (op.getInputs().size() != inputs || op.getOutputs().size() != outputs)
      return op->emitOpError("expects the ")
             << inputs << " inputs and " << outputs << " outputs of "
             << launch.getKernelAttr() << ", got " << op.getInputs().size()
             << " and " << op.getOutputs().size();
  } else {
    EncodedWork work(op);
    auto [inputs, outputs] =
        runtime::countOperands(work.getOpcode(), work.get());
    if (op.getInputs().size() != inputs || op.getOutputs().size() != outputs)
      return op->emitOpError("expects ")
             << inputs << " inputs and " << outputs << " outputs, got "
             << op.getInputs().size() << " and " << op.getOutputs().size();
  }
  if (auto send = dyn_cast<SendOp>(*op))
    return dist::verifyMessage(op, send.getStage(), send.getChannel());
  if (auto recv = dyn_cast<RecvOp>(*op))
    return dist::verifyMessage(op, recv.getStage(), recv.getChannel());
  ArrayAttr group = op.getGroup();
  return group ? dist::verifyAxes(op, group) : success();
}

LogicalResult WorkloadOp::verify() {
  for (auto [name, value] :
       {std::pair("vocab", getVocab()), std::pair("seq_len", getSeqLen()),
        std::pair("global_batch", getGlobalBatch()),
        std::pair("micro_batches", getMicroBatches())})
    if (int64_t(value) < 1)
      return emitOpError("expects ")
             << name << " of at least 1, got " << int64_t(value);
  if (getGlobalBatch() % getMicroBatches() != 0)
    return emitOpError("expects a global_batch that its ")
           << getMicroBatches() << " micro_batches divide, got "
           << getGlobalBatch();
  for (Operation &other : *(*this)->getBlock())
    if (isa<WorkloadOp>(other) && &other != getOperation())
      return emitOpError("is not the only one of its module");
  return dist::verifyAxes(*this, getBatchAxes());
}

LogicalResult OutputOp::verifySymbolUses(SymbolTableCollection &) {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("expects a type of static shape, got ") << getType();
  if (std::optional<ArrayRef<int64_t>> logical = getLogical())
    if (logical->size() != type.getShape().size() ||
        !llvm::all_of(llvm::zip(*logical, type.getShape()), [](auto sizes) {
          auto [part, whole] = sizes;
          return part >= 1 && part <= whole;
        }))
      return emitOpError("expects a logical shape that fits in ")
             << type << ", got [" << *logical << "]";
  if (failed(dist::verifyPlacedIfAny(*this, type)))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  if (dist::OnAttr placement = dist::getPlacementAttr(type)) {
    if (!placement.getPartial().empty() &&
        placement.getReduction() == dist::ReductionKind::Max)
      return emitOpError(
                 "expects a value that is whole or partial by sum, got ")
             << type;
    dist::MeshOp meshOp = dist::findMesh(*this);
    if (!meshOp)
      return success();
    Mesh mesh = meshOp.getMesh();
    llvm::copy(dist::getPlacement(placement, mesh).getLocalShape(mesh, shape),
               shape.begin());
  }
  auto buffer = getBuffer().getDefiningOp<BufferOp>();
  if (!buffer)
    return emitOpError("expects a buffer, not a view of one");
  // By divisions: sizes are as large as their type allows.
  uint64_t elements = buffer.getBytes() * 8 / type.getElementTypeBitWidth();
  for (int64_t size : shape)
    elements = size > 0 && elements % size == 0 ? elements / size : 0;
  if (elements != 1)
    return emitOpError("expects a buffer of this rank's shard of ")
           << type << ", got " << buffer.getBytes() << " bytes";
  return success();
}

LogicalResult ViewOp::verify() {
  auto buffer = getBuffer().getDefiningOp<BufferOp>();
  if (!buffer)
    return emitOpError("expects a view of an exec.buffer");
  int64_t bytes = getBytes(), places = getPlaces(), from = getFrom();
  if (bytes < 1 || places < 0)
    return emitOpError("expects at least one byte, and no places or some, got ")
           << bytes << " and " << places;
  if (from < 0 || from % int64_t(runtime::limits::alignment) != 0)
    return emitOpError("expects to begin at a multiple of 64 bytes, got ")
           << from;
  if (getStride() != 0 && (places == 0 || int64_t(getStride()) < bytes))
    return emitOpError("expects a stride of at least the ")
           << bytes << " bytes of a place, and places, got "
           << int64_t(getStride());
  int64_t all = 0;
  if (llvm::MulOverflow(getDistance(), std::max<int64_t>(places, 1) - 1, all) ||
      llvm::AddOverflow(all, bytes, all) || llvm::AddOverflow(all, from, all) ||
      all > int64_t(buffer.getBytes()))
    return emitOpError("expects ")
           << places << " places of " << bytes << " bytes from " << from
           << " on in a buffer of " << buffer.getBytes();
  return success();
}

int64_t ViewOp::getDistance() {
  if (getPlaces() == 0)
    return 0;
  return int64_t(getStride() != 0 ? getStride() : getBytes());
}

LogicalResult RunOp::verify() {
  if (int64_t(getMicroBatch()) < 0)
    return emitOpError("expects a micro-batch of at least 0, got ")
           << int64_t(getMicroBatch());
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  llvm::StringMap<unsigned> order;
  SmallVector<SegmentOp> segments;
  for (Operation &op : getBody().front()) {
    if (isa<InstructionOpInterface>(op))
      return op.emitOpError("expects to stand in an exec.segment");
    auto segment = dyn_cast<SegmentOp>(op);
    if (!segment)
      continue;
    if (!order.try_emplace(segment.getSymName(), segments.size()).second)
      return segment.emitOpError("is a second segment named ")
             << segment.getSymNameAttr();
    segments.push_back(segment);
  }
  size_t known = 0;
  bool updates = false;
  for (RunOp run : getBody().front().getOps<RunOp>()) {
    auto it = order.find(run.getSegment());
    if (it == order.end())
      return run.emitOpError("expects a segment of this program, got ")
             << run.getSegmentAttr();
    if (it->second > known)
      return run.emitOpError("runs ")
             << run.getSegmentAttr() << " before the segment @"
             << segments[known].getSymName() << ", which stands before it";
    known = std::max<size_t>(known, it->second + 1);
    if (updates && !segments[it->second].getUpdates())
      return run.emitOpError("runs ")
             << run.getSegmentAttr() << " after a segment that updates";
    updates |= segments[it->second].getUpdates();
  }
  if (known < segments.size())
    return segments[known].emitOpError("is never run");
  return verifyEvents(*this);
}

LogicalResult BufferOp::verify() {
  constexpr uint64_t most = runtime::limits::arenaBytes;
  if (getBytes() < 1 || getBytes() > most)
    return emitOpError("expects 1 to ")
           << most << " bytes, got " << int64_t(getBytes());
  if (getOffset() &&
      (*getOffset() > most || *getOffset() % runtime::limits::alignment != 0))
    return emitOpError("expects an offset that is a multiple of 64, and at "
                       "most ")
           << most << ", got " << int64_t(*getOffset());
  return success();
}

void BufferOp::build(OpBuilder &b, OperationState &state, StringRef category,
                     int64_t bytes) {
  build(b, state, BufferType::get(b.getContext()), b.getStringAttr(category),
        b.getI64IntegerAttr(bytes), IntegerAttr(), UnitAttr(),
        FlatSymbolRefAttr());
}
