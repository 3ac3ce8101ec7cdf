//===- CompileCommand.cpp - cleave compile --------------------------------===//
#include "CompileFlags.h"
#include "Files.h"
#include "ProgramJSON.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace cleave;

llvm::Expected<Compiled> tool::buildExecutable(const Model &model,
                                               const CompileOptions &options,
                                               llvm::StringRef output) {
  llvm::Expected<Compiled> compiled = compileModel(model, options);
  if (!compiled)
    return compiled;
  auto program = linkExecutable(
      *compiled, (output + ": what was compiled does not load").str(), output);
  if (!program)
    return program.takeError();
  return compiled;
}

void tool::printWarnings(const Compiled &compiled) {
  for (const std::string &warning : compiled.warnings)
    llvm::errs() << "cleave: warning: " << warning << '\n';
}

static void printSummary(const tool::CompileFlags &flags,
                         const Compiled &compiled, double seconds) {
  const Plan &plan = flags.options.plan;
  llvm::outs() << llvm::formatv(
      "{0}: {1} {2}, {3}, {4}, {5}, {6:F2} s\n", flags.output,
      tool::count(plan.mesh.getNumRanks(), "rank"), plan.mesh.toString(),
      tool::count(plan.microBatches, "micro-batch"),
      tool::count(compiled.instructions, "instruction"),
      tool::count(compiled.kernels, "kernel"), seconds);
  llvm::outs() << llvm::formatv(
      "memory of a rank: {0:F1} MiB (at least {1:F1})\n",
      compiled.arenaBytes / 1048576.0, compiled.lowerBound / 1048576.0);
  for (const auto &[name, bytes] : compiled.memory)
    llvm::outs() << llvm::formatv("  {0,-22} {1,10:F1} MiB\n", name,
                                  bytes / 1048576.0);
}

static void printReport(const MeaningReport &report) {
  llvm::outs() << llvm::formatv(
      "check: {0}, each keeps what a step computes ({1} on {2}, {3}, in f64)\n",
      tool::count(report.passes, "pass"), tool::count(report.layers, "layer"),
      Mesh(report.mesh).toString(),
      tool::count(report.microBatches, "micro-batch"));
}

/// What was written, read again.
static int printJSON(const tool::CompileFlags &flags, double seconds) {
  llvm::Expected<tool::Executable> executable =
      tool::readExecutable(flags.output);
  if (!executable)
    return tool::fail(executable.takeError());
  llvm::json::Object object = tool::toJSON(*executable);
  object["executable"] = llvm::json::fixUTF8(flags.output);
  object["seconds"] = seconds;
  llvm::outs() << llvm::formatv("{0:2}\n",
                                llvm::json::Value(std::move(object)));
  return 0;
}

/// Takes what no flag says of the work from a plan that was searched for it.
static void completeWork(const tool::CompileFlags &flags, Workload &work,
                         BuildStepPassOptions &step) {
  const std::optional<PlanFile> &file = flags.layout.planFile;
  if (!file || !file->planned)
    return;
  const Workload &planned = file->planned->work;
  if (flags.app->get_option("--moments")->count() == 0)
    step.moments = getName(planned.moments).str();
  if (work.seqLen == 0)
    work.seqLen = planned.seqLen;
  if (work.globalBatch == 0)
    work.globalBatch = planned.globalBatch;
}

