//===- LayoutFlags.cpp - Flags of a layout, and the plan that they give ---===//
#include "ChoosePlan.h"
#include "CompileFlags.h"
#include "Files.h"
#include "cleave/Search/Search.h"
#include "runtime/program/Limits.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace cleave;

std::vector<CLI::Option *> tool::LayoutFlags::addRecomputeFlags(CLI::App &app) {
  auto add = [&](const std::string &field, std::string &value,
                 const char *help) {
    return app.add_option("--" + field, value, help)
        ->capture_default_str()
        ->check(
            [field](const std::string &text) -> std::string {
              TrainLayout layout;
              if (setField(layout, field, text))
                return "";
              return llvm::formatv("\"{0}\" is not {1}", text,
                                   getLegalValues(field));
            },
            "", field);
  };
  CLI::Option *what =
      add("recompute", recompute,
          "what the backward pass of a layer repeats, so that it is not kept: "
          "none, selective (--recompute-modules), full (all but the layer's "
          "input is repeated)");
  CLI::Option *modules = add(
      "recompute-modules", recomputeModules,
      "of norms, attention (scores and weighted sum), output, up, activation, "
      "down, joined by +");
  CLI::Option *blocks =
      app.add_option("--recompute-blocks", recomputeBlocks,
                     "so many layers of each virtual stage, from its first "
                     "one on; 0: all")
          ->check(CLI::NonNegativeNumber);
  return {what, modules, blocks};
}

std::vector<CLI::Option *> tool::LayoutFlags::addPipelineFlags(CLI::App &app) {
  auto add = [&](const std::string &field, const char *help) {
    std::string legal = getLegalValues(field);
    return app
        .add_option_function<std::string>(
            "--" + field,
            [this, field](const std::string &text) {
              setField(layout, field, text);
              saysVirtualStages |= field == "virtual-stages";
            },
            help)
        ->check(CLI::Validator(
            [field, legal](const std::string &text) -> std::string {
              TrainLayout tried;
              return setField(tried, field, text)
                         ? ""
                         : "\"" + text + "\" is not " + legal;
            },
            legal));
  };
  std::vector<CLI::Option *> flags = {
      add("pp", "stages of the pipeline, each with a part of the layers "
                "(default: 1)"),
      add("pipeline-schedule",
          "what a stage runs when (default: 1f1b); 1f1b-eager keeps more "
          "micro-batches in flight, so that slow messages are hidden; zb-h1, "
          "zb-h2, zb-v and dualpipe-v compute weight gradients later than "
          "those of inputs"),
      add("virtual-stages",
          "parts of the model on a stage, of interleaved, zb-v "
          "and dualpipe-v (default: 1; of the last two 2)"),
      add("first-blocks", "layers of the virtual stage with the embedding"),
      add("last-blocks", "layers of the virtual stage with the head"),
      add("shard-group", "ranks of dp that share a copy of what ZeRO splits; "
                         "0: all (default)"),
      add("order", "axes, innermost first (default: tp-cp-dp-pp)")};
  CLI::Option *stages =
      app.add_option("--stages", this->stages,
                     "layers of each virtual stage, in the model's order: "
                     "5,6,6,5 (default: as even as can be)")
          ->delimiter(',')
          ->check(makeCountCheck());
  for (CLI::Option *flag : flags)
    if (flag->check_lname("first-blocks") || flag->check_lname("last-blocks"))
      stages->excludes(flag);
  flags.push_back(stages);
  return flags;
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
  options = {dp, tp, zero, sp};
  llvm::append_range(options, addRecomputeFlags(app));
  llvm::append_range(options, addPipelineFlags(app));
  addPlannedFlags(app);
  CLI::Option *plan =
      app.add_option("--plan", planPath,
                     "plan.json, in place of the flags above; by hand, or of "
                     "cleave plan --runnable -o");
  for (CLI::Option *each : options)
    plan->excludes(each);
  options.push_back(
      app.add_option(
             "--micro-batch", layout.microBatch,
             "samples of one rank in one micro-batch (default: the most "
             "that leaves as many micro-batches as pipeline stages; without "
             "a pipeline all of the rank's share of the global batch)")
          ->check(makePositiveCheck()));
  app.add_flag("--auto", automatic,
               "let the planner choose what the flags above leave open, for "
               "all ranks of --cluster; the default where that says how many "
               "they are, and on which device, and none of these flags, nor a "
               "plan, is given")
      ->excludes(plan);
  app.add_option("--write-plan", writtenPlan,
                 "write what the planner chose, as plan.json")
      ->excludes(plan);
  app.add_option("--cluster", cluster,
                 "local (as many ranks as the layout needs), local:N, a preset "
                 "such as h100-sxm:8, or a cluster.json; its links say which "
                 "collectives are cheapest, and for NVIDIA GPUs from sm_90 on "
                 "the executable has code for these, too")
      ->capture_default_str();
  CLI::Option *how =
      app.add_option(
             "--placements", placements,
             "plan: each tensor is where the layout has it; auto: where it "
             "costs least, on the mesh of the layout, with its "
             "micro-batches and what it recomputes")
          ->check(CLI::IsMember({"plan", "auto"}))
          ->capture_default_str();
  app.add_option_function<std::string>(
         "--tactics",
         [this, how](const std::string &path) {
           if (how->count() > 0 && placements != "auto")
             throw CLI::ValidationError("--tactics",
                                        "excludes --placements " + placements +
                                            ": a choice by cost keeps to them");
           placements = "auto";
           tactics = path;
         },
         "file of tactics, such as: split \"heads\" over tp; placements are "
         "chosen by cost, of those that keep to them (docs/sharding.md)")
      ->type_name("FILE");
  app.add_option("--write-tactics", writtenTactics,
                 "write what the layout says of placements, as tactics")
      ->type_name("FILE");
  app.add_option("--overlap", overlap,
                 "run communication beside compute, in streams of its own, "
                 "where that hides some: always, never, or auto: not inside a "
                 "node of CPUs, whose cores move it")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--logits-chunks",
         [this](const std::string &text) {
           logitsChunks = text == "auto" ? 0 : std::stoll(text);
         },
         "parts of the tokens for which the head, the loss and their gradients "
         "are computed one after the other, so that the logits are never there "
         "as a whole; 1: they are; auto: as few as fit into a device of "
         "--cluster (default: auto)")
      ->check(CLI::Validator(
          [](const std::string &text) -> std::string {
            int64_t number = 0;
            return text == "auto" ||
                           (!llvm::StringRef(text).getAsInteger(10, number) &&
                            positiveRule.allows(double(number)))
                       ? ""
                       : "\"" + text + "\" is neither auto nor " +
                             positiveRule.legal;
          },
          "auto or POSITIVE", ""));
  app.add_option("--dtype", dtype,
                 "compute type; parameters are kept in f32 (default: f32, on "
                 "GPUs bf16)")
      ->check(CLI::IsMember({"f32", "bf16"}));
}

