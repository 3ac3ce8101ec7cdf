//===- ExplainCommand.cpp - cleave explain --------------------------------===//
#include "CommandLine.h"
#include "PlanFlags.h"
#include "cleave/Search/Explain.h"
#include "cleave/Search/ReadPlan.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace cleave;

namespace {
struct ExplainFlags {
  std::string model, cluster, plan, profile;
  std::vector<std::string> whyNot;
  bool json = false;
};
} // namespace

static llvm::Expected<SavedPlan> loadSavedPlan(llvm::StringRef path) {
  constexpr uint64_t mostBytes = 16 << 20;
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer)
    return llvm::createStringError(path + ": " + buffer.getError().message());
  if ((*buffer)->getBufferSize() > mostBytes)
    return llvm::createStringError(path + ": is too large to be a plan");
  return readPlan((*buffer)->getBuffer(), path);
}

static int runExplain(const ExplainFlags &flags) {
  llvm::Expected<SavedPlan> plan = loadSavedPlan(flags.plan);
  if (!plan)
    return tool::fail(plan.takeError());
  tool::PlanFlags common;
  common.model = flags.model;
  common.cluster = flags.cluster;
  common.dtype = getName(plan->work.dtype).str();
  common.seqLen = plan->work.seqLen;
  common.globalBatch = plan->work.globalBatch;
  common.profile = flags.profile.empty() ? plan->profile : flags.profile;
  llvm::Expected<tool::Planned> planned = common.load();
  if (!planned)
    return tool::fail(planned.takeError());
  SearchRequest &request = planned->request;
  request.memoryLimit = plan->memoryLimit;
  request.constraints = plan->constraints;
  request.objective = plan->objective;
  PlanContext context{planned->model, planned->machine, request};
  llvm::Expected<Candidate> candidate = priceAgain(*plan, context);
  if (!candidate)
    return tool::fail(candidate.takeError());
  std::vector<Constraint> constraints;
  for (const std::string &text : flags.whyNot) {
    llvm::Expected<Constraint> constraint =
        parseConstraint(text, /*forbids=*/false);
    if (!constraint)
      return tool::fail("--why-not " + llvm::toString(constraint.takeError()));
    constraints.push_back(*constraint);
  }
  Explanation explanation = explain(context, *candidate);
  std::optional<Alternative> alternative;
  if (!constraints.empty())
    alternative = findAlternative(context, *candidate, constraints);
  if (flags.json) {
    llvm::outs() << llvm::formatv(
        "{0:2}\n",
        llvm::json::Value(toJSON(context, explanation,
                                 alternative ? &*alternative : nullptr)));
    return 0;
  }
  printExplanation(llvm::outs(), context, explanation);
  if (alternative)
    printAlternative(llvm::outs(), context, *alternative, *candidate);
  return 0;
}

void tool::addExplainCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App *command = app.add_subcommand(
      "explain", "Say what binds a plan, what a slower link does to it, and "
                 "why another layout is not the best");
  command
      ->add_option("model", flags->model,
                   "folder with a config.json, or that file")
      ->required();
  addRecipeFlag(*command);
  command
      ->add_option("--plan", flags->plan,
                   "what cleave plan -o wrote; - is stdin")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--cluster", flags->cluster,
                   "the plan's: hardware preset and number of devices "
                   "(h100-sxm:512), local, local:N, or a cluster.json")
      ->required();
  command->add_option("--profile", flags->profile,
                      "the plan's, if that was a .json file");
  command
      ->add_option("--why-not", flags->whyNot,
                   "compare with the best layout of these, as in --pin of "
                   "cleave plan: tp=4,pp<=2")
      ->type_name("FIELD=VALUE,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "print JSON (docs/planner.md)");
  command->callback(
      [flags, &run] { run = [flags] { return runExplain(*flags); }; });
}