int tool::runCompile(CompileFlags flags) {
  auto start = std::chrono::steady_clock::now();
  if (llvm::Error error = tool::checkReplaceable(flags.output))
    return tool::fail(std::move(error));
  BuildStepPassOptions &step = flags.options.stages.step;
  if (llvm::Error error = tool::completeOptimizer(*flags.app, step))
    return tool::fail(std::move(error));
  if (step.stableSteps > 0 && step.schedule != "wsd")
    return tool::fail("--stable-steps " + llvm::Twine(step.stableSteps) +
                      ": only --lr-schedule wsd has them, not " +
                      step.schedule);
  CompileOptions &options = flags.options;
  Workload &work = options.work;
  if (llvm::Error error = flags.layout.readPlanFile())
    return tool::fail(std::move(error));
  completeWork(flags, work, step);
  FrontendOptions frontend;
  frontend.seqLen = work.seqLen;
  frontend.strict = flags.strict;
  llvm::Expected<std::string> config = tool::findConfig(flags.model);
  if (!config)
    return tool::fail(config.takeError());
  llvm::Expected<Model> model = tool::loadNotedModel(*config, frontend);
  if (!model)
    return tool::fail(model.takeError());
  llvm::Expected<Cluster> cluster = parseCluster(flags.layout.cluster);
  if (!cluster)
    return tool::fail(cluster.takeError());
  std::string note;
  if (work.seqLen == 0) {
    work.seqLen = model->getDefaultSeqLen();
    note = llvm::formatv("--seq-len {0}", work.seqLen);
  }
  if (work.globalBatch == 0) {
    work.globalBatch = flags.layout.getDefaultGlobalBatch(*cluster);
    note += llvm::formatv("{0}--global-batch {1}", note.empty() ? "" : ", ",
                          work.globalBatch);
  }
  if (!note.empty() && !flags.quiet)
    llvm::errs() << "cleave: note: as no flag says otherwise: " << note << '\n';
  work.dtype = flags.layout.getDType(*cluster);
  work.moments = tool::getMomentsType(step.moments);
  llvm::Expected<Plan> plan =
      flags.layout.getPlan(*model, *config, work, *cluster,
                           flags.json || flags.quiet ? nullptr : &llvm::outs());
  if (!plan)
    return tool::fail(plan.takeError());
  if (cluster->hasGPUs() && cluster->getCudaChip().empty() && !flags.quiet)
    llvm::errs() << "cleave: note: the layout, its collectives and streams are "
                    "chosen for "
                 << flags.layout.cluster
                 << "; the executable runs on CPUs only, since GPU code is "
                    "generated for NVIDIA's sm_90 and later\n";

  options.plan = *plan;
  options.cpu = cluster->cpu;
  if (llvm::Error error = options.setDevice(*cluster))
    return tool::fail(std::move(error));
  options.stages.partition.cluster = flags.layout.cluster;
  options.stages.turn.cluster = flags.layout.cluster;
  options.stages.turn.parts = flags.layout.logitsChunks;
  options.stages.overlap.cluster = flags.layout.cluster;
  options.stages.overlap.mode = flags.layout.overlap;
  options.stages.kernels.threads =
      cluster->getThreads(plan->mesh.getNumRanks());
  options.stages.choose = flags.layout.getChoice(*plan, *cluster);
  if (flags.check) {
    llvm::Expected<MeaningReport> report = checkCompilation(*model, options);
    if (!report)
      return tool::fail(report.takeError());
    if (!flags.json && !flags.quiet)
      printReport(*report);
  }
  options.dump = &llvm::outs();
  llvm::Expected<Compiled> compiled =
      tool::buildExecutable(*model, options, flags.output);
  if (!compiled)
    return tool::fail(compiled.takeError());
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  printWarnings(*compiled);
  for (const std::string &note : compiled->notes)
    if (!flags.quiet)
      llvm::errs() << "cleave: note: " << note << '\n';
  if (flags.json)
    return printJSON(flags, taken.count());
  if (!flags.quiet)
    printSummary(flags, *compiled, taken.count());
  return 0;
}

void tool::CompileFlags::add(CLI::App &app, std::vector<std::string> *run) {
  this->app = &app;
  app.add_option("model", model, "config.json, or the folder that has it")
      ->required();
  addStrictFlag(app, strict);
  addRecipeFlag(app, run);
  app.add_option(
         "--seq-len", options.work.seqLen,
         "tokens of a sample (default: those of a plan that cleave plan "
         "wrote, or else the model's maximum, at most 1024)")
      ->check(makePositiveCheck());
  app.add_option("--global-batch", options.work.globalBatch,
                 "samples of a step, over all ranks (default: those of a plan "
                 "that cleave plan wrote, or else a micro-batch for each rank)")
      ->check(makePositiveCheck());
  layout.add(app);
  addOptimizerFlags(app, options.stages.step);
  app.add_flag("--keep-gradients", options.stages.step.gradients,
               "keep each gradient as an output, for --dump-outputs");
  app.add_flag("--keep-logits", options.logits,
               "keep the logits as an output, for --dump-outputs");
  app.add_flag_callback(
      "--no-fusion", [this] { options.stages.kernels.fuse = false; },
      "one kernel for each op");
  std::vector<std::string> stages;
  for (const Stage &stage : getStages())
    stages.push_back(stage.name.str());
  stages.push_back("all");
  app.add_option("--dump-after-stage", options.dumpAfter,
                 "print the IR after a stage")
      ->check(CLI::IsMember(stages));
  app.add_flag("--dump-locations", options.dumpLocations,
               "print what each op is called, too: without, an executable "
               "that cleave assemble makes of the IR cannot name its "
               "instructions");
  app.add_flag("--remarks", options.remarks,
               "say what the passes decided, on stderr");
  app.add_flag("-q,--quiet", quiet, "print errors only");
}

void tool::addCompileCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command = app.add_subcommand(
      "compile", "Compile a model into one executable that trains it");
  flags->add(*command);
  command->add_flag("--json", flags->json, "print JSON (docs/formats.md)")
      ->excludes(command->get_option("--quiet"))
      ->excludes(command->get_option("--dump-after-stage"));
  command->add_flag(
      "--check", flags->check,
      "first run a small model of the same structure, by the same "
      "plan, in f64 on simulated ranks around every pass, and stop "
      "where a pass changes what a step computes");
  command->add_option("-o,--output", flags->output, "executable to write")
      ->required();
  command->callback(
      [flags, &run] { run = [flags] { return runCompile(*flags); }; });
}
