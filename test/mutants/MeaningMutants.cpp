//===- MeaningMutants.cpp - Programs that compute something else ----------===//
//
// Correct steps of every stage are changed in one place, so that most are well
// typed and wrong. Each must be refused, by a verifier or because it computes
// something else in f64; none of the correct ones may be.
//
// usage: MeaningMutants MODELS [--per-kind N] [--print]
//
//===----------------------------------------------------------------------===//
#include "Mutations.h"
#include "dialects/dist/PlanAttr.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/Interpret/CompareSteps.h"
#include "passes/Pipelines/Pipelines.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

static llvm::cl::opt<std::string> models(llvm::cl::Positional,
                                         llvm::cl::Required,
                                         llvm::cl::desc("folder of NAME.mlir"));
static llvm::cl::opt<unsigned>
    perKind("per-kind", llvm::cl::init(1),
            llvm::cl::desc("mutants of each kind in each program"));

static llvm::cl::opt<bool> save("print",
                                llvm::cl::desc("print what is not refused"));

namespace {
struct Count {
  int64_t byVerifier = 0, byMeaning = 0, silent = 0;
};

/// What is done to the program of each stage.
struct StageMutations {
  StringRef stage;
  std::vector<Mutation> mutations;
  void (*addVerifiers)(OpPassManager &);
};

class Campaign {
public:
  Campaign() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  /// Every stage of one model under one layout.
  void run(StringRef model, const TrainLayout &layout);
  int finish();

private:
  void mutate(ModuleOp program, const StageMutations &stage, StringRef title);
  /// Who refuses a mutant: 0 a verifier, 1 its meaning, 2 nobody.
  int judge(ModuleOp program, ModuleOp mutant, const StageMutations &stage);

  MLIRContext context;
  std::map<std::string, Count> counts; ///< by stage and kind
  int64_t programs = 0;
};
} // namespace

static const std::vector<StageMutations> &getStageMutations() {
  auto messages = getTensorMutations();
  llvm::append_range(messages, getMessageMutations());
  auto memory = getInstructionMutations();
  llvm::append_range(memory, getMemoryMutations());
  static const std::vector<StageMutations> all = {
      {"grad", getTensorMutations(),
       [](OpPassManager &pm) { pm.addPass(createVerifyStepPass()); }},
      {"place", getTensorMutations(),
       [](OpPassManager &pm) {
         pm.addPass(createVerifyPlacementsPass());
         pm.addPass(createVerifyStepPass());
       }},
      {"partition", getTensorMutations(), [](OpPassManager &) {}},
      {"pipeline", messages,
       [](OpPassManager &pm) { pm.addPass(createVerifyStagesPass()); }},
      {"kernels", getInstructionMutations(), [](OpPassManager &) {}},
      {"memory", memory,
       [](OpPassManager &pm) { pm.addPass(createVerifyMemoryPass()); }},
  };
  return all;
}

int Campaign::judge(ModuleOp program, ModuleOp mutant,
                    const StageMutations &stage) {
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  if (failed(mlir::verify(mutant)))
    return 0;
  PassManager pm(&context);
  stage.addVerifiers(pm);
  if (failed(pm.run(mutant)))
    return 0;
  FailureOr<StepInputs> inputs = StepRunner(program).makeCheckInputs();
  return failed(compareSteps(program, mutant, *inputs)) ? 1 : 2;
}

