//===- CompileFlags.h - What commands that compile share ------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_COMPILEFLAGS_H
#define CLEAVE_TOOLS_CLEAVE_COMPILEFLAGS_H

#include "CommandLine.h"
#include "cleave/Search/PlanFile.h"
#include "passes/Pipelines/Compile.h"
#include "runtime/program/Program.h"

namespace cleave::tool {

/// What `compile`, `train` and `parity` are told of the layout.
struct LayoutFlags {
  TrainLayout layout{.microBatch = 0}; ///< 0: what getDefaultMicroBatch says
  std::vector<int64_t> stages;         ///< layers of virtual stages
  std::string planPath, cluster = "local", dtype;
  std::optional<PlanFile> planFile; ///< what is at planPath, once it is read
  std::string overlap = "auto";
  int64_t logitsChunks = 0;        ///< 0: as few as fit
  std::string placements = "plan"; ///< or auto: chosen by cost
  std::string tactics;             ///< a file that the choice keeps to
  std::string writtenTactics;      ///< where the layout's go
  std::string recompute = "none", recomputeModules = "attention";
  int64_t recomputeBlocks = 0;
  /// Not said, they are as many as the schedule has.
  bool saysVirtualStages = false;
  /// Whether the planner chooses what no flag says, and where it writes that.
  bool automatic = false;
  std::string writtenPlan;
  /// Those that say something of the layout.
  std::vector<CLI::Option *> options;

  void add(CLI::App &app);
  /// Those of them that say what a backward pass repeats, and those of
  /// pipelines and groups of ranks.
  std::vector<CLI::Option *> addRecomputeFlags(CLI::App &app);
  std::vector<CLI::Option *> addPipelineFlags(CLI::App &app);
  /// The degrees; fails where a flag says nothing, or nothing that is legal.
  llvm::Expected<TrainLayout> getLayout() const;
  /// The flags of pipelines that were given, to begin an error with.
  std::string showPipelineFlags() const;
  /// The compute type: the one that is given, or that a search was for, or what
  /// the cluster's devices usually compute in.
  DType getDType(const Cluster &where) const;
  /// What a pass is told that chooses placements; nothing: the plan has them.
  std::optional<ChoosePlacementsPassOptions>
  getChoice(const Plan &plan, const Cluster &where) const;
  /// Reads the plan file, if there is one; comes before what follows.
  llvm::Error readPlanFile();
  /// The samples of a step where nobody says how many: a micro-batch (of one
  /// sample, unless a flag or a plan says more) for each rank, which any
  /// degrees split, into as many micro-batches as there are stages. Of a plan
  /// by dims, for each of its micro-batches and ranks of dp.
  int64_t getDefaultGlobalBatch(const Cluster &where) const;
  /// Whether getPlan searches.
  bool choosesPlan(const Cluster &cluster) const;
  /// The plan that the flags or the plan file give, or the best one that there
  /// is under the flags, checked against the model and the cluster. `config` is
  /// what the model was read from. `report` gets what a search found.
  llvm::Expected<Plan> getPlan(const Model &model, llvm::StringRef config,
                               const Workload &work, const Cluster &cluster,
                               llvm::raw_ostream *report) const;

private:
  /// Leaves of a plan what a choice of placements goes by, once what it said of
  /// them is written where the flags ask for that.
  llvm::Error freePlacements(Plan &plan) const;
  llvm::Expected<Plan> choosePlan(const Model &model, llvm::StringRef config,
                                  const Workload &work,
                                  llvm::raw_ostream *report) const;
};

/// What they are told of the optimizer.
void addOptimizerFlags(CLI::App &app, BuildStepPassOptions &options);
/// Gives hyperparameters without a flag the optimizer's own values, once `app`
/// is parsed; fails if there is a flag for one that the optimizer has not.
llvm::Error completeOptimizer(const CLI::App &app,
                              BuildStepPassOptions &options);

/// What `compile` and `train` are told.
struct CompileFlags {
  std::string model, output;
  LayoutFlags layout;
  CompileOptions options;
  bool quiet = false, json = false, strict = false;
  bool check = false;            ///< what the passes make of the step, first
  const CLI::App *app = nullptr; ///< that the flags were added to

  /// `run` gets what a recipe says to the executable.
  void add(CLI::App &app, std::vector<std::string> *run = nullptr);
};

/// Compiles as the flags say, and prints a summary; returns the exit code.
int runCompile(CompileFlags flags);

/// Compiles and links; writes the executable to `output`, or nothing.
llvm::Expected<Compiled> buildExecutable(const Model &model,
                                         const CompileOptions &options,
                                         llvm::StringRef output);

/// However quiet a command is.
void printWarnings(const Compiled &compiled);

/// Links what was compiled with the runtime into the executable `output`, once
/// the program has loaded, as it does when the executable starts: an error that
/// begins with `where` if it does not.
llvm::Expected<runtime::Program> linkExecutable(const Compiled &compiled,
                                                const std::string &where,
                                                llvm::StringRef output);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_COMPILEFLAGS_H
