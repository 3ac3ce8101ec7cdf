//===- EstimateCommand.cpp - cleave estimate ------------------------------===//
#include "CommandLine.h"
#include "Files.h"
#include "PlanFlags.h"
#include "ProgramTimes.h"
#include "cleave/Json/Json.h"
#include "cleave/Search/PlanFile.h"
#include "cleave/Simulate/Simulate.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>

using namespace cleave;
namespace json = llvm::json;

namespace {
struct EstimateFlags {
  tool::PlanFlags common;
  tool::ProgramFlags program; ///< where the model is an executable
  std::map<std::string, std::optional<std::string>> layout; ///< by field
  std::string plan, batch, trace;
  bool json = false;
};
} // namespace

/// A legal layout of a batch; errors begin with `where`.
static llvm::Expected<TrainLayout> readBatchLine(llvm::StringRef line,
                                                 const std::string &where,
                                                 const PlanContext &context) {
  llvm::Expected<json::Object> row = parseJsonObject(line, where);
  if (!row)
    return row.takeError();
  llvm::Expected<TrainLayout> layout = readLayout(*row);
  if (!layout)
    return llvm::createStringError(where + ": " +
                                   llvm::toString(layout.takeError()));
  completeLayout(*layout, context.request.work, context.machine.devices);
  std::string wrong = checkLayout(context.model, context.machine,
                                  context.request.work, *layout);
  if (!wrong.empty())
    return llvm::createStringError(where + ": " + wrong);
  return layout;
}

/// Prices each line; what is wrong with a line is in its place.
static int runBatch(const EstimateFlags &flags, const PlanContext &context) {
  CostModel costs(context.model, context.machine, context.request.work,
                  context.request.profile);
  auto buffer =
      llvm::MemoryBuffer::getFileOrSTDIN(flags.batch, /*IsText=*/true);
  if (!buffer)
    return tool::fail(flags.batch + ": " + buffer.getError().message());
  int failed = 0;
  for (llvm::line_iterator line(**buffer); !line.is_at_end(); ++line) {
    std::string where =
        llvm::formatv("{0}: line {1}", flags.batch, line.line_number());
    llvm::Expected<TrainLayout> layout = readBatchLine(*line, where, context);
    if (!layout) {
      ++failed;
      std::string wrong = llvm::toString(layout.takeError());
      llvm::outs() << json::Value(json::Object{{"error", wrong}}) << '\n';
      continue;
    }
    Candidate candidate{*layout, costs.price(*layout), 0};
    llvm::outs() << json::Value(toJSON(context, candidate)) << '\n';
  }
  return failed > 0 ? 1 : 0;
}

/// The layout that the flags say.
static llvm::Expected<TrainLayout> readFlags(const EstimateFlags &flags,
                                             const PlanContext &context) {
  json::Object fields;
  for (const auto &[field, text] : flags.layout)
    if (text) {
      TrainLayout any;
      if (!setField(any, field, *text))
        return llvm::make_error<tool::UsageError>(
            llvm::formatv("--{0}: value \"{1}\": expects {2}", field, *text,
                          getLegalValues(field))
                .str());
      fields[field] = *text;
    }
  llvm::Expected<TrainLayout> layout = readLayout(fields);
  if (!layout)
    return llvm::make_error<tool::UsageError>(
        llvm::toString(layout.takeError()));
  completeLayout(*layout, context.request.work, context.machine.devices);
  return layout;
}

/// Prices the layout of the flags or of the plan file.
static llvm::Expected<Candidate> priceOne(const EstimateFlags &flags,
                                          const PlanContext &context) {
  if (!flags.plan.empty()) {
    auto text = tool::loadPlanText(flags.plan);
    if (!text)
      return text.takeError();
    llvm::Expected<PlanFile> file =
        parsePlanFile((*text)->getBuffer(), flags.plan);
    if (!file)
      return file.takeError();
    return price(*file, context);
  }
  llvm::Expected<TrainLayout> layout = readFlags(flags, context);
  if (!layout)
    return layout.takeError();
  const SearchRequest &request = context.request;
  std::string wrong =
      checkLayout(context.model, context.machine, request.work, *layout);
  if (!wrong.empty())
    return llvm::createStringError(wrong);
  CostModel costs(context.model, context.machine, request.work,
                  request.profile);
  return Candidate{*layout, costs.price(*layout), 0};
}

static llvm::Error writeTrace(const std::string &path,
                              const PlanContext &context,
                              const TrainLayout &layout) {
  constexpr int64_t mostOps = 1 << 20;
  const SearchRequest &request = context.request;
  int64_t ops = request.work.globalBatch / (layout.dp * layout.microBatch) *
                layout.pp * layout.virtualStages;
  if (ops > mostOps)
    return llvm::createStringError(llvm::formatv(
        "--trace: {0} forward passes of stages are too many, at most {1}; "
        "expects a smaller --global-batch or a larger --micro-batch",
        ops, mostOps));
  // A plan of the least cost may use a part of the devices.
  Machine used = resize(context.machine, layout.getDevices());
  CostModel costs(context.model, used, request.work, request.profile);
  std::string text;
  llvm::raw_string_ostream os(text);
  PipelineStep step = costs.getPipelineStep(layout);
  printTrace(os, step, simulate(step));
  return tool::writeFile(path, text);
}

