//===- ExploreCommand.cpp - cleave explore --------------------------------===//
#include "CommandLine.h"
#include "Files.h"
#include "PlanFlags.h"
#include "Strategies.h"
#include "cleave/Report/StrategyReport.h"
#include "cleave/Search/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

namespace {
struct ExploreFlags {
  tool::StepFlags step;
  int64_t front = 0;
  std::vector<int64_t> compare;
  std::string op, report;
  bool json = false;
};
} // namespace

static void printFront(llvm::raw_ostream &os,
                       llvm::ArrayRef<NamedStrategy> front, size_t first) {
  os << "less memory, more time with nothing beside compute\n";
  for (auto [number, each] : llvm::enumerate(front)) {
    const ShardingChoice &choice = each.explored.choice;
    os << llvm::formatv("  {0,3}  {1,12}  {2,12} kept  {3,12} with "
                        "collectives beside compute\n",
                        first + number, cleave::formatSeconds(choice.seconds),
                        cleave::formatBytes(choice.bytes),
                        cleave::formatSeconds(choice.besideSeconds));
  }
}

static int runExplore(const ExploreFlags &flags) {
  if (flags.report == "-" && (flags.json || !flags.op.empty()))
    return tool::failUsage("--report -: writes to standard output, as --json "
                           "and --op do: expects one of them");
  llvm::Expected<tool::StepProblem> step = tool::loadStep(flags.step);
  if (!step)
    return tool::failPlan(step.takeError());
  std::vector<NamedStrategy> strategies;
  std::vector<std::string> files = {""};
  llvm::append_range(files, flags.step.tactics);
  // Reasons are given of the last alone.
  if (!flags.op.empty() && flags.report.empty())
    files = {files.back()};
  for (const std::string &file : files) {
    llvm::Expected<NamedStrategy> strategy = tool::readStrategy(*step, file);
    if (!strategy)
      return tool::fail(strategy.takeError());
    strategies.push_back(std::move(*strategy));
  }
  for (NamedStrategy &strategy : strategies)
    if (llvm::Error error = tool::chooseStrategy(*step, strategy))
      return tool::fail(std::move(error));
  size_t named = strategies.size();
  if (flags.front > 0) {
    auto front = tool::chooseFront(*step, size_t(flags.front));
    if (!front)
      return tool::fail(front.takeError());
    for (NamedStrategy &each : *front)
      strategies.push_back(std::move(each));
  }
  for (int64_t number : flags.compare)
    if (number > int64_t(strategies.size()))
      return tool::failUsage(
          llvm::formatv("--compare {0}: expects numbers from 1 to {1}, of the "
                        "strategies",
                        number, strategies.size())
              .str());
  auto get = [&](size_t at) -> const NamedStrategy & {
    return strategies[size_t(flags.compare[at]) - 1];
  };
  if (!flags.report.empty()) {
    StrategyReport report;
    report.title = tool::getTitle(flags.step.model, "a model").str();
    report.subtitle = llvm::formatv(
        "{0:N} x {1}, mesh {2}; {3} x {4} tokens a step in {5}",
        step->problem.mesh.getNumRanks(), step->machine.device.name,
        step->problem.mesh.getText(), step->globalBatch, step->seqLen,
        formatNumber(step->microBatches, "micro-batch"));
    report.strategies.assign(strategies.begin(), strategies.begin() + named);
    report.front.assign(strategies.begin() + named, strategies.end());
    std::string page;
    llvm::raw_string_ostream stream(page);
    printStrategyReport(stream, report);
    if (llvm::Error error = tool::writeFile(flags.report, page))
      return tool::fail(std::move(error));
    if (flags.report == "-")
      return 0;
  }
  llvm::raw_ostream &os = llvm::outs();
  if (!flags.op.empty()) {
    llvm::Error error =
        tool::printReasons(os, *step, strategies.back(), flags.op);
    return error ? tool::failPlan(std::move(error)) : 0;
  }
  if (flags.json) {
    llvm::json::Array all;
    for (const NamedStrategy &each : strategies)
      all.push_back(tool::toJSON(*step, each));
    llvm::json::Object object{{"version", 1},
                              {"mesh", step->problem.mesh.getText()},
                              {"memory", step->problem.memory},
                              {"seq_len", step->seqLen},
                              {"global_batch", step->globalBatch},
                              {"micro_batches", step->microBatches},
                              {"strategies", std::move(all)}};
    if (!flags.compare.empty())
      object["differences"] = tool::getDifferences(get(0), get(1));
    os << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
    return 0;
  }
  if (!flags.compare.empty()) {
    tool::printDifferences(os, get(0), get(1));
    return 0;
  }
  for (size_t number = 0; number != named; ++number) {
    os << (number > 0 ? "\n" : "") << number + 1 << ": ";
    tool::printStrategy(os, *step, strategies[number]);
  }
  if (flags.front > 0) {
    os << '\n';
    printFront(os, llvm::ArrayRef(strategies).drop_front(named), named + 1);
  }
  return 0;
}

void tool::addExploreCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<ExploreFlags>();
  CLI::App *command = app.add_subcommand(
      "explore", "Choose the placement of every tensor of a training step by "
                 "cost, and show it layer by layer");
  command
      ->add_option("model", flags->step.model,
                   "config.json, or the folder that has it")
      ->required();
  command
      ->add_option("--cluster", flags->step.cluster,
                   "as of cleave plan: h100-sxm:64, local:N, or a cluster.json")
      ->required();
  flags->step.add(*command);
  command
      ->add_option("--front", flags->front,
                   "and so many corners of the front of time against memory")
      ->check(CLI::Range(int64_t(2), int64_t(100)));
  command
      ->add_option(
          "--compare", flags->compare,
          "instead, op by op where two of the strategies differ, by "
          "their numbers: 1 is the one chosen by cost, then come those "
          "of --tactics, then the front")
      ->delimiter(',')
      ->expected(2)
      ->type_name("FROM,TO")
      ->check(makePositiveCheck());
  command
      ->add_option("--report", flags->report,
                   "write an HTML page, too: each kind of layer as a graph in "
                   "the colours of its placements, with the collectives on its "
                   "edges")
      ->type_name("FILE");
  command
      ->add_option("--op", flags->op,
                   "instead, why the ops of that name are placed as they are: "
                   "what each other way to split them would cost, with what is "
                   "around them chosen anew, and which tactic allows no other; "
                   "of the last --tactics, if there is one; * is any text")
      ->type_name("PATTERN")
      ->excludes(command->get_option("--compare"))
      ->excludes(command->get_option("--front"));
  command->add_flag("--json", flags->json, "print JSON (docs/sharding.md)")
      ->excludes(command->get_option("--op"));
  command->callback(
      [flags, &run] { run = [flags] { return runExplore(*flags); }; });
}
