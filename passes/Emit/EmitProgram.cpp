//===- EmitProgram.cpp - The instructions as a program file ---------------===//
#include "passes/Emit/EmitProgram.h"
#include "dialects/dist/Placements.h"
#include "dialects/dist/PlanAttr.h"
#include "dialects/exec/Work.h"
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
  ProgramWriter(ModuleOp module, const TargetCpu &cpu)
      : module(module), cpu(cpu) {
    if (dist::MeshOp op = dist::lookupMesh(module)) {
      mesh = op.getMesh();
      stageAxis = op.getStageAxis();
    }
  }

  FailureOr<std::vector<uint8_t>> write();

private:
  LogicalResult writeHeader();
  void writeKernels();
  LogicalResult writeStage(exec::ProgramOp op);
  void writeMemory();
  void writeBuffers();
  void writeStates();
  void writeOutputs();
  LogicalResult writeSegments();
  void writeRuns();
  LogicalResult writeInstruction(exec::InstructionOpInterface op);

  uint32_t getEvent(int64_t event);
  /// Of a buffer or a view of one; fails, and says so, of anything else.
  fb::Operand getOperand(Value value);
  fb::DType getType(Type type) {
    std::optional<fb::DType> known = exec::getDType(type);
    if (!known) {
      source.emitOpError("expects elements of f32, bf16 or i32, got ") << type;
      failed_ = true;
    }
    return known.value_or(fb::DType::F32);
  }
  /// Verifiers see to it that the mesh has them.
  std::vector<uint8_t> getAxes(ArrayAttr names) {
    AxisList axes = dist::getAxes(names, mesh);
    return {axes.begin(), axes.end()};
  }
  /// Placement of a tensor, one entry a dim.
  std::vector<std::unique_ptr<fb::DimAxesT>> getDims(RankedTensorType type);
  static std::vector<uint64_t> toU64(ArrayRef<int64_t> values) {
    return {values.begin(), values.end()};
  }

  ModuleOp module;
  const TargetCpu &cpu;
  Mesh mesh;
  std::optional<StringRef> stageAxis;
  fb::ProgramT program;
  exec::ProgramOp source; ///< of the stage at hand
  fb::StageT *stage = nullptr;
  llvm::StringMap<int64_t> kernels;
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

fb::Operand ProgramWriter::getOperand(Value value) {
  auto view = value.getDefiningOp<exec::ViewOp>();
  if (view)
    value = view.getBuffer();
  auto buffer = value.getDefiningOp<exec::BufferOp>();
  if (!buffer) {
    source.emitOpError("expects operands that are an exec.buffer or a view of "
                       "one");
    failed_ = true;
    return {};
  }
  return fb::Operand(
      buffer.getOffset().value_or(0) + (view ? view.getFrom() : 0),
      view ? view.getBytes() : buffer.getBytes(),
      view ? uint64_t(view.getDistance()) : 0,
      view ? uint32_t(view.getPlaces()) : 0, buffers.lookup(buffer));
}

LogicalResult ProgramWriter::writeHeader() {
  auto workloads = module.getOps<exec::WorkloadOp>();
  if (workloads.empty())
    return module.emitError("expects an exec.workload, which says what the "
                            "step trains");
  exec::WorkloadOp workload = *workloads.begin();
  program.version = runtime::programVersion;
  program.model = workload.getModel().value_or("").str();
  llvm::Expected<std::optional<Plan>> plan = dist::getPlan(module);
  if (!plan)
    return module.emitError(llvm::toString(plan.takeError()));
  if (*plan)
    program.plan = (*plan)->toJSON();
  for (const MeshAxis &axis : mesh.getAxes()) {
    auto out = std::make_unique<fb::AxisT>();
    out->name = axis.name;
    out->size = axis.size;
    program.axes.push_back(std::move(out));
  }
  if (stageAxis)
    program.stage_axis = int(*mesh.getAxisIndex(*stageAxis));
  program.vocab = workload.getVocab();
  program.seq_len = workload.getSeqLen();
  program.global_batch = workload.getGlobalBatch();
  program.micro_batches = workload.getMicroBatches();
  // Without a mesh there is nothing that axes could be of.
  if (!mesh.getAxes().empty())
    program.batch_axes = getAxes(workload.getBatchAxes());
  program.flops_per_step = workload.getFlops().convertToDouble();
  program.isa = cpu.isa;
  program.cpu = cpu.name;
  return success();
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

/// The scalar program of a kernel, braces included.
static std::string printBody(exec::KernelOp kernel) {
  OwningOpRef<exec::KernelOp> bare = kernel.clone();
  (*bare)->setDiscardableAttrs(DictionaryAttr::get(kernel.getContext()));
  (*bare).setSymName("kernel");
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*bare)->print(stream, OpPrintingFlags().useLocalScope());
  // Nothing before the body has a brace, and nothing comes after it.
  return text.substr(text.find('{'));
}

