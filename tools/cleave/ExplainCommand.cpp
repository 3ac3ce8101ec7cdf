//===- ExplainCommand.cpp - cleave explain --------------------------------===//
#include "CommandLine.h"
#include "PlanFlags.h"
#include "ProgramTimes.h"
#include "cleave/Search/Explain.h"
#include "cleave/Search/PlanFile.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

namespace {
struct ExplainFlags {
  tool::PlanFlags common; ///< what of the plan's is empty or 0
  tool::ProgramFlags program;
  std::string plan, trace;
  std::vector<std::string> whyNot;
  bool json = false;
};
} // namespace

/// Each --why-not is a question of its own, of constraints with commas between
/// them.
static llvm::Expected<std::vector<std::vector<Constraint>>>
readQuestions(llvm::ArrayRef<std::string> texts) {
  std::vector<std::vector<Constraint>> questions;
  for (llvm::StringRef text : texts) {
    questions.emplace_back();
    llvm::SmallVector<llvm::StringRef> parts;
    text.split(parts, ',');
    for (llvm::StringRef part : parts) {
      llvm::Expected<Constraint> constraint =
          parseConstraint(part, /*forbids=*/false);
      if (!constraint)
        return llvm::make_error<tool::UsageError>(
            "--why-not " + llvm::toString(constraint.takeError()));
      questions.back().push_back(*constraint);
    }
  }
  return questions;
}

static int runExplain(const ExplainFlags &flags) {
  auto questions = readQuestions(flags.whyNot);
  if (!questions)
    return tool::failPlan(questions.takeError());
  auto text = tool::loadPlanText(flags.plan);
  if (!text)
    return tool::fail(text.takeError());
  llvm::Expected<PlanFile> file =
      parsePlanFile((*text)->getBuffer(), flags.plan);
  if (!file)
    return tool::fail(file.takeError());
  llvm::Expected<Planned> plan = getPlanned(*file);
  if (!plan)
    return tool::fail(plan.takeError());
  tool::PlanFlags common = flags.common;
  // Before what other devices have not is the error.
  llvm::Expected<Machine> machine = getMachine(common.cluster);
  if (!machine)
    return tool::fail(machine.takeError());
  if (llvm::Error error = checkDevices(*file, *machine))
    return tool::fail(std::move(error));
  if (common.dtype.empty())
    common.dtype = getName(plan->work.dtype).str();
  if (common.moments.empty())
    common.moments = getName(plan->work.moments).str();
  if (common.seqLen == 0)
    common.seqLen = plan->work.seqLen;
  if (common.globalBatch == 0)
    common.globalBatch = plan->work.globalBatch;
  if (common.profile.empty())
    common.profile = plan->profile;
  llvm::Expected<tool::Planned> planned = common.load();
  if (!planned)
    return tool::failPlan(planned.takeError());
  SearchRequest &request = planned->request;
  request.memoryLimit = plan->memoryLimit;
  request.constraints = plan->constraints;
  request.objective = plan->objective;
  PlanContext context{planned->model, planned->machine, request};
  llvm::Expected<Candidate> candidate = price(*file, context);
  if (!candidate)
    return tool::fail(candidate.takeError());
  Explanation explanation = explain(context, *candidate);
  std::vector<Alternative> alternatives;
  for (const std::vector<Constraint> &constraints : *questions)
    alternatives.push_back(findAlternative(context, *candidate, constraints));
  if (flags.json) {
    llvm::outs() << llvm::formatv(
        "{0:2}\n",
        llvm::json::Value(toJSON(context, explanation, alternatives)));
    return 0;
  }
  printExplanation(llvm::outs(), context, explanation);
  for (const Alternative &alternative : alternatives)
    printAlternative(llvm::outs(), context, alternative, *candidate);
  return 0;
}

/// Where what is predicted of an executable's step and a run of it part.
static int runProgram(const ExplainFlags &flags) {
  tool::TimedProgram timed;
  if (llvm::Error error =
          flags.program.load(flags.common.model, flags.common.cluster,
                             flags.common.profile, timed))
    return tool::failPlan(std::move(error));
  llvm::Expected<tool::MeasuredTasks> measured =
      tool::readTrace(flags.trace, timed.program, timed.tasks);
  if (!measured)
    return tool::fail(measured.takeError());
  TaskSimulation simulation = simulate(timed.tasks, timed.times);
  if (flags.json)
    llvm::outs() << llvm::formatv(
        "{0:2}\n",
        llvm::json::Value(tool::toJSON(timed, simulation, &*measured)));
  else
    tool::printComparison(llvm::outs(), timed, simulation, *measured);
  return 0;
}

void tool::addExplainCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App *command = app.add_subcommand(
      "explain", "Say what binds a plan, what a slower link does to it, and "
                 "why another layout is not the best; or where a run and what "
                 "is predicted of it part");
  command
      ->add_option("model", flags->common.model,
                   "folder with a config.json, or that file; or an executable, "
                   "with --trace")
      ->required();
  addRecipeFlag(*command);
  command
      ->add_option("--plan", flags->plan,
                   "what cleave plan -o wrote; - is stdin")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--cluster", flags->common.cluster,
                   "the plan's: hardware preset and number of devices "
                   "(h100-sxm:512), local, local:N, or a cluster.json; of an "
                   "executable what it ran on (default: local)")
      ->required();
  command
      ->add_option("--seq-len", flags->common.seqLen,
                   "tokens of a sequence; another number than the plan's is "
                   "refused, as are others of the next three (default: the "
                   "plan's)")
      ->check(makePositiveCheck());
  command
      ->add_option("--global-batch", flags->common.globalBatch,
                   "sequences of a step")
      ->check(makePositiveCheck());
  command->add_option("--dtype", flags->common.dtype, "of matrix products")
      ->check(CLI::IsMember(dtypeNames));
  flags->common.moments.clear();
  command
      ->add_option("--moments", flags->common.moments,
                   "of the optimizer, between steps")
      ->check(CLI::IsMember(momentNames));
  command->add_option("--profile", flags->common.profile,
                      "the plan's, if that was a .json file");
  command
      ->add_option("--why-not", flags->whyNot,
                   "compare with the best layout of these, as in --pin of "
                   "cleave plan: tp=4,pp<=2; each time it is given another "
                   "question")
      ->type_name("FIELD=VALUE,...")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "print JSON (docs/planner.md)");
  flags->program.add(*command, {"--plan", "--cluster"});
  CLI::Option *trace =
      command
          ->add_option("--trace", flags->trace,
                       "what train --trace wrote of the executable's run")
          ->type_name("TRACE")
          ->group("Of an executable in place of a model");
  command->callback([flags, command, trace, &run] {
    bool isProgram =
        flags->program.check(*command, flags->common.model,
                             {"--cluster", "--profile", "--trace", "--json"});
    if (isProgram != (trace->count() > 0))
      throw CLI::ValidationError(
          "--trace", isProgram ? "is missing: explain compares an executable's "
                                 "run with what is predicted of it"
                               : "is of an executable, and " +
                                     flags->common.model + " is none");
    run = [flags, isProgram] {
      return isProgram ? runProgram(*flags) : runExplain(*flags);
    };
  });
}
