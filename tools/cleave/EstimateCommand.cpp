//===- EstimateCommand.cpp - cleave estimate ------------------------------===//
#include "CommandLine.h"
#include "Files.h"
#include "PlanFlags.h"
#include "cleave/Json/Json.h"
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
  std::map<std::string, std::optional<std::string>> layout; ///< by field
  bool sequenceParallel = false;
  std::string batch, trace;
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
  llvm::Expected<TrainLayout> layout =
      readLayout(*row, context.machine, context.request.work);
  if (!layout)
    return llvm::createStringError(where + ": " +
                                   llvm::toString(layout.takeError()));
  std::string wrong = checkLayout(context.model, context.machine,
                                  context.request.work, *layout);
  if (!wrong.empty())
    return llvm::createStringError(where + ": " + wrong);
  return layout;
}

/// Prices each line; what is wrong with a line is in its place.
static int runBatch(const EstimateFlags &flags, const PlanContext &context,
                    CostModel &costs) {
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

static int runEstimate(const EstimateFlags &flags) {
  auto failBatch = [](llvm::StringRef flag) {
    return tool::failUsage("--" + flag +
                           " excludes --batch, whose lines are the layouts");
  };
  for (const auto &[field, text] : flags.layout)
    if (text && !flags.batch.empty())
      return failBatch(field);
  if (flags.sequenceParallel && !flags.batch.empty())
    return failBatch("sequence-parallel");
  llvm::Expected<tool::Planned> planned = flags.common.load();
  if (!planned)
    return tool::failPlan(planned.takeError());
  PlanContext context{planned->model, planned->machine, planned->request};
  CostModel costs(planned->model, planned->machine, planned->request.work,
                  planned->request.profile);
  if (!flags.batch.empty())
    return runBatch(flags, context, costs);
  json::Object fields;
  for (const auto &[field, text] : flags.layout)
    if (text) {
      TrainLayout any;
      if (!setField(any, field, *text))
        return tool::failUsage(
            llvm::formatv("--{0}: value \"{1}\": expects {2}", field, *text,
                          getLegalValues(field))
                .str());
      fields[field] = *text;
    }
  if (flags.sequenceParallel)
    fields["sp"] = "true";
  llvm::Expected<TrainLayout> layout =
      readLayout(fields, planned->machine, planned->request.work);
  if (!layout)
    return tool::failUsage(llvm::toString(layout.takeError()));
  std::string wrong = checkLayout(planned->model, planned->machine,
                                  planned->request.work, *layout);
  if (!wrong.empty())
    return tool::fail(wrong);
  std::string lacks = checkAbilities(planned->request.profile, *layout);
  if (!lacks.empty())
    llvm::errs() << "cleave: note: " << lacks << '\n';
  Candidate candidate{*layout, costs.price(*layout), 0};
  if (!flags.trace.empty()) {
    constexpr int64_t mostOps = 1 << 20;
    const SearchRequest &request = planned->request;
    int64_t ops = request.work.globalBatch / (layout->dp * layout->microBatch) *
                  layout->pp * layout->virtualStages;
    if (ops > mostOps)
      return tool::fail(llvm::formatv(
          "--trace: {0} forward passes of stages are too many, at most {1}; "
          "expects a smaller --global-batch or a larger --micro-batch",
          ops, mostOps));
    std::string text;
    llvm::raw_string_ostream os(text);
    PipelineStep step = costs.getPipelineStep(*layout);
    printTrace(os, step, simulate(step));
    if (llvm::Error error = tool::writeFile(flags.trace, text))
      return tool::fail(std::move(error));
  }
  if (flags.json)
    llvm::outs() << llvm::formatv("{0:2}\n",
                                  json::Value(toJSON(context, candidate)));
  else
    printCandidate(llvm::outs(), context, candidate);
  return 0;
}

void tool::addEstimateCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<EstimateFlags>();
  CLI::App *command = app.add_subcommand(
      "estimate", "Price one layout, or thousands: seconds, MFU, memory");
  flags->common.add(*command);
  auto *batch = command->add_option(
      "--batch", flags->batch,
      "a layout a line, as JSON with these keys; prints a line for each");
  const char *group = "Layout (defaults: 1, 1f1b, even, none; of the "
                      "micro-batch the largest that leaves as many "
                      "micro-batches as stages)";
  for (llvm::StringRef field : getLayoutFields())
    command
        ->add_option("--" + field.str(), flags->layout[field.str()],
                     getMeaning(field))
        ->group(group);
  command
      ->add_flag("--sequence-parallel", flags->sequenceParallel,
                 "--sp true, as it is called where that is compiled")
      ->group(group)
      ->excludes(command->get_option("--sp"));
  command
      ->add_option("--trace", flags->trace,
                   "write the simulated step for ui.perfetto.dev")
      ->excludes(batch);
  command->add_flag("--json", flags->json, "print JSON (docs/planner.md)");
  command->callback(
      [flags, &run] { run = [flags] { return runEstimate(*flags); }; });
}
