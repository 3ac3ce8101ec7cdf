//===- EmitProgram.cpp - The instructions as a program file ---------------===//
#include "passes/Emit/EmitProgram.h"
#include "cleave/Tasks/Tasks.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Provenance.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/program_generated.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;
namespace fb = cleave::program;

namespace {
class ProgramWriter {
public:
  ProgramWriter(ModuleOp module, const ProgramInfo &info)
      : module(module), info(info), mesh(info.plan.mesh) {}

  FailureOr<std::vector<uint8_t>> write();

private:
  LogicalResult writeStage(exec::ProgramOp op);
  void writeHeader();
  void writeMemory();
  void writeKernels();
  void writeStates();
  void numberBuffers();
  uint32_t getEvent(int64_t event);
  void writeOutputs();
  LogicalResult writeSegments();
  void writeRuns();
  LogicalResult writeInstruction(Operation &op);

  fb::Operand getOperand(Value value);
  /// The number of the buffer that `value` is, or is a view of.
  uint32_t getBuffer(Value value);
  fb::DType getType(Type type) {
    return type.isBF16()        ? fb::DType::BF16
           : type.isInteger(32) ? fb::DType::I32
                                : fb::DType::F32;
  }
  /// Fails, and says so, on an axis that the mesh of the plan lacks.
  std::vector<uint8_t> getAxes(ArrayAttr names) {
    for (auto name : names.getAsValueRange<StringAttr>())
      if (!mesh.getAxisIndex(name)) {
        source.emitOpError("expects axes of the plan's ")
            << mesh.toString() << ", got \"" << name << "\"";
        failed_ = true;
        return {};
      }
    AxisList axes = dist::getAxes(names, mesh);
    return {axes.begin(), axes.end()};
  }
  /// Placement of a tensor, one entry a dim.
  std::vector<std::unique_ptr<fb::DimAxesT>> getDims(RankedTensorType type);
  static std::vector<uint64_t> toU64(ArrayRef<int64_t> values) {
    return {values.begin(), values.end()};
  }

  ModuleOp module;
  const ProgramInfo &info;
  const Mesh &mesh;
  fb::ProgramT program;
  exec::ProgramOp source; ///< of the stage at hand
  fb::StageT *stage = nullptr;
  llvm::StringMap<int> kernels;
  llvm::DenseMap<Operation *, uint32_t> buffers; ///< numbers, from 1
  llvm::DenseMap<int64_t, uint32_t> events;      ///< likewise, of the stage
  bool failed_ = false;
};
} // namespace

std::vector<std::unique_ptr<fb::DimAxesT>>
ProgramWriter::getDims(RankedTensorType type) {
  std::vector<std::unique_ptr<fb::DimAxesT>> dims;
  dist::OnAttr attr = dist::getPlacementAttr(type);
  for (int64_t i = 0; i < type.getRank(); ++i) {
    dims.push_back(std::make_unique<fb::DimAxesT>());
    if (attr)
      dims.back()->axes = getAxes(cast<ArrayAttr>(attr.getDims()[i]));
  }
  return dims;
}

/// Bytes of the arena; a view's places lie one after the other.
fb::Operand ProgramWriter::getOperand(Value value) {
  uint64_t places = 0;
  std::optional<uint64_t> bytes;
  if (auto view = value.getDefiningOp<exec::ViewOp>()) {
    bytes = view.getBytes();
    places = view.getPlaces();
    value = view.getBuffer();
  }
  auto buffer = value.getDefiningOp<exec::BufferOp>();
  if (!buffer) {
    source.emitOpError("expects operands that are an exec.buffer or a view of "
                       "one");
    failed_ = true;
    return {};
  }
  if (!buffer.getOffset()) {
    buffer.emitOpError("expects an offset");
    failed_ = true;
    return {};
  }
  uint64_t size = bytes.value_or(buffer.getBytes());
  return fb::Operand(*buffer.getOffset(), size, places > 1 ? size : 0, places);
}

