//===- Verify.cpp - Structure, mesh, batch, kernels -----------------------===//
#include "runtime/program/Verify.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Quote.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Program.h"
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <unordered_set>

using namespace cleave::runtime;
namespace fb = cleave::program;

/// Whether the elements lie as their type asks; FlatBuffers' own verifier looks
/// at the vector's length only.
template <typename T>
static bool isAligned(const flatbuffers::Vector<T> *v) {
  using Element = std::remove_const_t<std::remove_pointer_t<T>>;
  return !v || reinterpret_cast<uintptr_t>(v->Data()) % alignof(Element) == 0;
}

static bool areVectorsAligned(const fb::Stage &stage) {
  for (const fb::State *state : toList(stage.states()))
    if (!isAligned(state->shape()) || !isAligned(state->logical()) ||
        !isAligned(state->source_shape()) || !isAligned(state->view()) ||
        !isAligned(state->starts()))
      return false;
  for (const fb::Output *output : toList(stage.outputs()))
    if (!isAligned(output->shape()) || !isAligned(output->logical()))
      return false;
  for (const fb::Instruction *instruction : toList(stage.instructions()))
    if (!isAligned(instruction->operands()) || !isAligned(instruction->waits()))
      return false;
  return true;
}

static bool areVectorsAligned(const fb::Program &program) {
  for (const fb::Kernel *kernel : toList(program.kernels()))
    if (!isAligned(kernel->accesses()))
      return false;
  for (const fb::Stage *stage : toList(program.stages()))
    if (!areVectorsAligned(*stage))
      return false;
  return true;
}

Status cleave::runtime::verifyStructure(const void *buffer, size_t size) {
  auto damaged = [](const char *how) {
    return Status::error(std::string("the program is damaged: ") + how);
  };
  // The root offset and the identifier; FlatBuffers reads both unchecked.
  if (size < 8 || size > limits::programBytes)
    return damaged("its size is not that of a FlatBuffer");
  const auto *bytes = static_cast<const uint8_t *>(buffer);
  // Every table has at least 4 bytes of its own in an honest buffer.
  auto maxTables =
      flatbuffers::uoffset_t(std::min<uint64_t>(size / 4, uint64_t(1) << 24));
  flatbuffers::Verifier verifier(bytes, size, /*max_depth=*/16, maxTables);
  if (!fb::ProgramBufferHasIdentifier(buffer))
    return damaged("the identifier in its FlatBuffer is not \"CLVE\"");
  if (!fb::VerifyProgramBuffer(verifier))
    return damaged("an offset in its FlatBuffer points outside of it");
  if (!areVectorsAligned(*fb::GetProgram(buffer)))
    return damaged("a vector in its FlatBuffer is not aligned");
  return {};
}

Status cleave::runtime::verifyPlaces(const Stage &stage,
                                     const fb::Operand &operand,
                                     const std::string &label) {
  auto bad = [&](const std::string &how) {
    return Status::error(label + " at offset " +
                         std::to_string(operand.offset()) + how);
  };
  if (operand.bytes() == 0)
    return bad(" without bytes");
  if (operand.offset() % limits::alignment != 0)
    return bad(", expects a multiple of 64");
  uint64_t microBatches = stage.getProgram().micro_batches();
  if (operand.places() > microBatches)
    return bad(" with " + std::to_string(operand.places()) +
               " places, expects 0 to the " + std::to_string(microBatches) +
               " micro-batches");
  if (operand.places() == 0 && operand.stride() != 0)
    return bad(" with a stride of " + std::to_string(operand.stride()) +
               " and no places, expects a stride of 0");
  if (operand.places() > 0 && operand.stride() < operand.bytes())
    return bad(" with a stride of " + std::to_string(operand.stride()) +
               ", expects at least the " + std::to_string(operand.bytes()) +
               " bytes of a place");
  // Vectors and tensor cores begin where operands do. Only what is written and
  // read as a whole too, as token ids, lies without a gap.
  if (operand.places() > 1 && operand.stride() % limits::alignment != 0 &&
      operand.stride() != operand.bytes())
    return bad(" with a stride of " + std::to_string(operand.stride()) +
               ", expects a multiple of 64, or the " +
               std::to_string(operand.bytes()) + " bytes of a place");
  auto end = getOperandEnd(operand, stage->arena_bytes());
  if (!end)
    return bad(" with " + std::to_string(operand.bytes()) + " bytes in " +
               std::to_string(operand.places()) +
               " places, outside the arena of " +
               std::to_string(stage->arena_bytes()) + " bytes");
  size_t buffers = getSize(stage->buffers());
  if (operand.buffer() == 0 || operand.buffer() > buffers)
    return bad(" in buffer " + std::to_string(operand.buffer()) +
               ", expects one of 1 to " + std::to_string(buffers));
  const fb::Buffer &buffer = *stage->buffers()->Get(operand.buffer() - 1);
  if (operand.offset() < buffer.offset() ||
      *end > buffer.offset() + buffer.bytes())
    return bad(" to " + std::to_string(*end) +
               ", expects to lie in its buffer " +
               std::to_string(operand.buffer()) + ", which has " +
               std::to_string(buffer.bytes()) + " bytes at " +
               std::to_string(buffer.offset()));
  return {};
}