std::string tool::LayoutFlags::showPipelineFlags() const {
  std::vector<std::string> shown;
  TrainLayout none;
  for (const char *field : {"pp", "pipeline-schedule", "virtual-stages",
                            "first-blocks", "last-blocks", "shard-group"})
    if (getField(layout, field) != getField(none, field))
      shown.push_back(std::string("--") + field + " " +
                      getFieldText(layout, field));
  if (!stages.empty())
    shown.push_back(
        "--stages " +
        llvm::join(llvm::map_range(stages,
                                   [](int64_t n) { return std::to_string(n); }),
                   ","));
  return llvm::join(shown, ", ");
}

llvm::Expected<TrainLayout> tool::LayoutFlags::getLayout() const {
  TrainLayout all = layout;
  if (!saysVirtualStages && isVShaped(layout.schedule) && layout.pp > 1)
    all.virtualStages = 2;
  bool hasFirst = layout.firstBlocks != TrainLayout::even,
       hasLast = layout.lastBlocks != TrainLayout::even;
  const char *expected =
      hasFirst != hasLast
          ? "expects --first-blocks and --last-blocks, both even or both "
            "numbers"
      : layout.pp == 1 &&
              (hasFirst || layout.virtualStages > 1 || !stages.empty())
          ? "expects --pp of at least 2"
      : layout.zeroGroup > layout.dp ? "expects at most --dp"
                                     : nullptr;
  if (expected)
    return llvm::createStringError(showPipelineFlags() + ": " + expected);
  return all;
}

