//===- Print.cpp ----------------------------------------------------------===//
#include "runtime/program/Print.h"
#include "runtime/base/Quote.h"
#include "runtime/program/Work.h"
#include <cstdarg>
#include <cstdio>

using namespace cleave::runtime;
namespace fb = cleave::program;

static std::string getName(fb::DType type) {
  return toSnakeCase(fb::EnumNameDType(type));
}

namespace {

std::string formatNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::string describeField(const fb::Instruction &instruction,
                          const WorkField &field) {
  if (field.kind == WorkField::Kind::Real)
    return formatNumber(getReal(instruction.work(), field));
  int64_t value = getInteger(instruction.work(), field);
  return field.values ? getEnumName(field, value) : std::to_string(value);
}

/// A name without its quotes, where it stands in a column of its own.
std::string showName(std::string_view name) {
  std::string quoted = quote(name);
  return quoted.substr(1, quoted.size() - 2);
}

class Printer {
public:
  explicit Printer(const fb::Program &program) : program(&program) {}

  void printSummary(const Program &loaded);
  void printPlan();
  void printKernels();
  void printMemory(const Stage &stage);
  void printStates(const Stage &stage);
  void printRuns(const Stage &stage);
  void printInstructions(const Stage &stage);
  std::string describeInstruction(const fb::Instruction &instruction) const;

  std::string text;

private:
  __attribute__((format(printf, 2, 3))) void add(const char *format, ...);
  std::string describeAxes(std::span<const uint8_t> axes) const;
  std::string describePlacement(
      const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *dims,
      std::span<const uint8_t> partial) const;
  static std::string describeShape(std::span<const uint64_t> shape,
                                   std::span<const uint64_t> logical);

  /// "memory at the peak", "stage 1: memory at the peak".
  void addTitle(const Stage &stage, const char *title) {
    text += "\n" + stage.getLabel() + (stage.getLabel().empty() ? "" : ": ") +
            title + "\n";
  }