void ProgramWriter::numberBuffers() {
  events.clear();
  uint32_t number = 0;
  source.walk([&](exec::BufferOp buffer) { buffers[buffer] = ++number; });
}

uint32_t ProgramWriter::getBuffer(Value value) {
  if (auto view = value.getDefiningOp<exec::ViewOp>())
    value = view.getBuffer();
  return buffers.lookup(value.getDefiningOp());
}

void ProgramWriter::writeHeader() {
  program.version = runtime::programVersion;
  program.model = info.model.configText;
  program.plan = info.plan.toJSON();
  for (const MeshAxis &axis : mesh.getAxes()) {
    auto out = std::make_unique<fb::AxisT>();
    out->name = axis.name;
    out->size = axis.size;
    program.axes.push_back(std::move(out));
  }
  program.vocab = info.model.vocab;
  program.seq_len = info.batch.seqLen;
  program.global_batch = info.batch.globalBatch;
  program.micro_batches = info.plan.microBatches;
  program.flops_per_step = info.modelFlops;
  program.isa = info.cpu.isa;
  program.cpu = info.cpu.name;
  if (info.plan.pipeline)
    program.stage_axis = int(info.plan.pipeline->axis);
  AxisList batch = info.plan.getAxes("batch");
  program.batch_axes.assign(batch.begin(), batch.end());
}

void ProgramWriter::writeMemory() {
  stage->arena_bytes = source.getArenaBytes().value_or(0);
  stage->lower_bound_bytes = source.getLowerBound().value_or(0);
  if (auto peak = source->getAttrOfType<DictionaryAttr>("peak"))
    for (NamedAttribute entry : peak) {
      auto category = std::make_unique<fb::CategoryT>();
      category->name = entry.getName().str();
      category->bytes = cast<IntegerAttr>(entry.getValue()).getInt();
      stage->memory.push_back(std::move(category));
    }
}

/// Elements that are worth a thread's while.
static constexpr int64_t grainElements = 16384;

/// As the verifier of exec.kernel spells it.
static fb::Accumulate convert(StringRef accumulate) {
  return accumulate == "always"        ? fb::Accumulate::Always
         : accumulate == "after_first" ? fb::Accumulate::AfterFirst
                                       : fb::Accumulate::Never;
}

void ProgramWriter::writeKernels() {
  for (auto kernel : module.getOps<exec::KernelOp>()) {
    auto out = std::make_unique<fb::KernelT>();
    out->symbol = kernel.getSymName().str();
    bool column = kernel.getMode() == exec::KernelMode::Column;
    int64_t parallel = column ? kernel.getColumns() : kernel.getRows();
    int64_t serial = column ? kernel.getRows() : kernel.getColumns();
    out->rows = parallel;
    // Column ranges stay whole cache lines.
    int64_t grain = std::max<int64_t>(grainElements / serial, 1);
    out->grain = column ? (grain + 63) / 64 * 64 : grain;
    out->serial = serial;
    out->by_columns = column;
    out->inputs = kernel.getInputs().size();
    for (ArrayAttr accesses : {kernel.getInputs(), kernel.getOutputs()})
      for (auto access : accesses.getAsRange<exec::AccessAttr>())
        out->accesses.emplace_back(access.getOffset(), access.getRowDiv(),
                                   access.getRowMod(), access.getRowStride(),
                                   access.getColStride(),
                                   getType(access.getType()));
    out->accumulate = convert(kernel.getAccumulate());
    kernels[kernel.getSymName()] = int(program.kernels.size());
    program.kernels.push_back(std::move(out));
  }
}

static fb::InitKind convert(xf::InitKind kind) {
  switch (kind) {
  case xf::InitKind::Zeros:
    return fb::InitKind::Zeros;
  case xf::InitKind::Ones:
    return fb::InitKind::Ones;
  case xf::InitKind::Normal:
    return fb::InitKind::Normal;
  case xf::InitKind::RopeCos:
    return fb::InitKind::RopeCos;
  case xf::InitKind::RopeSin:
    return fb::InitKind::RopeSin;
  }
  llvm_unreachable("unknown initializer");
}