DType tool::LayoutFlags::getDType(const Cluster &where) const {
  if (!dtype.empty())
    return dtype == "bf16" ? DType::BF16 : DType::F32;
  // In what else a search may be for no program computes, which is said where
  // the plan is checked.
  if (planFile && planFile->planned)
    if (DType planned = planFile->planned->work.dtype;
        planned == DType::F32 || planned == DType::BF16)
      return planned;
  return getUsualDType(where.hasGPUs());
}

/// Fails if a plan's micro-batches are of another size than a flag says.
static llvm::Error checkMicroBatch(const Plan &plan, const Workload &work,
                                   int64_t microBatch) {
  int64_t ranks = plan.mesh.getSize(plan.getAxes("batch"));
  int64_t derived = work.globalBatch / (plan.microBatches * ranks);
  if (microBatch == 0 || microBatch == derived)
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::formatv("--micro-batch {0}: the plan's {1} of {2} make it {3}",
                    microBatch, tool::count(plan.microBatches, "micro-batch"),
                    tool::count(ranks, "rank"), derived));
}

llvm::Error tool::LayoutFlags::readPlanFile() {
  if (planPath.empty())
    return llvm::Error::success();
  llvm::Expected<PlanFile> file = loadPlanFile(planPath);
  if (!file)
    return file.takeError();
  planFile = std::move(*file);
  return llvm::Error::success();
}

int64_t tool::LayoutFlags::getDefaultGlobalBatch(const Cluster &where) const {
  // In floating point, which numbers of any size do not overflow: what is too
  // much is said where the plan is checked.
  double microBatch = double(std::max<int64_t>(layout.microBatch, 1)), count;
  if (const Plan *plan =
          planFile ? std::get_if<Plan>(&planFile->layout) : nullptr) {
    count = double(plan->microBatches) *
            double(plan->mesh.getSize(plan->getAxes("batch")));
  } else {
    const TrainLayout &degrees =
        planFile ? std::get<TrainLayout>(planFile->layout) : layout;
    count = where.getNumRanks() ? double(where.getNumRanks())
                                : double(degrees.tp) * degrees.cp *
                                      double(degrees.dp) * degrees.pp;
    microBatch = std::max(microBatch, double(degrees.microBatch));
  }
  return int64_t(std::min(count * microBatch, double(maxCount)));
}

bool tool::LayoutFlags::choosesPlan(const Cluster &where) const {
  auto isGiven = [](const CLI::Option *option) { return option->count() > 0; };
  // This machine is measured, or the error says so.
  bool hasDevice =
      where.where.empty() || where.groups.front().device.has_value();
  return automatic || (where.getNumRanks() > 0 && hasDevice &&
                       planPath.empty() && llvm::none_of(options, isGiven));
}

llvm::Expected<Plan>
tool::LayoutFlags::choosePlan(const Model &model, llvm::StringRef config,
                              const Workload &work,
                              llvm::raw_ostream *report) const {
  std::vector<Constraint> pins;
  for (const CLI::Option *option : options) {
    if (option->count() == 0)
      continue;
    std::string field = option->get_lnames().front();
    std::string value =
        field == "sequence-parallel" ? "true" : option->results().back();
    // It is a list, which no field of a layout is.
    if (field == "stages")
      return llvm::createStringError(
          "--stages: excludes --auto; --first-blocks and --last-blocks say "
          "what the ends of the pipeline have");
    llvm::Expected<Constraint> pin =
        parseConstraint(field + "=" + value, /*forbids=*/false);
    if (!pin)
      return pin.takeError();
    pin->flag = "--" + field + (option->get_expected_max() ? " " + value : "");
    pins.push_back(*pin);
  }
  PlanFlags flags;
  flags.model = config;
  flags.cluster = cluster;
  flags.dtype = dtype;
  flags.moments = getName(work.moments).str();
  flags.seqLen = work.seqLen;
  flags.globalBatch = work.globalBatch;
  llvm::Expected<ChosenPlan> chosen = tool::choosePlan(flags, model, pins);
  if (!chosen)
    return chosen.takeError();
  if (!writtenPlan.empty())
    if (llvm::Error error = writeFile(writtenPlan, chosen->text))
      return error;
  if (report)
    chosen->print(*report);
  return chosen->plan;
}

