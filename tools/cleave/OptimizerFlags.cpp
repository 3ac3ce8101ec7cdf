//===- OptimizerFlags.cpp - Flags of the optimizer ------------------------===//
#include "CompileFlags.h"
#include "passes/Grad/Optimizers.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

namespace {
/// A number that some optimizers have; see Optimizers.h.
struct HyperparameterFlag {
  const char *name, *help;
  double BuildStepPassOptions::*value;
  const tool::NumberRule *rule;
};
} // namespace

static const HyperparameterFlag hyperparameterFlags[] = {
    {"beta1",
     "decay of the first moment; of lion: the moment's share of a step",
     &BuildStepPassOptions::beta1, &tool::shareRule},
    {"beta2", "decay of the second moment; of lion: of the moment",
     &BuildStepPassOptions::beta2, &tool::shareRule},
    {"eps", "added to the root of the second moment",
     &BuildStepPassOptions::eps, &tool::positiveNumberRule},
    {"momentum", "decay of the moment", &BuildStepPassOptions::momentum,
     &tool::shareRule},
};

/// What a hyperparameter is, who has it, and whose default is another than the
/// one that is shown.
static std::string explain(const HyperparameterFlag &flag, double shown) {
  std::string text =
      std::string(flag.help) + " (" + listOptimizers(flag.name) + ")";
  for (const Optimizer &optimizer : getOptimizers())
    if (std::optional<double> standard = optimizer.getStandard(flag.name);
        standard && *standard != shown)
      text += llvm::formatv("; {0}'s default is {1}", optimizer.name,
                            llvm::format("%g", *standard));
  return text;
}

llvm::Error tool::completeOptimizer(const CLI::App &app,
                                    BuildStepPassOptions &options) {
  const Optimizer &optimizer = *findOptimizer(options.optimizer);
  for (const HyperparameterFlag &flag : hyperparameterFlags) {
    std::string name = makeFlag(flag.name);
    bool given = app.get_option(name)->count() > 0;
    std::optional<double> standard = optimizer.getStandard(flag.name);
    if (given && !standard)
      return llvm::createStringError(name + ": only --optimizer " +
                                     listOptimizers(flag.name) +
                                     " has it, not " + options.optimizer);
    if (!given && standard)
      options.*flag.value = *standard;
  }
  return llvm::Error::success();
}

void tool::addOptimizerFlags(CLI::App &app, BuildStepPassOptions &options) {
  CLI::Validator rate = makeCheck(rateRule);
  app.add_option("--lr", options.lr, "peak learning rate")
      ->check(rate)
      ->capture_default_str();
  app.add_option("--min-lr", options.minLr, "learning rate after the decay")
      ->check(rate)
      ->capture_default_str();
  app.add_option("--warmup-steps", options.warmupSteps, "linear warm-up")
      ->check(makeCountCheck())
      ->capture_default_str();
  app.add_option("--decay-steps", options.decaySteps,
                 "step at which the decay ends; 0: the run's last")
      ->check(makeCountCheck())
      ->capture_default_str();
  app.add_option("--stable-steps", options.stableSteps,
                 "steps at the peak before the decay of wsd")
      ->check(makeCountCheck())
      ->capture_default_str();
  app.add_option("--lr-schedule", options.schedule,
                 "shape of the learning rate")
      ->check(CLI::IsMember(scheduleNames))
      ->capture_default_str();
  // A pipeline has a schedule too.
  addHiddenFlag(app, "--schedule", [](llvm::StringRef) {
    return "the learning rate's is --lr-schedule, the pipeline's "
           "--pipeline-schedule";
  });
  app.add_option("--optimizer", options.optimizer,
                 "what updates the parameters; muon is for matrices between "
                 "hidden vectors, with adamw for the others; whichever it is, "
                 "the planner counts adamw's two moments")
      ->check(CLI::IsMember(optimizerNames))
      ->capture_default_str();
  addMomentsFlag(app, options.moments);
  for (const HyperparameterFlag &flag : hyperparameterFlags)
    app.add_option(makeFlag(flag.name), options.*flag.value,
                   explain(flag, options.*flag.value))
        ->check(makeCheck(*flag.rule))
        ->capture_default_str();
  app.add_option("--weight-decay", options.weightDecay,
                 "weight decay of matrices; decoupled, but of sgd added to the "
                 "gradient")
      ->check(rate)
      ->capture_default_str();
  app.add_option("--clip", options.clip,
                 "bound of the global gradient norm; 0: none")
      ->check(rate)
      ->capture_default_str();
}
