//===- PlanCommand.cpp - cleave plan --------------------------------------===//
#include "ChoosePlan.h"
#include "Files.h"
#include "cleave/Report/Report.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace cleave;

namespace {
struct PlanCommandFlags {
  tool::PlanFlags common;
  std::vector<std::string> pins, forbids;
  std::string objective = "time", output, report;
  std::optional<double> tokens;
  int64_t top = 1, front = 0;
  std::vector<int64_t> sweep;
  bool json = false, runnable = false;
};
} // namespace

/// Days and price of a run of so many tokens, failures not counted.
static void printRun(llvm::raw_ostream &os, const PlanContext &context,
                     const Candidate &plan, double tokens) {
  const SearchRequest &request = context.request;
  double perStep =
      double(request.work.seqLen) * double(request.work.globalBatch);
  double steps = std::ceil(tokens / perStep);
  double seconds = steps * plan.estimate.step;
  printRow(os, "days",
           llvm::formatv("{0}", llvm::format("%.4g", seconds / 86400)),
           llvm::formatv("{0:N} steps for {1} tokens; cleave size adds what "
                         "failures cost",
                         int64_t(steps), llvm::format("%g", tokens)));
  const Device &device = context.machine.device;
  int64_t devices = plan.layout.getDevices();
  if (device.pricePerHour > 0)
    printRow(
        os, "price",
        llvm::formatv(
            "{0:N} USD",
            std::llround(seconds * getRate(Objective::Cost, device, devices))),
        llvm::formatv("{0} x {1} USD an hour", formatNumber(devices, "device"),
                      llvm::format("%g", device.pricePerHour)));
  else
    printRow(os, "price", "-", device.name + " has no price");
}

/// The model as `cleave compile` reads it; an error is what it would say.
static llvm::Expected<Model> loadRunnable(const tool::PlanFlags &flags,
                                          const Workload &work) {
  auto refuse = [](const llvm::Twine &why) {
    return llvm::createStringError("--runnable: " + why);
  };
  llvm::Expected<std::string> config = tool::findConfig(flags.model);
  if (!config)
    return config.takeError();
  llvm::Expected<Model> model = loadModel(*config, {.seqLen = flags.seqLen});
  if (!model)
    return refuse("cleave compile does not take this model: " +
                  llvm::toString(model.takeError()));
  llvm::Expected<Cluster> cluster = parseCluster(flags.cluster);
  if (!cluster)
    return cluster.takeError();
  if (llvm::Error error = cluster->checkCompiles())
    return refuse(llvm::toString(std::move(error)));
  if (work.dtype != DType::F32 && work.dtype != DType::BF16)
    return refuse("--dtype " + getName(work.dtype) +
                  ": cleave compile has f32 and bf16");
  return model;
}

