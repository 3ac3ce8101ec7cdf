//===- ReadProgram.cpp - A program as IR again ----------------------------===//
//
// The inverse of EmitProgram.cpp, table by table.
//
//===----------------------------------------------------------------------===//
#include "passes/Emit/ReadProgram.h"
#include "dialects/dist/Placements.h"
#include "dialects/dist/PlanAttr.h"
#include "dialects/dist/Stages.h"
#include "dialects/exec/Work.h"
#include "dialects/xf/Provenance.h"
#include "dialects/xf/Xf.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/Emit/EmitProgram.h"
#include <set>

using namespace mlir;
using namespace cleave;
namespace fb = cleave::program;

static StringRef toText(const flatbuffers::String *string) {
  return string ? StringRef(string->data(), string->size()) : StringRef();
}

/// The elements of a vector that may be absent.
template <typename T>
static SmallVector<T> toList(const flatbuffers::Vector<T> *vector) {
  return vector ? SmallVector<T>(vector->begin(), vector->end())
                : SmallVector<T>();
}

static SmallVector<int64_t>
toSizes(const flatbuffers::Vector<uint64_t> *vector) {
  return llvm::map_to_vector(toList(vector),
                             [](uint64_t size) { return int64_t(size); });
}

/// Calls `visit` with each table or struct.
template <typename T, typename Visit>
static void forEach(const flatbuffers::Vector<T> *vector, Visit visit) {
  if (vector)
    for (auto element : *vector)
      visit(*element);
}

namespace {
class ProgramReader {
public:
  ProgramReader(MLIRContext *context, const fb::Program &program)
      : program(program), b(context),
        module(ModuleOp::create(b, b.getUnknownLoc())) {
    SmallVector<MeshAxis> axes;
    forEach(program.axes(), [&](const fb::Axis &axis) {
      axes.push_back({toText(axis.name()).str(), int64_t(axis.size())});
    });
    mesh = Mesh(axes);
  }

  OwningOpRef<ModuleOp> read();

private:
  LogicalResult readWorkload();
  void readMesh();
  void readState(const fb::State &state);
  LogicalResult readKernels();
  LogicalResult readStage(size_t number, const fb::Stage &stage);
  void readBuffers(const fb::Stage &stage);
  void readOutput(const fb::Output &output);
  LogicalResult readSegment(const fb::Stage &stage, const fb::Segment &segment,
                            bool updates);
  LogicalResult readInstruction(const fb::Instruction &instruction);
  Value getValue(const fb::Operand &operand);

  RankedTensorType
  getType(fb::DType type, ArrayRef<int64_t> shape,
          const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *dims,
          ArrayRef<uint8_t> partial);
  RankedTensorType getTokensType();
  ArrayAttr getAxes(ArrayRef<uint8_t> axes) {
    return dist::getAxesAttr(b.getContext(), mesh, getAxisList(axes));
  }
  static AxisList getAxisList(ArrayRef<uint8_t> axes) {
    return AxisList(axes.begin(), axes.end());
  }
  DenseI64ArrayAttr getLogical(ArrayRef<int64_t> logical,
                               RankedTensorType type) {
    return logical == type.getShape() ? DenseI64ArrayAttr()
                                      : b.getDenseI64ArrayAttr(logical);
  }
  Location getLoc(StringRef name) {
    return name.empty() ? Location(b.getUnknownLoc())
                        : NameLoc::get(b.getStringAttr(name));
  }

  const fb::Program &program;
  OpBuilder b;
  OwningOpRef<ModuleOp> module;
  Mesh mesh;
  std::set<std::string> states; ///< declared so far
  /// Of the stage at hand: its buffers, and the views of the segment at hand.
  SmallVector<exec::BufferOp> buffers;
  std::map<std::tuple<uint32_t, uint64_t, uint32_t, uint64_t, uint64_t>, Value>
      views;
};
} // namespace