  const fb::Program *program;
};

void Printer::add(const char *format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  if (size > 0) {
    size_t before = text.size();
    text.resize(before + size_t(size) + 1);
    std::vsnprintf(text.data() + before, size_t(size) + 1, format, again);
    text.pop_back();
  }
  va_end(again);
}

std::string Printer::describeAxes(std::span<const uint8_t> axes) const {
  std::string result = "{";
  for (uint8_t axis : axes)
    result += (result.size() > 1 ? ", " : "") +
              showName(toView(program->axes()->Get(axis)->name()));
  return result + "}";
}

std::string Printer::describePlacement(
    const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *dims,
    std::span<const uint8_t> partial) const {
  std::string result = "[";
  for (size_t d = 0; d < getSize(dims); ++d)
    result +=
        (d ? ", " : "") +
        describeAxes(toSpan(dims->Get(flatbuffers::uoffset_t(d))->axes()));
  result += "]";
  if (!partial.empty())
    result += " partial " + describeAxes(partial);
  return result;
}

std::string Printer::describeShape(std::span<const uint64_t> shape,
                                   std::span<const uint64_t> logical) {
  std::string result;
  for (size_t d = 0; d < shape.size(); ++d) {
    result += (d ? "x" : "") + std::to_string(logical[d]);
    if (shape[d] != logical[d])
      result += "(" + std::to_string(shape[d]) + ")";
  }
  return result.empty() ? "scalar" : result;
}

void Printer::printSummary(const Program &loaded) {
  add("program of format version %u\n", program->version());
  if (!loaded.getCleaveVersion().empty())
    add("made by       cleave %s\n",
        showName(loaded.getCleaveVersion()).c_str());
  add("mesh          ");
  for (size_t i = 0; i < getSize(program->axes()); ++i) {
    const fb::Axis *axis = program->axes()->Get(flatbuffers::uoffset_t(i));
    add("%s%s=%llu", i ? " x " : "", showName(toView(axis->name())).c_str(),
        static_cast<unsigned long long>(axis->size()));
  }
  add("%s%d rank%s of %u thread%s\n", getSize(program->axes()) ? ", " : "",
      loaded.getWorldSize(), loaded.getWorldSize() == 1 ? "" : "s",
      program->threads(), program->threads() == 1 ? "" : "s");
  add("CPU           %s, with %s\n", showName(toView(program->cpu())).c_str(),
      fb::EnumNameIsa(program->isa()));
  add("batch         %llu sequence%s of %llu token%s, %llu micro-batch%s, "
      "split over %s\n",
      static_cast<unsigned long long>(program->global_batch()),
      program->global_batch() == 1 ? "" : "s",
      static_cast<unsigned long long>(program->seq_len()),
      program->seq_len() == 1 ? "" : "s",
      static_cast<unsigned long long>(program->micro_batches()),
      program->micro_batches() == 1 ? "" : "es",
      describeAxes(toSpan(program->batch_axes())).c_str());
  add("vocabulary    %llu\n",
      static_cast<unsigned long long>(program->vocab()));
  auto forEachStage = [&](auto &&print) {
    for (size_t i = 0; i < loaded.getStageCount(); ++i) {
      std::string label = loaded.getStage(i).getLabel();
      print(loaded.getStage(i), label.empty() ? "" : label + ": ");
    }
  };
  forEachStage([&](const Stage &stage, const std::string &label) {
    add("arena         %s%llu bytes a rank, lower bound %llu\n", label.c_str(),
        static_cast<unsigned long long>(stage->arena_bytes()),
        static_cast<unsigned long long>(stage->lower_bound_bytes()));
  });
  add("model FLOPs   %s a step\n",
      formatNumber(program->flops_per_step()).c_str());
  forEachStage([&](const Stage &stage, const std::string &label) {
    add("instructions  %s%zu, kernels %zu, states %zu, outputs %zu\n",
        label.c_str(), stage.getInstructionCount(), getSize(program->kernels()),
        getSize(stage->states()), getSize(stage->outputs()));
  });
}

void Printer::printPlan() {
  text += "\nplan\n";
  std::string_view plan = toView(program->plan());
  text.append(plan);
  if (!plan.ends_with('\n'))
    text += '\n';
}

void Printer::printMemory(const Stage &stage) {
  addTitle(stage, "memory at the peak");
  text += "         bytes   share  category\n";
  for (size_t i = 0; i < getSize(stage->memory()); ++i) {
    const fb::Category *category =
        stage->memory()->Get(flatbuffers::uoffset_t(i));
    add("%14llu  %5.1f%%  %s\n",
        static_cast<unsigned long long>(category->bytes()),
        100.0 * double(category->bytes()) / double(stage->arena_bytes()),
        showName(toView(category->name())).c_str());
  }
}

void Printer::printStates(const Stage &stage) {
  addTitle(stage, "states");
  text += "        offset          bytes  type  what\n";
  auto printRow = [&](const fb::Operand &operand, fb::DType type,
                      const std::string &what) {
    add("%14llu %14llu  %-4s  %s\n",
        static_cast<unsigned long long>(operand.offset()),
        static_cast<unsigned long long>(operand.bytes()), getName(type).c_str(),
        what.c_str());
  };
  for (size_t i = 0; i < getSize(stage->states()); ++i) {
    const fb::State *state = stage->states()->Get(flatbuffers::uoffset_t(i));
    printRow(
        *state->operand(), state->dtype(),
        showName(toView(state->role())) + " " +
            showName(toView(state->name())) + " " +
            describeShape(toSpan(state->shape()), toSpan(state->logical())) +
            " " + describePlacement(state->dims(), {}));
  }
  addTitle(stage, "outputs");
  text += "        offset          bytes  type  what\n";
  for (size_t i = 0; i < getSize(stage->outputs()); ++i) {
    const fb::Output *output = stage->outputs()->Get(flatbuffers::uoffset_t(i));
    printRow(
        *output->operand(), output->dtype(),
        showName(toView(output->name())) + " " +
            describeShape(toSpan(output->shape()), toSpan(output->logical())) +
            " " + describePlacement(output->dims(), toSpan(output->partial())));
  }
}

void Printer::printKernels() {
  std::vector<uint64_t> launches(getSize(program->kernels()));
  for (size_t s = 0; s < getSize(program->stages()); ++s) {
    Stage stage(*program, s);
    for (size_t i = 0; i < stage.getInstructionCount(); ++i)
      if (auto *launch = stage.getInstruction(i).work_as_Launch())
        ++launches[size_t(launch->kernel())];
  }
  text += "\nkernels\n          rows   columns     grain  launches  symbol\n";
  for (size_t i = 0; i < launches.size(); ++i) {
    const fb::Kernel *kernel =
        program->kernels()->Get(flatbuffers::uoffset_t(i));
    add("%14llu %9llu %9llu %9llu  %s\n",
        static_cast<unsigned long long>(kernel->rows()),
        static_cast<unsigned long long>(kernel->columns()),
        static_cast<unsigned long long>(kernel->grain()),
        static_cast<unsigned long long>(launches[i]),
        showName(toView(kernel->symbol())).c_str());
  }
}

std::string
Printer::describeInstruction(const fb::Instruction &instruction) const {
  std::string line;
  if (!toView(instruction.category()).empty())
    line += showName(toView(instruction.category())) + " ";
  line += fb::EnumNameOpcode(instruction.work_type());
  bool isLaunch = instruction.work_type() == fb::Opcode::Launch;
  if (isLaunch)
    line += " " + showName(toView(getKernel(*program, instruction).symbol()));
  if (!toView(instruction.name()).empty())
    line += " " + quote(toView(instruction.name()));
  std::string separator = " (";
  for (const fb::Operand &operand : toSpan(instruction.operands())) {
    line += separator + std::to_string(operand.offset()) + "+" +
            std::to_string(operand.bytes());
    if (operand.places() > 0)
      line += "*" + std::to_string(operand.places());
    if (operand.places() > 0 && operand.stride() != operand.bytes())
      line += "/" + std::to_string(operand.stride());
    separator = ", ";
  }
  if (separator != " (")
    line += ")";
  separator = " ";
  if (!isLaunch)
    for (const WorkField &field : getWorkFields(instruction.work_type())) {
      line += separator + std::string(field.name) + "=" +
              describeField(instruction, field);
      separator = ", ";
    }
  if (auto group = toSpan(instruction.group()); !group.empty())
    line += " over " + describeAxes(group);
  if (instruction.stream() > 0)
    line += " in stream " + std::to_string(instruction.stream());
  if (instruction.event() > 0)
    line += " records " + std::to_string(instruction.event());
  separator = " waits ";
  for (uint32_t event : toSpan(instruction.waits())) {
    line += separator + std::to_string(event);
    separator = ", ";
  }
  if (instruction.with_next())
    line += " with the next";
  return line;
}

/// Runs of successive micro-batches as one line.
void Printer::printRuns(const Stage &stage) {
  addTitle(stage, "runs");
  std::span<const fb::Run> runs = stage.getRuns();
  for (size_t begin = 0; begin < runs.size();) {
    size_t end = begin + 1;
    while (end < runs.size() && end != stage->update_run() &&
           runs[end].segment() == runs[begin].segment() &&
           runs[end].micro_batch() == runs[end - 1].micro_batch() + 1)
      ++end;
    const fb::Segment &segment = stage.getSegment(runs[begin].segment());
    add("%6zu  %s", begin, showName(toView(segment.name())).c_str());
    if (end - begin > 1)
      add(", micro-batches %u to %u", runs[begin].micro_batch(),
          runs[end - 1].micro_batch());
    else if (stage.countRuns(runs[begin].segment()) > 1)
      add(", micro-batch %u", runs[begin].micro_batch());
    add("%s\n", begin == stage->update_run() ? ", begins the update" : "");
    begin = end;
  }
}

void Printer::printInstructions(const Stage &stage) {
  printRuns(stage);
  addTitle(stage, "instructions");
  for (size_t s = 0; s < stage.getSegmentCount(); ++s) {
    const fb::Segment &segment = stage.getSegment(s);
    add("        %s:\n", showName(toView(segment.name())).c_str());
    for (uint64_t i = segment.begin(); i < segment.end(); ++i)
      add("%6llu    %s\n", static_cast<unsigned long long>(i),
          describeInstruction(stage.getInstruction(i)).c_str());
  }
}

} // namespace