void Campaign::mutate(ModuleOp program, const StageMutations &stage,
                      StringRef title) {
  ++programs;
  if (judge(program, program, stage) != 2) {
    llvm::errs() << "a correct program is refused: " << title << "\n";
    ++counts["correct programs"].silent;
  }
  for (const Mutation &mutation : stage.mutations) {
    // Where the mutation applies; an op that it leaves alone is as it was.
    SmallVector<size_t> sites;
    OwningOpRef<ModuleOp> mutant;
    SmallVector<Operation *> ops;
    auto restart = [&] {
      mutant = program.clone();
      ops.clear();
      mutant->walk([&](Operation *op) { ops.push_back(op); });
    };
    restart();
    for (size_t i = 0; i < ops.size(); ++i)
      if (mutation.apply(ops[i])) {
        sites.push_back(i);
        restart();
      }
    size_t wanted = std::min<size_t>(perKind, sites.size());
    for (size_t n = 0; n < wanted; ++n) {
      // Spread evenly, and elsewhere in another program.
      size_t site = sites[(n * sites.size() / wanted + size_t(programs) * 7) %
                          sites.size()];
      restart();
      mutation.apply(ops[site]);
      Count &count = counts[(stage.stage + "\t" + mutation.name).str()];
      switch (judge(program, *mutant, stage)) {
      case 0:
        ++count.byVerifier;
        break;
      case 1:
        ++count.byMeaning;
        break;
      default:
        ++count.silent;
        if (save)
          llvm::errs() << *mutant << "\n";
        restart(); // a mutant may lack the op
        llvm::errs() << title << ": " << stage.stage << ": " << mutation.name
                     << ", op " << site << ": computes the same: " << *ops[site]
                     << "\n";
      }
    }
  }
}

void Campaign::run(StringRef model, const TrainLayout &layout) {
  TrainLayout cut = layout;
  cut.microBatch = 4 / layout.dp;
  Plan plan = llvm::cantFail(
      makePlan(cut, {.seqLen = 8, .globalBatch = 8, .dtype = DType::F32}));
  StageOptions options;
  options.step.microBatches = plan.microBatches;
  options.step.lr = 0.1;
  options.step.minLr = 0.05;
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(model, &context);
  if (!module)
    llvm::report_fatal_error("cannot read a model");
  dist::setPlan(*module, plan);
  std::string title = llvm::formatv(
      "{0} dp {1} tp {2} pp {3} ZeRO-{4}{5}", model.rsplit('/').second,
      layout.dp, layout.tp, layout.pp, layout.zero,
      layout.sequenceParallel ? " sequence-parallel" : "");
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  for (const Stage &stage : getStages()) {
    PassManager pm(&context);
    stage.addPasses(pm, options);
    if (failed(pm.run(*module)))
      llvm::report_fatal_error("a stage fails");
    for (const StageMutations &each : getStageMutations())
      // Without a pipeline its stage changes nothing.
      if (each.stage == stage.name &&
          (layout.pp > 1 || each.stage != "pipeline"))
        mutate(*module, each, title);
  }
}

int Campaign::finish() {
  Count sum;
  std::set<std::string> kinds;
  llvm::outs() << "stage\tkind\tby a verifier\tby its meaning\tnot refused\n";
  for (const auto &[name, count] : counts) {
    llvm::outs() << name << "\t" << count.byVerifier << "\t" << count.byMeaning
                 << "\t" << count.silent << "\n";
    kinds.insert(StringRef(name).split('\t').second.str());
    sum.byVerifier += count.byVerifier;
    sum.byMeaning += count.byMeaning;
    sum.silent += count.silent;
  }
  llvm::outs() << "correct programs: " << programs
               << ", kinds of mutants: " << kinds.size()
               << ", mutants refused by a verifier: " << sum.byVerifier
               << ", by their meaning: " << sum.byMeaning
               << ", not refused: " << sum.silent << "\n";
  return sum.silent != 0;
}

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv);
  Campaign campaign;
  struct {
    const char *model;
    TrainLayout layout;
  } programs[] = {
      {"llama", {.tp = 2, .dp = 2}},
      {"gpt2", {.tp = 2, .dp = 2, .sequenceParallel = true, .zero = 3}},
      {"gpt_neox", {.dp = 2, .zero = 1}},
      {"olmo2", {.tp = 2, .sequenceParallel = true}},
      {"stages/layers", {.dp = 2, .pp = 2, .zero = 2}},
      {"stages/layers",
       {.tp = 2, .pp = 2, .schedule = Schedule::ZeroBubbleH1}}};
  for (const auto &each : programs)
    campaign.run(models + "/" + each.model + ".mlir", each.layout);
  return campaign.finish();
}