static constexpr StringLiteral meshName = "mesh";

LogicalResult ProgramReader::readWorkload() {
  StringRef model = toText(program.model()), text = toText(program.plan());
  if (!text.empty()) {
    llvm::Expected<Plan> plan = parsePlan(text, "the program's plan");
    if (!plan)
      return module->emitError(llvm::toString(plan.takeError()));
    dist::setPlan(*module, *plan);
  }
  exec::WorkloadOp::create(
      b, b.getUnknownLoc(), program.vocab(), program.seq_len(),
      program.global_batch(), program.micro_batches(),
      getAxes(toList(program.batch_axes())),
      llvm::APFloat(program.flops_per_step()),
      model.empty() ? StringAttr() : b.getStringAttr(model));
  return success();
}

void ProgramReader::readMesh() {
  if (mesh.getAxes().empty())
    return;
  SmallVector<Attribute> axes;
  for (const MeshAxis &axis : mesh.getAxes())
    axes.push_back(dist::AxisAttr::get(b.getContext(), axis.name, axis.size));
  int stages = program.stage_axis();
  dist::MeshOp::create(
      b, b.getUnknownLoc(), b.getStringAttr(meshName), b.getArrayAttr(axes),
      stages < 0 ? StringAttr()
                 : b.getStringAttr(mesh.getAxes()[size_t(stages)].name));
}

RankedTensorType ProgramReader::getType(
    fb::DType type, ArrayRef<int64_t> shape,
    const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *dims,
    ArrayRef<uint8_t> partial) {
  auto tensor =
      RankedTensorType::get(shape, exec::getType(b.getContext(), type));
  if (mesh.getAxes().empty())
    return tensor;
  SmallVector<AxisList> split;
  forEach(dims, [&](const fb::DimAxes &dim) {
    split.push_back(getAxisList(toList(dim.axes())));
  });
  Placement placement(split, getAxisList(partial));
  return dist::withPlacement(
      tensor,
      dist::getPlacementAttr(FlatSymbolRefAttr::get(b.getContext(), meshName),
                             mesh, placement));
}

/// [micro-batches, samples, tokens] of ids, on all ranks together.
RankedTensorType ProgramReader::getTokensType() {
  int64_t microBatches = int64_t(program.micro_batches());
  SmallVector<int64_t> shape{microBatches,
                             int64_t(program.global_batch()) / microBatches,
                             int64_t(program.seq_len())};
  auto tensor = RankedTensorType::get(shape, b.getI32Type());
  if (mesh.getAxes().empty())
    return tensor;
  AxisList split[] = {{}, getAxisList(toList(program.batch_axes())), {}};
  Placement placement(split, {});
  return dist::withPlacement(
      tensor,
      dist::getPlacementAttr(FlatSymbolRefAttr::get(b.getContext(), meshName),
                             mesh, placement));
}

static xf::InitKind convert(fb::InitKind kind) {
  switch (kind) {
  case fb::InitKind::Zeros:
    return xf::InitKind::Zeros;
  case fb::InitKind::Ones:
    return xf::InitKind::Ones;
  case fb::InitKind::Normal:
    return xf::InitKind::Normal;
  case fb::InitKind::RopeCos:
    return xf::InitKind::RopeCos;
  case fb::InitKind::RopeSin:
    return xf::InitKind::RopeSin;
  }
  llvm_unreachable("unknown initializer");
}