std::string cleave::runtime::printProgram(const Program &program,
                                          const PrintOptions &options) {
  Printer printer(program.get());
  auto forEachStage = [&](auto &&print) {
    for (size_t i = 0; i < program.getStageCount(); ++i)
      print(program.getStage(i));
  };
  if (options.summary)
    printer.printSummary(program);
  if (options.plan)
    printer.printPlan();
  if (options.memory)
    forEachStage([&](const Stage &stage) { printer.printMemory(stage); });
  if (options.states)
    forEachStage([&](const Stage &stage) { printer.printStates(stage); });
  if (options.kernels)
    printer.printKernels();
  if (options.instructions)
    forEachStage([&](const Stage &stage) { printer.printInstructions(stage); });
  return std::move(printer.text);
}

std::string cleave::runtime::printInstruction(const Stage &stage,
                                              size_t index) {
  return Printer(stage.getProgram())
      .describeInstruction(stage.getInstruction(index));
}

std::string cleave::runtime::describeInstruction(const Stage &stage,
                                                 size_t index) {
  const fb::Instruction &instruction = stage.getInstruction(index);
  return stage.getLabel() + (stage.getLabel().empty() ? "" : ", ") +
         "instruction " + std::to_string(index) + " (" +
         fb::EnumNameOpcode(instruction.work_type()) + " " +
         quote(toView(instruction.name())) + ")";
}