void ProgramWriter::writeKernels() {
  for (auto kernel : module.getOps<exec::KernelOp>()) {
    auto out = std::make_unique<fb::KernelT>();
    out->symbol = kernel.getSymName().str();
    out->mode = fb::KernelMode(kernel.getMode());
    out->rows = kernel.getRows();
    out->columns = kernel.getColumns();
    bool isColumn = kernel.getMode() == exec::KernelMode::Column;
    int64_t serial = isColumn ? kernel.getRows() : kernel.getColumns();
    // Column ranges stay whole cache lines.
    int64_t grain = std::max<int64_t>(grainElements / serial, 1);
    out->grain = isColumn ? (grain + 63) / 64 * 64 : grain;
    out->inputs = kernel.getInputs().size();
    for (ArrayAttr accesses : {kernel.getInputs(), kernel.getOutputs()})
      for (auto access : accesses.getAsRange<exec::AccessAttr>())
        out->accesses.emplace_back(access.getOffset(), access.getRowDiv(),
                                   access.getRowMod(), access.getRowStride(),
                                   access.getColStride(),
                                   *exec::getDType(access.getType()));
    out->accumulate = fb::Accumulate(kernel.getAccumulate());
    out->body = printBody(kernel);
    kernels[kernel.getSymName()] = int64_t(program.kernels.size());
    program.kernels.push_back(std::move(out));
  }
}

void ProgramWriter::writeBuffers() {
  buffers.clear();
  source.walk([&](exec::BufferOp buffer) {
    if (!buffer.getOffset()) {
      buffer.emitOpError("expects an offset");
      failed_ = true;
    }
    auto out = std::make_unique<fb::BufferT>();
    out->category = buffer.getCategory().str();
    out->offset = buffer.getOffset().value_or(0);
    out->bytes = buffer.getBytes();
    out->pinned = buffer.getPinned();
    stage->buffers.push_back(std::move(out));
    buffers[buffer] = uint32_t(stage->buffers.size());
  });
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
    if (std::optional<xf::PieceAttr> piece = state.getPiece()) {
      out->source = piece->getSource().str();
      out->source_shape = toU64(piece->getShape());
      out->view = toU64(piece->getView());
      out->starts = toU64(piece->getStarts());
      for (int64_t dim : piece->getDrop())
        out->drop.push_back(uint8_t(dim));
      if (std::optional<ArrayAttr> tied = state.getTied())
        for (auto name : tied->getAsValueRange<StringAttr>())
          out->tied.push_back(name.str());
    }
    if (state.getOf())
      out->of = state.getOf()->str();
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
    if (output.getState()) {
      out->state = output.getState()->str();
      auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
          source, output.getStateAttr());
      out->logical = toU64(state.getLogicalShape());
    }
    if (std::optional<ArrayRef<int64_t>> logical = output.getLogical())
      out->logical = toU64(*logical);
    stage->outputs.push_back(std::move(out));
  });
}

LogicalResult ProgramWriter::writeSegments() {
  for (auto segment : source.getOps<exec::SegmentOp>()) {
    auto out = std::make_unique<fb::SegmentT>();
    out->name = segment.getSymName().str();
    out->begin = stage->instructions.size();
    for (auto op :
         segment.getBody().front().getOps<exec::InstructionOpInterface>())
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

std::string cleave::emit::getInstructionName(Operation *op) {
  if (auto launch = dyn_cast<exec::LaunchOp>(op))
    return launch.getKernel().str();
  return op->getName().stripDialect().str();
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

LogicalResult ProgramWriter::writeInstruction(exec::InstructionOpInterface op) {
  // An op that is in no program may say so here.
  if (failed(exec::verifyWork(op)))
    return failure();
  auto out = std::make_unique<fb::InstructionT>();
  auto launch = dyn_cast<exec::LaunchOp>(*op);
  exec::EncodedWork work(op, launch ? kernels.lookup(launch.getKernel()) : 0);
  out->work.type = work.getOpcode();
  out->work.value =
      fb::OpcodeUnion::UnPack(work.get(), work.getOpcode(), nullptr);
  out->name = getInstructionName(op);
  if (std::string name = getLocName(op.getLoc()); !name.empty())
    out->name += " " + name;
  if (std::optional<xf::Phase> phase = xf::getPhase(op))
    out->category = xf::stringifyPhase(*phase).str();
  for (Value value : op->getOperands())
    out->operands.push_back(getOperand(value));
  if (ArrayAttr group = op.getGroup())
    out->group = getAxes(group);
  if (auto flops = op->getAttrOfType<FloatAttr>("flops"))
    out->flops = flops.getValueAsDouble();
  exec::OrderAttr order = exec::getOrder(op);
  out->stream = uint8_t(order.getStream());
  if (order.getEvent() > 0)
    out->event = getEvent(order.getEvent());
  for (int64_t event : order.getWaits())
    out->waits.push_back(getEvent(event));
  out->with_next = order.getWithNext();
  stage->instructions.push_back(std::move(out));
  return success();
}

LogicalResult ProgramWriter::writeStage(exec::ProgramOp op) {
  source = op;
  program.stages.push_back(std::make_unique<fb::StageT>());
  stage = program.stages.back().get();
  events.clear();
  writeMemory();
  writeBuffers();
  writeStates();
  writeOutputs();
  for (auto buffer : source.getOps<exec::BufferOp>())
    if (auto name = buffer->getAttrOfType<StringAttr>("data"))
      (name.getValue() == "ids" ? stage->tokens : stage->targets) =
          std::make_unique<fb::Operand>(getOperand(buffer));
  if (failed(writeSegments()) || failed_)
    return failure();
  writeRuns();
  return success();
}

FailureOr<std::vector<uint8_t>> ProgramWriter::write() {
  auto programs = module.getOps<exec::ProgramOp>();
  if (programs.empty())
    return module.emitError("expects an exec.program");
  if (failed(writeHeader()))
    return failure();
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
cleave::emit::emitProgram(ModuleOp module, const TargetCpu &cpu) {
  return ProgramWriter(module, cpu).write();
}