/// What several stages have is declared once.
void ProgramReader::readState(const fb::State &state) {
  StringRef name = toText(state.name());
  if (!states.insert(name.str()).second)
    return;
  RankedTensorType type =
      getType(state.dtype(), toSizes(state.shape()), state.dims(), {});
  SmallVector<int64_t> logical = toSizes(state.logical());
  xf::PieceAttr piece;
  if (StringRef source = toText(state.source()); !source.empty()) {
    SmallVector<int64_t> view = toSizes(state.view()), sizes, drop;
    SmallVector<uint8_t> dropped = toList(state.drop());
    for (size_t dim = 0, kept = 0; dim != view.size(); ++dim)
      sizes.push_back(llvm::is_contained(dropped, dim) ? 1 : logical[kept++]);
    drop.assign(dropped.begin(), dropped.end());
    piece = xf::PieceAttr::get(b.getContext(), source,
                               toSizes(state.source_shape()), view,
                               toSizes(state.starts()), sizes, drop);
  }
  DenseElementsAttr table;
  if (SmallVector<float> values = toList(state.init_table()); !values.empty())
    table = DenseElementsAttr::get(
        RankedTensorType::get({int64_t(values.size())}, b.getF32Type()),
        ArrayRef<float>(values));
  SmallVector<Attribute> tied;
  forEach(state.tied(), [&](const flatbuffers::String &other) {
    tied.push_back(b.getStringAttr(toText(&other)));
  });
  xf::StateOp::create(
      b, b.getUnknownLoc(), b.getStringAttr(name),
      xf::StateRoleAttr::get(b.getContext(),
                             *xf::symbolizeStateRole(toText(state.role()))),
      TypeAttr::get(type),
      xf::InitAttr::get(b.getContext(), convert(state.init()),
                        b.getF64FloatAttr(state.init_scale()), table),
      getLogical(logical, type), ArrayAttr(), piece, UnitAttr(), IntegerAttr(),
      tied.empty() ? ArrayAttr() : b.getArrayAttr(tied),
      toText(state.of()).empty()
          ? FlatSymbolRefAttr()
          : FlatSymbolRefAttr::get(b.getContext(), toText(state.of())));
}

/// Each as the text of an exec.kernel, of which only the body is one here.
LogicalResult ProgramReader::readKernels() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  LogicalResult result = success();
  forEach(program.kernels(), [&](const fb::Kernel &kernel) {
    StringRef body = toText(kernel.body());
    if (body.empty())
      result = module->emitError("the program's kernel \"")
               << toText(kernel.symbol()) << "\" has no body";
    SmallVector<Attribute> accesses;
    forEach(kernel.accesses(), [&](const fb::Access &access) {
      accesses.push_back(exec::AccessAttr::get(
          b.getContext(), exec::getType(b.getContext(), access.dtype()),
          int64_t(access.offset()), int64_t(access.row_div()),
          int64_t(access.row_mod()), int64_t(access.row_stride()),
          access.col_stride()));
    });
    ArrayRef<Attribute> all(accesses);
    stream << "exec.kernel "
           << FlatSymbolRefAttr::get(b.getContext(), toText(kernel.symbol()))
           << " mode = "
           << exec::stringifyKernelMode(exec::KernelMode(kernel.mode()))
           << ", rows = " << kernel.rows() << ", columns = " << kernel.columns()
           << ", inputs = " << b.getArrayAttr(all.take_front(kernel.inputs()))
           << ", outputs = " << b.getArrayAttr(all.drop_front(kernel.inputs()));
    exec::Accumulate accumulate = exec::Accumulate(kernel.accumulate());
    if (accumulate != exec::Accumulate::Never)
      stream << ", accumulate = " << exec::stringifyAccumulate(accumulate);
    stream << " " << body << "\n";
  });
  if (failed(result))
    return failure();
  if (failed(parseSourceString(text, module->getBody(), b.getContext(),
                               "kernels of the program")))
    return failure();
  // Where a text had them that nobody sees says nothing.
  module->walk([&](exec::KernelOp kernel) {
    kernel.walk([&](Operation *op) { op->setLoc(b.getUnknownLoc()); });
    for (BlockArgument argument : kernel.getBody().getArguments())
      argument.setLoc(b.getUnknownLoc());
  });
  return success();
}