/// Where else than in flags the layouts are; the help would name that with each
/// of these if CLI11 knew.
static llvm::Error checkExcluded(const EstimateFlags &flags) {
  std::string what = !flags.batch.empty()
                         ? "--batch, whose lines are the layouts"
                     : !flags.plan.empty() ? "--plan, which is the layout"
                                           : "";
  if (what.empty())
    return llvm::Error::success();
  auto fail = [&](const std::string &flag) {
    return llvm::make_error<tool::UsageError>(flag + " excludes " + what);
  };
  for (const auto &[field, text] : flags.layout)
    if (text)
      return fail("--" + field);
  return llvm::Error::success();
}

/// A step of an executable.
static int runProgram(const EstimateFlags &flags) {
  tool::TimedProgram timed;
  if (llvm::Error error =
          flags.program.load(flags.common.model, flags.common.cluster,
                             flags.common.profile, timed))
    return tool::failPlan(std::move(error));
  TaskSimulation simulation =
      simulate(timed.tasks, timed.times, /*keepSpans=*/!flags.trace.empty());
  if (!flags.trace.empty()) {
    std::string text;
    llvm::raw_string_ostream os(text);
    printTrace(os, timed.tasks, simulation);
    if (llvm::Error error = tool::writeFile(flags.trace, text))
      return tool::fail(std::move(error));
  }
  if (flags.json)
    llvm::outs() << llvm::formatv(
        "{0:2}\n", json::Value(tool::toJSON(timed, simulation, nullptr)));
  else
    tool::printSimulation(llvm::outs(), timed, simulation);
  return 0;
}

static int runEstimate(const EstimateFlags &flags) {
  if (llvm::Error error = checkExcluded(flags))
    return tool::failPlan(std::move(error));
  llvm::Expected<tool::Planned> planned = flags.common.load();
  if (!planned)
    return tool::failPlan(planned.takeError());
  PlanContext context{planned->model, planned->machine, planned->request};
  if (!flags.batch.empty())
    return runBatch(flags, context);
  llvm::Expected<Candidate> priced = priceOne(flags, context);
  if (!priced)
    return tool::failPlan(priced.takeError());
  const Candidate &candidate = *priced;
  std::string lacks =
      checkAbilities(planned->request.profile, candidate.layout);
  if (!lacks.empty())
    llvm::errs() << "cleave: note: " << lacks << '\n';
  if (!flags.trace.empty())
    if (llvm::Error error = writeTrace(flags.trace, context, candidate.layout))
      return tool::fail(std::move(error));
  if (flags.json)
    llvm::outs() << llvm::formatv("{0:2}\n",
                                  json::Value(toJSON(context, candidate)));
  else
    printCandidate(llvm::outs(), context, candidate);
  return 0;
}

/// What is true or false may be given without a value, as `compile` takes it.
static CLI::Option *addFieldFlag(CLI::App &app, llvm::StringRef field,
                                 std::optional<std::string> &value) {
  std::string name = "--" + field.str();
  return field == "sequence-parallel"
             ? app.add_flag(name, value, getMeaning(field))
             : app.add_option(name, value, getMeaning(field));
}

void tool::addEstimateCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<EstimateFlags>();
  CLI::App *command = app.add_subcommand(
      "estimate", "Price one layout, or thousands, or an executable's own "
                  "instructions: seconds, MFU, memory");
  flags->common.add(*command);
  flags->program.add(*command, {"--seq-len", "--global-batch"});
  auto *batch = command->add_option(
      "--batch", flags->batch,
      "a layout a line, as JSON with these keys; prints a line for each");
  command
      ->add_option("--plan", flags->plan,
                   "a layout as a file, plan.json: by hand or of cleave plan "
                   "-o; - is stdin")
      ->type_name("FILE")
      ->excludes(batch);
  const char *group = "Layout (defaults: 1, 1f1b, even, none; of the "
                      "micro-batch the largest that leaves as many "
                      "micro-batches as stages)";
  for (llvm::StringRef field : getLayoutFields())
    addFieldFlag(*command, field, flags->layout[field.str()])->group(group);
  command
      ->add_option("--trace", flags->trace,
                   "write the simulated step for ui.perfetto.dev")
      ->excludes(batch);
  command->add_flag("--json", flags->json, "print JSON (docs/planner.md)");
  command->callback([flags, command, &run] {
    bool isProgram =
        flags->program.check(*command, flags->common.model,
                             {"--cluster", "--profile", "--trace", "--json"});
    run = [flags, isProgram] {
      return isProgram ? runProgram(*flags) : runEstimate(*flags);
    };
  });
}