std::optional<uint64_t>
cleave::runtime::getOperandEnd(const fb::Operand &operand,
                               uint64_t arenaBytes) {
  uint64_t others = operand.places() > 1 ? operand.places() - 1 : 0;
  auto shift = multiplyChecked({operand.stride(), others});
  auto end = addChecked(operand.offset(), operand.bytes());
  if (!shift || !end)
    return std::nullopt;
  end = addChecked(*end, *shift);
  return end && *end <= arenaBytes ? end : std::nullopt;
}

std::optional<ByteRange>
cleave::runtime::getTouchedBytes(const fb::Kernel &kernel,
                                 const fb::Access &access) {
  uint64_t lastRow = (kernel.rows() - 1) / access.row_div();
  if (access.row_mod() > 0)
    lastRow = std::min(lastRow, access.row_mod() - 1);
  auto last = multiplyChecked({lastRow, access.row_stride()});
  if (last && access.col_stride())
    last = addChecked(*last, kernel.columns() - 1);
  if (last)
    last = addChecked(*last, access.offset());
  auto count = last ? addChecked(*last, 1) : std::nullopt;
  uint64_t element = getBytes(access.dtype());
  auto end = count ? multiplyChecked({*count, element}) : std::nullopt;
  if (!end)
    return std::nullopt;
  return ByteRange{access.offset() * element, *end};
}