void ProgramWriter::writeStates() {
  for (auto buffer : source.getOps<exec::BufferOp>()) {
    if (!buffer.getState())
      continue;
    auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
        source, buffer.getStateAttr());
    auto out = std::make_unique<fb::StateT>();
    RankedTensorType type = state.getTensorType();
    out->name = state.getSymName().str();
    out->role = xf::stringifyStateRole(state.getRole()).str();
    out->dtype = getType(type.getElementType());
    out->shape = toU64(type.getShape());
    out->logical = toU64(state.getLogicalShape());
    out->dims = getDims(type);
    out->operand = std::make_unique<fb::Operand>(getOperand(buffer));
    out->buffer = getBuffer(buffer);
    if (std::optional<xf::PieceAttr> piece = state.getPiece()) {
      out->source = piece->getSource().str();
      out->source_shape = toU64(piece->getShape());
      out->view = toU64(piece->getView());
      out->starts = toU64(piece->getStarts());
      for (int64_t dim : piece->getDrop())
        out->drop.push_back(uint8_t(dim));
      if (info.model.tied && out->source == info.model.embedding.tensor)
        out->tied.push_back(info.model.headName);
    }
    xf::InitAttr init = state.getInit();
    out->init = convert(init.getKind());
    out->init_scale = init.getScale().getValueAsDouble();
    if (DenseElementsAttr table = init.getTable())
      for (float value : table.getValues<float>())
        out->init_table.push_back(value);
    stage->states.push_back(std::move(out));
  }
}

void ProgramWriter::writeOutputs() {
  source.walk([&](exec::OutputOp output) {
    auto out = std::make_unique<fb::OutputT>();
    auto type = cast<RankedTensorType>(output.getType());
    out->name = output.getName().str();
    out->dtype = getType(type.getElementType());
    out->shape = toU64(type.getShape());
    out->logical = out->shape;
    out->dims = getDims(type);
    if (dist::OnAttr attr = dist::getPlacementAttr(type))
      out->partial = getAxes(attr.getPartial());
    out->operand =
        std::make_unique<fb::Operand>(getOperand(output.getBuffer()));
    out->buffer = getBuffer(output.getBuffer());
    if (output.getState()) {
      out->state = output.getState()->str();
      auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
          source, output.getStateAttr());
      out->logical = toU64(state.getLogicalShape());
    }
    // The padding of a vocabulary is no part of the logits.
    if (out->name == "logits")
      out->logical.back() = info.model.vocab;
    stage->outputs.push_back(std::move(out));
  });
}

LogicalResult ProgramWriter::writeSegments() {
  for (auto segment : source.getOps<exec::SegmentOp>()) {
    auto out = std::make_unique<fb::SegmentT>();
    out->name = segment.getSymName().str();
    out->begin = stage->instructions.size();
    for (Operation &op : segment.getBody().front())
      if (failed(writeInstruction(op)))
        return failure();
    out->end = stage->instructions.size();
    stage->segments.push_back(std::move(out));
  }
  return success();
}

void ProgramWriter::writeRuns() {
  llvm::StringMap<exec::SegmentOp> segments;
  llvm::StringMap<uint32_t> numbers;
  for (auto segment : source.getOps<exec::SegmentOp>()) {
    numbers[segment.getSymName()] = uint32_t(numbers.size());
    segments[segment.getSymName()] = segment;
  }
  std::optional<uint64_t> update;
  for (auto run : source.getOps<exec::RunOp>()) {
    if (!update && segments[run.getSegment()].getUpdates())
      update = stage->runs.size();
    stage->runs.emplace_back(numbers[run.getSegment()], run.getMicroBatch(),
                             run.getFirst());
  }
  stage->update_run = update.value_or(stage->runs.size());
}

