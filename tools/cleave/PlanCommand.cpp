//===- PlanCommand.cpp - cleave plan --------------------------------------===//
#include "CommandLine.h"
#include "Files.h"
#include "PlanFlags.h"
#include "cleave/Report/Report.h"
#include "cleave/Search/ReadPlan.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace cleave;

namespace {
struct PlanCommandFlags {
  tool::PlanFlags common;
  std::vector<std::string> pins, forbids;
  std::string objective = "time", output, report;
  int64_t top = 1, front = 0;
  std::vector<int64_t> sweep;
  bool json = false, runnable = false;
};
} // namespace

/// What a model's folder or file is called; its type if that is no name.
static llvm::StringRef getTitle(llvm::StringRef model, llvm::StringRef type) {
  llvm::StringRef path = model.rtrim('/');
  path.consume_back("/config.json");
  llvm::StringRef name = llvm::sys::path::filename(path);
  name.consume_back(".json");
  return name.empty() || name.starts_with(".") || name == "config" ? type
                                                                   : name;
}

static int runPlan(const PlanCommandFlags &flags) {
  llvm::Expected<tool::Planned> planned = flags.common.load();
  if (!planned)
    return tool::fail(planned.takeError());
  SearchRequest &request = planned->request;
  request.top = flags.top;
  for (Objective objective :
       {Objective::Time, Objective::Memory, Objective::Cost})
    if (flags.objective == getName(objective))
      request.objective = objective;
  if (request.objective == Objective::Cost &&
      !(planned->machine.device.pricePerHour > 0))
    return tool::fail("--objective cost: " + planned->machine.device.name +
                      " has no price");
  if (flags.output == "-" && flags.report == "-")
    return tool::fail("-o and --report: only one of them can be -");
  if (!flags.report.empty() && request.objective != Objective::Time)
    return tool::fail("--report: expects --objective time");
  for (bool forbids : {false, true})
    for (const std::string &text : forbids ? flags.forbids : flags.pins) {
      llvm::Expected<Constraint> constraint = parseConstraint(text, forbids);
      if (!constraint)
        return tool::fail((forbids ? "--forbid " : "--pin ") +
                          llvm::toString(constraint.takeError()));
      request.constraints.push_back(*constraint);
    }
  if (flags.runnable)
    llvm::append_range(request.constraints, getRunnable());
  PlanContext context{planned->model, planned->machine, request};
  const Machine &machine = planned->machine;
  for (int64_t devices : flags.sweep)
    if (devices > machine.devices)
      return tool::fail(llvm::formatv(
          "--sweep-devices {0}: expects numbers from 1 to the cluster's {1}",
          devices, machine.devices));
  if (!flags.sweep.empty() && machine.device.cores > 0)
    return tool::fail("--sweep-devices: ranks share a CPU; expects a plan for "
                      "each --cluster local:N");
  if (flags.front > 0) {
    llvm::Expected<std::vector<Candidate>> front = computeFront(
        planned->model, planned->machine, request, flags.front, flags.sweep);
    if (!front)
      return tool::fail(front.takeError());
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
    return tool::fail(result.takeError());
  if (!flags.output.empty()) {
    std::string text = llvm::formatv(
        "{0:2}\n", llvm::json::Value(toJSON(context, *result, false)));
    if (llvm::Error error = tool::writeFile(flags.output, text))
      return tool::fail(std::move(error));
  }
  if (!flags.report.empty()) {
    std::string page;
    llvm::raw_string_ostream os(page);
    printReport(os, getTitle(flags.common.model, planned->model.name), context,
                *result, computeReport(context, *result));
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
  printCandidate(llvm::outs(), context, result->best.front());
  printProof(llvm::outs(), context, *result);
  if (result->best.size() > 1) {
    llvm::outs() << '\n';
    printCandidates(llvm::outs(), context, result->best);
  }
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
                    "only what cleave compile --plan can run");
  auto *top =
      command->add_option("--top", flags->top, "how many of the best layouts")
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