namespace {

Status bad(const std::string &field, const std::string &value,
           const std::string &legal) {
  return Status::error("the program's " + field + " is " + value +
                       ", expects " + legal);
}

Status expectRange(const char *field, uint64_t value, uint64_t low,
                   uint64_t high) {
  if (value >= low && value <= high)
    return {};
  return bad(field, std::to_string(value),
             std::to_string(low) + " to " + std::to_string(high));
}

Status verifyAxes(const fb::Program &program) {
  CLEAVE_RETURN_IF_ERROR(expectRange("number of mesh axes",
                                     getSize(program.axes()), 0, limits::axes));
  std::unordered_set<std::string_view> names;
  uint64_t world = 1;
  for (size_t i = 0; i < getSize(program.axes()); ++i) {
    const fb::Axis *axis = program.axes()->Get(flatbuffers::uoffset_t(i));
    std::string_view name = toView(axis->name());
    if (name.empty() || !names.insert(name).second)
      return bad("mesh axis " + std::to_string(i), quote(name),
                 "a name of its own");
    auto product = multiplyChecked({world, axis->size()});
    if (axis->size() == 0 || !product || *product > limits::worldSize)
      return bad("mesh axis " + quote(name), std::to_string(axis->size()),
                 "a size of at least 1, and at most " +
                     std::to_string(limits::worldSize) + " ranks in all");
    world = *product;
  }
  return {};
}

Status verifyBatch(const fb::Program &program) {
  CLEAVE_RETURN_IF_ERROR(
      expectRange("vocab", program.vocab(), 1, limits::tokenIds));
  CLEAVE_RETURN_IF_ERROR(
      expectRange("seq_len", program.seq_len(), 1, limits::tokenIds));
  CLEAVE_RETURN_IF_ERROR(
      expectRange("global_batch", program.global_batch(), 1, limits::count));
  CLEAVE_RETURN_IF_ERROR(expectRange("micro_batches", program.micro_batches(),
                                     1, limits::tokenIds));
  uint64_t parts = program.micro_batches();
  uint32_t seen = 0;
  for (uint8_t axis : toSpan(program.batch_axes())) {
    if (axis >= getSize(program.axes()) || (seen >> axis & 1))
      return bad("batch_axes", "axis " + std::to_string(axis),
                 "distinct mesh axes");
    seen |= uint32_t(1) << axis;
    parts *= program.axes()->Get(axis)->size();
  }
  if (program.global_batch() % parts != 0)
    return bad("global_batch", std::to_string(program.global_batch()),
               "a multiple of the " + std::to_string(parts) +
                   " parts that micro-batches and batch_axes cut it into");
  auto bytes = multiplyChecked({program.global_batch() / parts,
                                program.micro_batches(), program.seq_len(), 4});
  if (!bytes || *bytes > limits::arenaBytes)
    return bad("batch", "too large", "token ids that fit the arena");
  return {};
}

/// The axis of the stages has as many ranks as there are stages.
Status verifyStageAxis(const fb::Program &program) {
  int axis = program.stage_axis();
  if (axis < -1 || axis >= int(getSize(program.axes())))
    return bad("stage_axis", std::to_string(axis),
               "-1, or one of the " + std::to_string(getSize(program.axes())) +
                   " mesh axes");
  uint64_t size =
      axis < 0 ? 1 : program.axes()->Get(flatbuffers::uoffset_t(axis))->size();
  if (getSize(program.stages()) != size)
    return bad(
        "number of stages", std::to_string(getSize(program.stages())),
        std::to_string(size) +
            (axis < 0 ? " without a stage_axis"
                      : ", as its axis " +
                            quote(toView(program.axes()
                                             ->Get(flatbuffers::uoffset_t(axis))
                                             ->name())) +
                            " has ranks"));
  for (uint8_t batch : toSpan(program.batch_axes()))
    if (batch == axis)
      return bad("batch_axes", "axis " + std::to_string(axis),
                 "none of them to be the stage_axis");
  return {};
}

/// Bytes of the token ids of a rank in a step.
uint64_t getTokenBytes(const fb::Program &program) {
  uint64_t parts = 1;
  for (uint8_t axis : toSpan(program.batch_axes()))
    parts *= program.axes()->Get(axis)->size();
  return program.global_batch() / parts * program.seq_len() * 4;
}

/// `operand`, i32 [micro_batches, local batch, seq_len], or absent.
Status verifyTokens(const Stage &stage, const fb::Operand *operand,
                    const char *field) {
  if (!operand)
    return {};
  uint64_t bytes = getTokenBytes(stage.getProgram());
  if (operand->bytes() != bytes)
    return bad(std::string(field) + " operand",
               std::to_string(operand->bytes()) + " bytes",
               std::to_string(bytes) +
                   ": i32 [micro_batches, local batch, seq_len]");
  if (operand->places() != 0)
    return bad(std::string(field) + " operand",
               "in " + std::to_string(operand->places()) + " places", "0");
  return verifyPlaces(stage, *operand,
                      "the program's " + std::string(field) + " operand is");
}

Status verifyCategories(const Stage &stage) {
  if (getSize(stage->memory()) == 0)
    return {};
  uint64_t sum = 0;
  for (const fb::Category *category : *stage->memory()) {
    auto next = addChecked(sum, category->bytes());
    if (!next)
      return bad("memory category " + quote(toView(category->name())),
                 std::to_string(category->bytes()) + " bytes",
                 "at most arena_bytes");
    sum = *next;
  }
  if (sum != stage->arena_bytes())
    return bad("memory categories' sum", std::to_string(sum),
               "arena_bytes, which is " + std::to_string(stage->arena_bytes()));
  return {};
}

Status verifyBuffers(const Stage &stage) {
  for (size_t i = 0; i < getSize(stage->buffers()); ++i) {
    const fb::Buffer &buffer =
        *stage->buffers()->Get(flatbuffers::uoffset_t(i));
    auto end = addChecked(buffer.offset(), buffer.bytes());
    if (buffer.bytes() == 0 || buffer.offset() % limits::alignment != 0 ||
        !end || *end > stage->arena_bytes())
      return bad("buffer " + std::to_string(i + 1),
                 std::to_string(buffer.bytes()) + " bytes at offset " +
                     std::to_string(buffer.offset()),
                 "some of the arena's, from a multiple of 64 on");
  }
  return {};
}

/// What binds the sizes of a kernel's loops: some access moves on with every
/// row, and some with every column, so an operand must have room for all.
Status verifyAccesses(const fb::Kernel &kernel, const std::string &label) {
  std::span<const fb::Access> accesses = toSpan(kernel.accesses());
  if (kernel.inputs() > accesses.size() || accesses.empty())
    return bad(label, "of " + std::to_string(kernel.inputs()) + " inputs",
               "at most its " + std::to_string(accesses.size()) +
                   " accesses, and one at least");
  if (kernel.accumulate() > fb::Accumulate::MAX)
    return bad(label,
               "of accumulate " + std::to_string(int(kernel.accumulate())),
               "0 to " + std::to_string(int(fb::Accumulate::MAX)));
  bool boundsRows = kernel.rows() == 1, boundsColumns = kernel.columns() == 1;
  for (const fb::Access &access : accesses) {
    if (access.row_div() < 1 || access.col_stride() > 1 ||
        access.dtype() > fb::DType::MAX)
      return bad(label,
                 "of an access with row_div " +
                     std::to_string(access.row_div()) + ", col_stride " +
                     std::to_string(int(access.col_stride())) + " and type " +
                     std::to_string(int(access.dtype())),
                 "row_div of at least 1, col_stride 0 or 1, and an element "
                 "type");
    boundsRows |= access.row_div() == 1 && access.row_mod() == 0 &&
                  access.row_stride() > 0;
    boundsColumns |= access.col_stride() == 1;
  }
  if (!boundsRows || !boundsColumns)
    return bad(label,
               "of " + std::to_string(kernel.rows()) + " rows and " +
                   std::to_string(kernel.columns()) + " columns",
               "an access to another element in each of them");
  return {};
}

Status verifyKernels(const fb::Program &program) {
  for (size_t i = 0; i < getSize(program.kernels()); ++i) {
    const fb::Kernel *kernel =
        program.kernels()->Get(flatbuffers::uoffset_t(i));
    std::string label = "kernel " + std::to_string(i);
    if (toView(kernel->symbol()).empty())
      return bad(label, "unnamed", "a symbol");
    label += " " + quote(toView(kernel->symbol()));
    if (kernel->rows() < 1 || kernel->rows() > limits::count)
      return bad(label, "of " + std::to_string(kernel->rows()) + " rows",
                 "1 to " + std::to_string(limits::count));
    if (kernel->columns() < 1 || kernel->columns() > limits::count)
      return bad(label, "of " + std::to_string(kernel->columns()) + " columns",
                 "1 to " + std::to_string(limits::count));
    if (kernel->mode() > fb::KernelMode::MAX)
      return bad(label, "of mode " + std::to_string(int(kernel->mode())),
                 "0 to " + std::to_string(int(fb::KernelMode::MAX)));
    CLEAVE_RETURN_IF_ERROR(verifyAccesses(*kernel, label));
    if (kernel->grain() < 1 || kernel->grain() > limits::count)
      return bad(label, "of grain " + std::to_string(kernel->grain()),
                 "1 to " + std::to_string(limits::count));
  }
  return {};
}

} // namespace