static int runPlan(const PlanCommandFlags &flags) {
  llvm::Expected<tool::Planned> planned = flags.common.load();
  if (!planned)
    return tool::failPlan(planned.takeError());
  SearchRequest &request = planned->request;
  request.top = flags.top;
  for (Objective objective :
       {Objective::Time, Objective::Memory, Objective::Cost})
    if (flags.objective == getName(objective))
      request.objective = objective;
  if (request.objective == Objective::Cost &&
      !(planned->machine.device.pricePerHour > 0))
    return tool::failUsage("--objective cost: " + planned->machine.device.name +
                           " has no price");
  if (flags.output == "-" && flags.report == "-")
    return tool::failUsage("-o and --report: only one of them can be -");
  if (!flags.report.empty() && request.objective != Objective::Time)
    return tool::failUsage("--report: expects --objective time");
  for (bool forbids : {false, true})
    for (const std::string &text : forbids ? flags.forbids : flags.pins) {
      llvm::Expected<Constraint> constraint = parseConstraint(text, forbids);
      if (!constraint)
        return tool::failUsage((forbids ? "--forbid " : "--pin ") +
                               llvm::toString(constraint.takeError()));
      request.constraints.push_back(*constraint);
    }
  std::optional<Model> model;
  std::optional<tool::Runnable> runnable;
  if (flags.runnable) {
    llvm::Expected<Model> loaded = loadRunnable(flags.common, request.work);
    if (!loaded)
      return tool::fail(loaded.takeError());
    model = std::move(*loaded);
    runnable.emplace(*model, request.work);
    runnable->restrict(request);
  }
  auto failSearch = [&](llvm::Error error) {
    return tool::fail(runnable ? runnable->explain(std::move(error))
                               : std::move(error));
  };
  PlanContext context{planned->model, planned->machine, request};
  const Machine &machine = planned->machine;
  for (int64_t devices : flags.sweep)
    if (devices > machine.devices)
      return tool::failUsage(
          llvm::formatv("--sweep-devices {0}: expects numbers from 1 to the "
                        "cluster's {1}",
                        devices, machine.devices)
              .str());
  if (!flags.sweep.empty() && machine.device.cores > 0)
    return tool::failUsage("--sweep-devices: ranks share a CPU; expects a plan "
                           "for each --cluster local:N");
  if (flags.front > 0) {
    llvm::Expected<std::vector<Candidate>> front = [&] {
      tool::ProgressLine line("front");
      return computeFront(
          planned->model, planned->machine, request, flags.front, flags.sweep,
          [&](int64_t done, int64_t all) { line.show(done, all); });
    }();
    if (!front)
      return failSearch(front.takeError());
    if (flags.json) {
      llvm::json::Array points;
      for (const Candidate &candidate : *front)
        points.push_back(toJSON(context, candidate));
      llvm::outs() << llvm::formatv(
          "{0:2}\n", llvm::json::Value(llvm::json::Object{
                         {"version", 1}, {"front", std::move(points)}}));
    } else {
      printCandidates(llvm::outs(), context, *front);
    }
    return 0;
  }
  llvm::Expected<SearchResult> result =
      search(planned->model, planned->machine, request);
  if (!result)
    return failSearch(result.takeError());
  std::string text = llvm::formatv(
      "{0:2}\n", llvm::json::Value(toJSON(context, *result, false)));
  if (runnable)
    if (llvm::Expected<Plan> plan = runnable->read(text); !plan)
      return tool::fail("--runnable: cleave compile refuses " +
                        llvm::toString(plan.takeError()));
  if (!flags.output.empty()) {
    if (llvm::Error error = tool::writeFile(flags.output, text))
      return tool::fail(std::move(error));
  }
  if (!flags.report.empty()) {
    std::string page;
    llvm::raw_string_ostream os(page);
    Report report = [&] {
      tool::ProgressLine line("report");
      return computeReport(context, *result, [&](int64_t done, int64_t all) {
        line.show(done, all);
      });
    }();
    printReport(os, tool::getTitle(flags.common.model, planned->model.name),
                context, *result, report);
    if (llvm::Error error = tool::writeFile(flags.report, page))
      return tool::fail(std::move(error));
  }
  if (flags.output == "-" || flags.report == "-")
    return 0;
  if (flags.json) {
    llvm::outs() << llvm::formatv(
        "{0:2}\n", llvm::json::Value(toJSON(context, *result, true)));
    return 0;
  }
  const Candidate &best = result->best.front();
  printCandidate(llvm::outs(), context, best);
  if (flags.tokens)
    printRun(llvm::outs(), context, best, *flags.tokens);
  tool::printReasons(llvm::outs(), context, *result);
  return 0;
}

void tool::addPlanCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<PlanCommandFlags>();
  CLI::App *command = app.add_subcommand(
      "plan",
      "Find the best layout of a model on a cluster, proven: tp, pp and "
      "its schedule, cp, dp, ZeRO, ep, micro-batch, recomputation");
  flags->common.add(*command);
  std::string fields = llvm::join(getLayoutFields(), ", ");
  command
      ->add_option("--pin", flags->pins,
                   "what the layout must be: tp=8, pp<=16, schedule!=gpipe; "
                   "fields are " +
                       fields)
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--forbid", flags->forbids,
                   "what the layout must not be: pp>1")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--runnable", flags->runnable,
                    "only what cleave compile --plan can run, checked as it "
                    "does");
  tool::describe(command->add_option("--tokens", flags->tokens,
                                     "tokens of the run: prints its days and "
                                     "price"),
                 "D", {0, 1e21});
  auto *top =
      command
          ->add_option("--top", flags->top,
                       "how many of the best layouts, each of other degrees "
                       "or another schedule")
          ->check(CLI::Range(int64_t(1), int64_t(10000)))
          ->capture_default_str();
  auto *objective =
      command
          ->add_option(
              "--objective", flags->objective,
              "what is least: seconds of a step, bytes of a device, or "
              "USD of a step on any number of devices that divides the "
              "cluster's")
          ->check(CLI::IsMember({"time", "memory", "cost"}))
          ->capture_default_str();
  auto *front =
      command
          ->add_option(
              "--front", flags->front,
              "the front of time against memory: the fastest layouts at "
              "this many equal steps of it")
          ->check(CLI::Range(int64_t(1), int64_t(1000)))
          ->excludes(top)
          ->excludes(objective);
  command
      ->add_option("--sweep-devices", flags->sweep,
                   "the front over these numbers of devices as well, with "
                   "commas between them")
      ->delimiter(',')
      ->check(makePositiveCheck())
      ->needs(front);
  command
      ->add_option("-o", flags->output,
                   "write the plan as JSON; the same bytes each time")
      ->excludes(front);
  command
      ->add_option("--report", flags->report,
                   "write the plan as an HTML page: where time and memory go, "
                   "the pipeline, less memory, what binds")
      ->excludes(front);
  command->add_flag("--json", flags->json, "print JSON (docs/planner.md)");
  command->callback(
      [flags, &run] { run = [flags] { return runPlan(*flags); }; });
}