/// Of several locations, that of the op that an instruction is named after.
static std::string getLocName(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc))
    return getLocName(fused.getLocations().front());
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  return "";
}

/// Events are numbered from 1 as they are met.
uint32_t ProgramWriter::getEvent(int64_t event) {
  return events.try_emplace(event, uint32_t(events.size() + 1)).first->second;
}

LogicalResult ProgramWriter::writeInstruction(Operation &op) {
  auto instruction = dyn_cast<exec::InstructionOpInterface>(op);
  if (!instruction)
    return success();
  auto out = std::make_unique<fb::InstructionT>();
  std::optional<fb::Opcode> opcode = findOpcode(instruction.getOpcode());
  if (!opcode)
    return op.emitOpError("has opcode \"")
           << instruction.getOpcode()
           << "\", which the program format does not have";
  out->opcode = *opcode;
  out->name = op.getName().stripDialect().str();
  if (auto launch = dyn_cast<exec::LaunchOp>(op)) {
    out->kernel = kernels.at(launch.getKernel());
    out->name = launch.getKernel().str();
  }
  if (std::string name = getLocName(op.getLoc()); !name.empty())
    out->name += " " + name;
  if (std::optional<xf::Phase> phase = xf::getPhase(&op))
    out->category = xf::stringifyPhase(*phase).str();
  for (Value value : op.getOperands()) {
    out->operands.push_back(getOperand(value));
    out->buffers.push_back(getBuffer(value));
  }
  SmallVector<int64_t> ints = instruction.getInts();
  out->ints.assign(ints.begin(), ints.end());
  SmallVector<double> floats = instruction.getFloats();
  out->floats.assign(floats.begin(), floats.end());
  if (ArrayAttr group = instruction.getGroup())
    out->group = getAxes(group);
  if (auto flops = op.getAttrOfType<FloatAttr>("flops"))
    out->flops = flops.getValueAsDouble();
  exec::OrderAttr order = exec::getOrder(&op);
  out->stream = uint8_t(order.getStream());
  if (order.getEvent() > 0)
    out->event = getEvent(order.getEvent());
  for (int64_t event : order.getWaits())
    out->waits.push_back(getEvent(event));
  stage->instructions.push_back(std::move(out));
  return success();
}

LogicalResult ProgramWriter::writeStage(exec::ProgramOp op) {
  source = op;
  program.stages.push_back(std::make_unique<fb::StageT>());
  stage = program.stages.back().get();
  numberBuffers();
  writeMemory();
  writeStates();
  writeOutputs();
  for (auto buffer : source.getOps<exec::BufferOp>())
    if (auto name = buffer->getAttrOfType<StringAttr>("data")) {
      auto operand = std::make_unique<fb::Operand>(getOperand(buffer));
      bool isTokens = name.getValue() == "ids";
      (isTokens ? stage->tokens : stage->targets) = std::move(operand);
      (isTokens ? stage->tokens_buffer : stage->targets_buffer) =
          getBuffer(buffer);
    }
  if (failed(writeSegments()) || failed_)
    return failure();
  writeRuns();
  return success();
}

FailureOr<std::vector<uint8_t>> ProgramWriter::write() {
  auto programs = module.getOps<exec::ProgramOp>();
  if (programs.empty())
    return module.emitError("expects an exec.program");
  writeHeader();
  writeKernels();
  for (exec::ProgramOp op : programs) {
    if (failed(writeStage(op)))
      return failure();
    program.threads = op.getThreads();
  }

  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, &program), fb::ProgramIdentifier());
  return runtime::sealProgram(builder.GetBufferPointer(), builder.GetSize());
}

FailureOr<std::vector<uint8_t>>
cleave::emit::emitProgram(ModuleOp module, const ProgramInfo &info) {
  return ProgramWriter(module, info).write();
}
