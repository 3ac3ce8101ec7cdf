//===- ProgramJSON.cpp - An executable as JSON ----------------------------===//
#include "ProgramJSON.h"
#include "CudaReport.h"
#include "runtime/program/Work.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using runtime::toSpan;
using runtime::toView;
namespace fb = cleave::program;
namespace json = llvm::json;

namespace {
/// Writes what is on a mesh of named axes.
class Writer {
public:
  explicit Writer(const runtime::Program &program) : program(program) {}

  json::Array writeAxes(std::span<const uint8_t> axes) const {
    json::Array names;
    for (uint8_t axis : axes)
      names.push_back(getText(program->axes()->Get(axis)->name()));
    return names;
  }

  json::Object writeOperand(const fb::Operand &operand) const {
    json::Object object{{"offset", operand.offset()},
                        {"bytes", operand.bytes()}};
    if (operand.places() > 0) {
      object["places"] = operand.places();
      object["stride"] = operand.stride();
    }
    return object;
  }

  /// What states and outputs have in common.
  template <class Table>
  json::Object writeTensor(const Table &table) const {
    json::Object object = writeOperand(*table.operand());
    object["name"] = getText(table.name());
    object["dtype"] = runtime::toSnakeCase(fb::EnumNameDType(table.dtype()));
    object["shape"] = writeSizes(toSpan(table.shape()));
    object["logical"] = writeSizes(toSpan(table.logical()));
    json::Array dims;
    forEach(table.dims(), [&](const fb::DimAxes &dim) {
      dims.push_back(writeAxes(toSpan(dim.axes())));
    });
    object["dims"] = std::move(dims);
    return object;
  }

  json::Object writeInstruction(const fb::Instruction &instruction) const;

  static std::string getText(const flatbuffers::String *text) {
    return json::fixUTF8(toView(text));
  }

  template <class Table, class Visit>
  static void
  forEach(const flatbuffers::Vector<flatbuffers::Offset<Table>> *all,
          Visit visit) {
    for (size_t i = 0; i != runtime::getSize(all); ++i)
      visit(*all->Get(flatbuffers::uoffset_t(i)));
  }

private:
  static json::Array writeSizes(std::span<const uint64_t> sizes) {
    return json::Array(sizes);
  }

  const runtime::Program &program;
};
} // namespace

json::Object
Writer::writeInstruction(const fb::Instruction &instruction) const {
  json::Array operands;
  for (const fb::Operand &operand : toSpan(instruction.operands()))
    operands.push_back(writeOperand(operand));
  json::Object object{{"opcode", fb::EnumNameOpcode(instruction.work_type())},
                      {"name", getText(instruction.name())},
                      {"category", getText(instruction.category())},
                      {"operands", std::move(operands)},
                      {"flops", instruction.flops()}};
  if (!toSpan(instruction.group()).empty())
    object["group"] = writeAxes(toSpan(instruction.group()));
  if (instruction.stream() > 0)
    object["stream"] = int64_t(instruction.stream());
  if (instruction.event() > 0)
    object["event"] = int64_t(instruction.event());
  if (auto waits = toSpan(instruction.waits()); !waits.empty())
    object["waits"] = json::Array(waits);
  if (instruction.with_next())
    object["with_next"] = true;
  json::Object parameters;
  for (const runtime::WorkField &field :
       runtime::getWorkFields(instruction.work_type())) {
    std::string name(field.name);
    using Kind = runtime::WorkField::Kind;
    if (field.kind == Kind::Real) {
      parameters[name] = getReal(instruction.work(), field);
      continue;
    }
    int64_t value = getInteger(instruction.work(), field);
    parameters[name] = field.kind == Kind::Enum
                           ? json::Value(getEnumName(field, value))
                       : field.kind == Kind::Flag ? json::Value(value != 0)
                                                  : json::Value(value);
  }
  if (!parameters.empty())
    object["parameters"] = std::move(parameters);
  return object;
}

/// A JSON text that the program carries.
static json::Value parseText(const flatbuffers::String *text) {
  std::string utf8 = Writer::getText(text);
  if (llvm::Expected<json::Value> value = json::parse(utf8))
    return std::move(*value);
  else
    llvm::consumeError(value.takeError());
  return utf8;
}