void ProgramReader::readBuffers(const fb::Stage &stage) {
  buffers.clear();
  forEach(stage.buffers(), [&](const fb::Buffer &buffer) {
    auto op = exec::BufferOp::create(b, b.getUnknownLoc(),
                                     toText(buffer.category()), buffer.bytes());
    op.setOffset(buffer.offset());
    op.setPinned(buffer.pinned());
    buffers.push_back(op);
  });
  forEach(stage.states(), [&](const fb::State &state) {
    buffers[state.operand()->buffer() - 1].setStateAttr(
        FlatSymbolRefAttr::get(b.getContext(), toText(state.name())));
  });
  for (auto [name, operand] : {std::pair("ids", stage.tokens()),
                               std::pair("targets", stage.targets())})
    if (operand) {
      exec::BufferOp buffer = buffers[operand->buffer() - 1];
      buffer->setAttr("data", b.getStringAttr(name));
      buffer->setAttr("global", TypeAttr::get(getTokensType()));
    }
}

void ProgramReader::readOutput(const fb::Output &output) {
  RankedTensorType type = getType(output.dtype(), toSizes(output.shape()),
                                  output.dims(), toList(output.partial()));
  StringRef state = toText(output.state());
  exec::OutputOp::create(
      b, b.getUnknownLoc(), toText(output.name()),
      buffers[output.operand()->buffer() - 1], type,
      state.empty() ? FlatSymbolRefAttr()
                    : FlatSymbolRefAttr::get(b.getContext(), state),
      // A gradient's is its parameter's.
      state.empty() ? getLogical(toSizes(output.logical()), type)
                    : DenseI64ArrayAttr());
}

/// A buffer, or a view of one before the instruction.
Value ProgramReader::getValue(const fb::Operand &operand) {
  exec::BufferOp buffer = buffers[operand.buffer() - 1];
  // The loader has seen that it lies in its buffer.
  if (operand.bytes() == buffer.getBytes() && operand.places() == 0)
    return buffer;
  uint64_t from = operand.offset() - *buffer.getOffset();
  uint64_t stride = operand.stride() != operand.bytes() ? operand.stride() : 0;
  Value &view = views[{operand.buffer(), operand.bytes(), operand.places(),
                       from, stride}];
  if (!view)
    view = exec::ViewOp::create(b, b.getUnknownLoc(), buffer, operand.bytes(),
                                operand.places(), from, stride);
  return view;
}

LogicalResult
ProgramReader::readInstruction(const fb::Instruction &instruction) {
  fb::Opcode opcode = instruction.work_type();
  StringRef kernel;
  if (opcode == fb::Opcode::Launch)
    kernel = toText(runtime::getKernel(program, instruction).symbol());
  auto [inputs, outputs] = runtime::countOperands(program, instruction);
  SmallVector<Value> operands;
  forEach(instruction.operands(), [&](const fb::Operand &operand) {
    operands.push_back(getValue(operand));
  });

  OperationState state(b.getUnknownLoc(), exec::getOpName(opcode));
  state.addOperands(operands);
  state.addAttributes(
      exec::decodeWork(b.getContext(), opcode, instruction.work(), kernel));
  state.addAttribute(
      "operandSegmentSizes",
      b.getDenseI32ArrayAttr({int32_t(inputs), int32_t(outputs),
                              int32_t(operands.size() - inputs - outputs)}));
  Operation *op = b.create(state);
  SmallVector<uint8_t> group = toList(instruction.group());
  StringRef groupName = cast<exec::InstructionOpInterface>(op).getGroupName();
  if (groupName.empty() && !group.empty())
    return op->emitOpError("has a group in the program, and none in exec");
  // That of a collective is there though it be empty.
  if (!group.empty() || groupName == "axes")
    op->setAttr(groupName, getAxes(group));
  if (std::optional<xf::Phase> phase =
          xf::symbolizePhase(toText(instruction.category())))
    xf::setPhase(op, *phase);
  if (instruction.flops() > 0)
    op->setAttr("flops", b.getF64FloatAttr(instruction.flops()));
  SmallVector<int64_t> waits =
      llvm::map_to_vector(toList(instruction.waits()),
                          [](uint32_t event) { return int64_t(event); });
  exec::setOrder(op, exec::OrderAttr::get(b.getContext(), instruction.stream(),
                                          instruction.event(), waits,
                                          instruction.with_next()));
  StringRef name = toText(instruction.name());
  name.consume_front(emit::getInstructionName(op));
  op->setLoc(getLoc(name.ltrim()));
  return success();
}

