//===- CommandLine.cpp - What the commands of cleave share ----------------===//
#include "CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

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

void tool::LayoutFlags::add(CLI::App &app) {
  auto *dp = app.add_option("--dp", layout.dp, "data-parallel degree")
                 ->check(CLI::PositiveNumber);
  auto *tp = app.add_option("--tp", layout.tp, "tensor-parallel degree")
                 ->check(CLI::PositiveNumber);
  auto *zero =
      app.add_option("--zero", layout.zero,
                     "ZeRO stage: 1 splits optimizer state over dp, 2 also "
                     "gradients, 3 also parameters")
          ->check(CLI::Range(0, 3));
  auto *sp = app.add_flag("--sequence-parallel", layout.sequenceParallel,
                          "split activations outside of attention and MLP "
                          "along the sequence over tp");
  app.add_option("--plan", planPath, "plan.json, in place of the flags above")
      ->excludes(dp)
      ->excludes(tp)
      ->excludes(zero)
      ->excludes(sp);
  app.add_option("--micro-batch", microBatch,
                 "samples of one rank in one micro-batch (default: all of its "
                 "share of the global batch)")
      ->check(CLI::PositiveNumber);
  app.add_option("--cluster", cluster,
                 "local (as many ranks as the layout needs), local:N, or a "
                 "cluster.json")
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
  llvm::Expected<Plan> plan = Plan();
  batch.microBatch = microBatch;
  if (planPath.empty()) {
    if (batch.microBatch == 0) {
      if (batch.globalBatch % layout.dp != 0)
        return makeError(
            llvm::formatv("global batch {0} is not divisible by dp {1}",
                          batch.globalBatch, layout.dp));
      batch.microBatch = batch.globalBatch / layout.dp;
    }
    plan = makePlan(layout, batch);
  } else {
    auto buffer = llvm::MemoryBuffer::getFile(planPath);
    if (!buffer)
      return makeError(planPath + ": " + buffer.getError().message());
    plan = parsePlan((*buffer)->getBuffer(), planPath);
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
    return error;
  int64_t ranks = plan->mesh.getNumRanks();
  if (where.getNumRanks() && where.getNumRanks() != ranks)
    return makeError(
        llvm::formatv("the layout {0} has {1} ranks, the cluster {2}",
                      plan->mesh.toString(), ranks, where.getNumRanks()));
  return plan;
}

void tool::addOptimizerFlags(CLI::App &app, BuildStepPassOptions &options) {
  app.add_option("--lr", options.lr, "peak learning rate")
      ->capture_default_str();
  app.add_option("--min-lr", options.minLr, "learning rate after the decay")
      ->capture_default_str();
  app.add_option("--warmup-steps", options.warmupSteps, "linear warm-up")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--decay-steps", options.decaySteps,
                 "step at which the decay ends; 0: the run's last")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--stable-steps", options.stableSteps,
                 "steps at the peak before the decay of wsd")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--schedule", options.schedule, "shape of the learning rate")
      ->check(CLI::IsMember({"constant", "cosine", "linear", "wsd"}))
      ->capture_default_str();
  app.add_option("--beta1", options.beta1, "decay of the first moment")
      ->capture_default_str();
  app.add_option("--beta2", options.beta2, "decay of the second moment")
      ->capture_default_str();
  app.add_option("--eps", options.eps, "AdamW's epsilon")
      ->capture_default_str();
  app.add_option("--weight-decay", options.weightDecay,
                 "decoupled weight decay of matrices")
      ->capture_default_str();
  app.add_option("--clip", options.clip,
                 "bound of the global gradient norm; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}
