//===- CommandLine.cpp - What the commands of cleave share ----------------===//
#include "CommandLine.h"
#include "cleave/Search/ReadPlan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace cleave;

int tool::fail(const llvm::Twine &message) {
  llvm::errs() << "cleave: error: " << message << "\n";
  return 1;
}

int tool::fail(llvm::Error error) {
  return fail(llvm::toString(std::move(error)));
}

std::string tool::getConfigPath(llvm::StringRef path) {
  llvm::SmallString<256> config(path);
  if (llvm::sys::fs::is_directory(path))
    llvm::sys::path::append(config, "config.json");
  return config.str().str();
}

static bool isCount(double value) {
  return value >= 0 && value <= double(tool::maxCount);
}

const tool::NumberRule tool::positiveRule{
    "POSITIVE", "an integer in 1..2147483647", true,
    [](double value) { return value > 0 && isCount(value); }},
    tool::countRule{"NONNEGATIVE", "an integer in 0..2147483647", true,
                    isCount},
    tool::rateRule{"NONNEGATIVE", "a finite number of at least 0", false,
                   [](double value) { return value >= 0; }},
    tool::shareRule{"in [0, 1)", "a number of at least 0 and below 1", false,
                    [](double value) { return value >= 0 && value < 1; }},
    tool::positiveNumberRule{"POSITIVE", "a finite number above 0", false,
                             [](double value) { return value > 0; }};

const std::vector<std::string> tool::dtypeNames{"f32", "bf16", "fp8", "fp4"},
    tool::scheduleNames{"constant", "cosine", "linear", "wsd"};

CLI::Validator tool::makeCheck(const NumberRule &rule) {
  auto allows = [&rule](llvm::StringRef text) {
    int64_t whole;
    if (rule.isWhole)
      return !text.getAsInteger(10, whole) && rule.allows(double(whole));
    double value;
    return llvm::to_float(text, value) && std::isfinite(value) &&
           rule.allows(value);
  };
  return CLI::Validator(
      [=, &rule](std::string &text) {
        return allows(text) ? "" : "\"" + text + "\" is not " + rule.legal;
      },
      rule.shown, "");
}

CLI::Validator tool::makePositiveCheck() { return makeCheck(positiveRule); }

CLI::Validator tool::makeCountCheck() { return makeCheck(countRule); }

CLI::Validator tool::makePositiveNumberCheck() {
  return makeCheck(positiveNumberRule);
}

void tool::LayoutFlags::add(CLI::App &app) {
  auto *dp = app.add_option("--dp", layout.dp, "data-parallel degree")
                 ->check(makePositiveCheck());
  auto *tp = app.add_option("--tp", layout.tp, "tensor-parallel degree")
                 ->check(makePositiveCheck());
  auto *zero =
      app.add_option("--zero", layout.zero,
                     "ZeRO stage: 1 splits optimizer state over dp, 2 also "
                     "gradients, 3 also parameters")
          ->check(CLI::IsMember({"0", "1", "2", "3"}));
  auto *sp = app.add_flag("--sequence-parallel", layout.sequenceParallel,
                          "split activations outside of attention and MLP "
                          "along the sequence over tp");
  app.add_option("--plan", planPath,
                 "plan.json, in place of the flags above; by hand, or of "
                 "cleave plan --runnable -o")
      ->excludes(dp)
      ->excludes(tp)
      ->excludes(zero)
      ->excludes(sp);
  app.add_option("--micro-batch", microBatch,
                 "samples of one rank in one micro-batch (default: all of its "
                 "share of the global batch)")
      ->check(makePositiveCheck());
  app.add_option("--cluster", cluster,
                 "local (as many ranks as the layout needs), local:N, or a "
                 "cluster.json of CPUs")
      ->capture_default_str();
  app.add_option("--dtype", dtype, "compute type; state is f32")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
}

llvm::Expected<Plan> tool::LayoutFlags::getPlan(const Model &model,
                                                BatchShape &batch,
                                                const Cluster &where) const {
  auto makeError = [](const llvm::Twine &message) {
    return llvm::createStringError(message.str());
  };
  if (llvm::Error error = where.checkCompiles())
    return error;
  llvm::Expected<Plan> plan = Plan();
  batch.microBatch = microBatch;
  if (planPath.empty()) {
    plan = makePlan(layout, batch);
    if (plan)
      batch.microBatch = batch.globalBatch / (plan->microBatches * layout.dp);
  } else {
    plan = loadAnyPlan(planPath, model.modelType, batch,
                       dtype == "bf16" ? DType::BF16 : DType::F32);
    if (plan) {
      int64_t samples = plan->mesh.getSize(plan->getAxes("batch"));
      int64_t derived = batch.globalBatch / (plan->microBatches * samples);
      if (batch.microBatch && batch.microBatch != derived)
        return makeError(llvm::formatv(
            "--micro-batch {0}: the plan's {1} micro-batches of {2} ranks make "
            "it {3}",
            batch.microBatch, plan->microBatches, samples, derived));
      batch.microBatch = derived;
    }
  }
  if (!plan)
    return plan.takeError();
  if (llvm::Error error = checkPlan(*plan, model, batch))
    return planPath.empty()
               ? std::move(error)
               : makeError(planPath + ": " + llvm::toString(std::move(error)));
  int64_t ranks = plan->mesh.getNumRanks();
  if (where.getNumRanks() && where.getNumRanks() != ranks)
    return makeError(llvm::formatv(
        "the layout {0} has {1} ranks, --cluster {2} has {3}",
        plan->mesh.toString(), ranks, cluster, where.getNumRanks()));
  return plan;
}

void tool::addOptimizerFlags(CLI::App &app, BuildStepPassOptions &options) {
  CLI::Validator rate = makeCheck(rateRule), share = makeCheck(shareRule);
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
  app.add_option("--schedule", options.schedule, "shape of the learning rate")
      ->check(CLI::IsMember(scheduleNames))
      ->capture_default_str();
  app.add_option("--beta1", options.beta1, "decay of the first moment")
      ->check(share)
      ->capture_default_str();
  app.add_option("--beta2", options.beta2, "decay of the second moment")
      ->check(share)
      ->capture_default_str();
  app.add_option("--eps", options.eps, "AdamW's epsilon")
      ->check(makePositiveNumberCheck())
      ->capture_default_str();
  app.add_option("--weight-decay", options.weightDecay,
                 "decoupled weight decay of matrices")
      ->check(rate)
      ->capture_default_str();
  app.add_option("--clip", options.clip,
                 "bound of the global gradient norm; 0: none")
      ->check(rate)
      ->capture_default_str();
}