json::Object tool::toJSON(const Executable &executable) {
  const runtime::Program &program = executable.program;
  Writer writer(program);
  json::Array mesh, memory, kernels, states, outputs, instructions, segments,
      runs, stages;
  Writer::forEach(program->axes(), [&](const fb::Axis &axis) {
    mesh.push_back(json::Object{{"name", Writer::getText(axis.name())},
                                {"size", axis.size()}});
  });
  Writer::forEach(program->kernels(), [&](const fb::Kernel &kernel) {
    kernels.push_back(json::Object{
        {"symbol", Writer::getText(kernel.symbol())},
        {"mode", runtime::toSnakeCase(fb::EnumNameKernelMode(kernel.mode()))},
        {"rows", kernel.rows()},
        {"columns", kernel.columns()},
        {"grain", kernel.grain()}});
  });
  runtime::Stage largest = program.getStage(0);
  for (size_t number = 0; number != program.getStageCount(); ++number) {
    runtime::Stage stage = program.getStage(number);
    auto add = [&](json::Array &list, json::Object object) {
      object["stage"] = number;
      list.push_back(std::move(object));
    };
    Writer::forEach(stage->memory(), [&](const fb::Category &category) {
      add(memory, json::Object{{"category", Writer::getText(category.name())},
                               {"bytes", category.bytes()}});
    });
    Writer::forEach(stage->states(), [&](const fb::State &state) {
      json::Object object = writer.writeTensor(state);
      object["role"] = Writer::getText(state.role());
      add(states, std::move(object));
    });
    Writer::forEach(stage->outputs(), [&](const fb::Output &output) {
      json::Object object = writer.writeTensor(output);
      object["partial"] = writer.writeAxes(toSpan(output.partial()));
      add(outputs, std::move(object));
    });
    Writer::forEach(stage->instructions(), [&](const fb::Instruction &each) {
      add(instructions, writer.writeInstruction(each));
    });
    Writer::forEach(stage->segments(), [&](const fb::Segment &segment) {
      add(segments, json::Object{{"name", Writer::getText(segment.name())},
                                 {"begin", segment.begin()},
                                 {"end", segment.end()}});
    });
    for (const fb::Run &run : stage.getRuns())
      add(runs, json::Object{{"segment", run.segment()},
                             {"micro_batch", run.micro_batch()},
                             {"first", run.first()}});
    stages.push_back(
        json::Object{{"arena_bytes", stage->arena_bytes()},
                     {"lower_bound_bytes", stage->lower_bound_bytes()},
                     {"update_run", stage->update_run()}});
    if (stage->arena_bytes() > largest->arena_bytes())
      largest = stage;
  }
  json::Object object{
      {"version", 1},
      {"format_version", program->version()},
      {"ranks", program.getWorldSize()},
      {"mesh", std::move(mesh)},
      {"threads", program->threads()},
      {"cpu", Writer::getText(program->cpu())},
      {"isa", fb::EnumNameIsa(program->isa())},
      {"seq_len", program->seq_len()},
      {"global_batch", program->global_batch()},
      {"micro_batches", program->micro_batches()},
      {"batch_axes", writer.writeAxes(toSpan(program->batch_axes()))},
      {"vocab", program->vocab()},
      {"arena_bytes", largest->arena_bytes()},
      {"lower_bound_bytes", largest->lower_bound_bytes()},
      {"flops_per_step", program->flops_per_step()},
      {"memory", std::move(memory)},
      {"plan", parseText(program->plan())},
      {"model", parseText(program->model())},
      {"stage_axis", writer.writeAxes(program.getStageAxes())},
      {"stages", std::move(stages)},
      {"states", std::move(states)},
      {"outputs", std::move(outputs)},
      {"kernels", std::move(kernels)},
      {"instructions", std::move(instructions)},
      {"segments", std::move(segments)},
      {"runs", std::move(runs)},
      {"update_run", program.getStage(0)->update_run()}};
  if (!program.getCleaveVersion().empty())
    object["cleave"] = json::fixUTF8(program.getCleaveVersion());
  if (executable.cuda)
    object["cuda"] = toJSON(makeCudaReport(executable), *executable.cuda);
  return object;
}