llvm::Expected<Plan>
tool::LayoutFlags::getPlan(const Model &model, llvm::StringRef config,
                           const Workload &work, const Cluster &where,
                           llvm::raw_ostream *report) const {
  auto makeError = [](const llvm::Twine &message) {
    return llvm::createStringError(message.str());
  };
  std::string tensor = "--tp " + std::to_string(layout.tp),
              samples =
                  layout.microBatch
                      ? "--micro-batch " + std::to_string(layout.microBatch)
                      : "--dp " + std::to_string(layout.dp);
  if (llvm::Error error = where.checkCompiles())
    return error;
  if (choosesPlan(where)) {
    if (where.getNumRanks() == 0)
      return makeError("--auto: --cluster " + cluster +
                       " does not say how many ranks there are; expects "
                       "local:N or a cluster.json");
    llvm::Expected<Plan> plan = choosePlan(model, config, work, report);
    if (plan)
      if (llvm::Error error = freePlacements(*plan))
        return error;
    return plan;
  }
  if (!writtenPlan.empty())
    return makeError("--write-plan: expects --auto, which chooses one");
  llvm::Expected<Plan> plan = Plan();
  std::string pipeline = showPipelineFlags();
  if (planPath.empty()) {
    llvm::Expected<TrainLayout> layout = getLayout();
    if (!layout)
      return layout.takeError();
    plan = makePlan(*layout, work);
    if (!plan)
      return makeError(samples + (pipeline.empty() ? "" : ", " + pipeline) +
                       ": " + llvm::toString(plan.takeError()));
    if (!stages.empty())
      plan->pipeline->layers = stages;
    TrainLayout repeats;
    setField(repeats, "recompute", recompute);
    setField(repeats, "recompute-modules", recomputeModules);
    repeats.recomputeBlocks = recomputeBlocks;
    if (llvm::Error error = setRecompute(*plan, repeats))
      return makeError("--" + llvm::toString(std::move(error)));
    if (recomputeBlocks > int64_t(model.layers.size()))
      return makeError(llvm::formatv(
          "--recompute-blocks {0}: the model has {1}", recomputeBlocks,
          count(int64_t(model.layers.size()), "layer")));
  } else {
    plan = cleave::getPlan(*planFile, model.modelType, work);
    if (plan)
      if (llvm::Error error = checkMicroBatch(*plan, work, layout.microBatch))
        return error;
  }
  if (!plan)
    return plan.takeError();
  if (llvm::Error error = freePlacements(*plan))
    return error;
  // Only tp splits what a model may not allow, sequences included; the number
  // of ranks may be more than there can be.
  if (plan->mesh.getNumRanks() > int64_t(runtime::limits::worldSize))
    tensor = "--dp " + std::to_string(layout.dp) + ", " + tensor;
  if (!pipeline.empty())
    tensor = pipeline + ", " + tensor;
  if (llvm::Error error = checkPlan(*plan, model, work))
    return makeError((planPath.empty() ? tensor : planPath) + ": " +
                     llvm::toString(std::move(error)));
  int64_t ranks = plan->mesh.getNumRanks();
  if (where.getNumRanks() && where.getNumRanks() != ranks)
    return makeError(
        llvm::formatv("--cluster {0} has {1}, the layout {2} has {3}{4}",
                      cluster, count(where.getNumRanks(), "rank"),
                      plan->mesh.toString(), count(ranks, "rank"),
                      planPath.empty() ? "; --auto plans for all" : ""));
  return plan;
}

llvm::Error tool::LayoutFlags::freePlacements(Plan &plan) const {
  if (!writtenTactics.empty())
    if (llvm::Error error = writeFile(writtenTactics, plan.toTactics()))
      return error;
  if (placements != "auto")
    return llvm::Error::success();
  // The vocabulary is padded so that it may be split.
  plan.dims = {{"vocab", plan.getAxes("vocab")}};
  plan.optimizerAxes = plan.gradientAxes = plan.parameterAxes = {};
  return llvm::Error::success();
}

std::optional<ChoosePlacementsPassOptions>
tool::LayoutFlags::getChoice(const Plan &plan, const Cluster &where) const {
  if (placements != "auto")
    return std::nullopt;
  ChoosePlacementsPassOptions options;
  options.tactics = tactics;
  options.overlap = overlap;
  options.cluster = cluster;
  if (where.getNumRanks() == 0)
    options.cluster += ":" + std::to_string(plan.mesh.getNumRanks());
  return options;
}