Status cleave::runtime::verifyHeader(const fb::Program &program) {
  if (program.version() != programVersion)
    return bad("version", std::to_string(program.version()),
               std::to_string(programVersion));
  CLEAVE_RETURN_IF_ERROR(
      expectRange("threads", program.threads(), 1, limits::threads));
  if (program.isa() > fb::Isa::MAX)
    return bad("isa", std::to_string(int(program.isa())),
               "0 to " + std::to_string(int(fb::Isa::MAX)));
  if (!std::isfinite(program.flops_per_step()) || program.flops_per_step() < 0)
    return bad("flops_per_step", std::to_string(program.flops_per_step()),
               "a number of at least 0");
  CLEAVE_RETURN_IF_ERROR(verifyAxes(program));
  CLEAVE_RETURN_IF_ERROR(verifyBatch(program));
  CLEAVE_RETURN_IF_ERROR(verifyStageAxis(program));
  return verifyKernels(program);
}

Status cleave::runtime::verifyMemory(const Stage &stage) {
  CLEAVE_RETURN_IF_ERROR(
      expectRange("arena_bytes", stage->arena_bytes(), 1, limits::arenaBytes));
  CLEAVE_RETURN_IF_ERROR(expectRange("lower_bound_bytes",
                                     stage->lower_bound_bytes(), 0,
                                     stage->arena_bytes()));
  CLEAVE_RETURN_IF_ERROR(verifyCategories(stage));
  CLEAVE_RETURN_IF_ERROR(verifyBuffers(stage));
  CLEAVE_RETURN_IF_ERROR(verifyTokens(stage, stage->tokens(), "tokens"));
  return verifyTokens(stage, stage->targets(), "targets");
}

static Status verifyStage(const Stage &stage) {
  CLEAVE_RETURN_IF_ERROR(verifyMemory(stage));
  CLEAVE_RETURN_IF_ERROR(verifyStates(stage));
  CLEAVE_RETURN_IF_ERROR(verifyOutputs(stage));
  CLEAVE_RETURN_IF_ERROR(verifyInstructions(stage));
  CLEAVE_RETURN_IF_ERROR(verifyRuns(stage));
  CLEAVE_RETURN_IF_ERROR(verifyBuckets(stage));
  CLEAVE_RETURN_IF_ERROR(verifyDataflow(stage));
  return verifyOrder(stage);
}

Status cleave::runtime::verifyProgram(const fb::Program &program) {
  CLEAVE_RETURN_IF_ERROR(verifyHeader(program));
  for (size_t i = 0; i < getSize(program.stages()); ++i) {
    Stage stage(program, i);
    Status status = verifyStage(stage);
    if (!status.ok() && !stage.getLabel().empty())
      return Status::error(stage.getLabel() + ": " + status.message());
    CLEAVE_RETURN_IF_ERROR(status);
  }
  CLEAVE_RETURN_IF_ERROR(verifyShared(program));
  return verifyMeetings(program);
}