LogicalResult ProgramReader::readSegment(const fb::Stage &stage,
                                         const fb::Segment &segment,
                                         bool updates) {
  auto op = exec::SegmentOp::create(b, b.getUnknownLoc(),
                                    toText(segment.name()), updates);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&op.getBody().emplaceBlock());
  views.clear();
  for (uint64_t i = segment.begin(); i != segment.end(); ++i)
    if (failed(readInstruction(
            *stage.instructions()->Get(flatbuffers::uoffset_t(i)))))
      return failure();
  return success();
}

LogicalResult ProgramReader::readStage(size_t number, const fb::Stage &stage) {
  OpBuilder::InsertionGuard guard(b);
  auto op = exec::ProgramOp::create(
      b, b.getUnknownLoc(),
      program.stage_axis() < 0 ? "program"
                               : dist::getStageName(int64_t(number)),
      program.threads(), b.getI64IntegerAttr(int64_t(stage.arena_bytes())),
      b.getI64IntegerAttr(int64_t(stage.lower_bound_bytes())));
  NamedAttrList peak;
  forEach(stage.memory(), [&](const fb::Category &category) {
    if (StringRef name = toText(category.name()); !name.empty())
      peak.set(name, b.getI64IntegerAttr(int64_t(category.bytes())));
  });
  if (!peak.empty())
    op->setAttr("peak", peak.getDictionary(b.getContext()));
  b.setInsertionPointToStart(&op.getBody().emplaceBlock());
  readBuffers(stage);
  forEach(stage.outputs(),
          [&](const fb::Output &output) { readOutput(output); });
  llvm::SmallDenseSet<uint32_t> updating;
  SmallVector<fb::Run> runs;
  forEach(stage.runs(), [&](const fb::Run &run) {
    if (runs.size() >= stage.update_run())
      updating.insert(run.segment());
    runs.push_back(run);
  });
  SmallVector<StringRef> names;
  LogicalResult result = success();
  forEach(stage.segments(), [&](const fb::Segment &segment) {
    if (failed(readSegment(stage, segment, updating.contains(names.size()))))
      result = failure();
    names.push_back(toText(segment.name()));
  });
  for (const fb::Run &run : runs)
    exec::RunOp::create(b, b.getUnknownLoc(), names[run.segment()],
                        run.micro_batch(), run.first());
  return result;
}

OwningOpRef<ModuleOp> ProgramReader::read() {
  b.setInsertionPointToStart(module->getBody());
  if (failed(readWorkload()))
    return {};
  readMesh();
  forEach(program.stages(), [&](const fb::Stage &stage) {
    forEach(stage.states(), [&](const fb::State &state) { readState(state); });
  });
  if (failed(readKernels()))
    return {};
  b.setInsertionPointToEnd(module->getBody());
  size_t number = 0;
  LogicalResult result = success();
  forEach(program.stages(), [&](const fb::Stage &stage) {
    if (failed(readStage(number++, stage)))
      result = failure();
  });
  if (failed(result) || failed(verify(*module)))
    return {};
  return std::move(module);
}

OwningOpRef<ModuleOp> emit::readProgram(MLIRContext *context,
                                        const fb::Program &program) {
  context->loadDialect<exec::ExecDialect, dist::DistDialect, xf::XfDialect>();
  return ProgramReader(context, program).read();
}
