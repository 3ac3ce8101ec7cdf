//===- CommandLine.h - What the commands of cleave share ------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H
#define CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H

#include "Recipe.h"
#include "cleave/Hardware/Cluster.h"
#include "passes/Pipelines/Compile.h"
#include <CLI/CLI.hpp>

namespace cleave::tool {

/// Prints `cleave: error: message` and returns the exit code for it: that of
/// wrong usage, 2, if the message begins with a flag, since a flag or its value
/// is then what has to change, and 1 for every other failure.
int fail(llvm::Error error);
int fail(const llvm::Twine &message);
/// Prints it likewise; wrong usage whatever it begins with.
int failUsage(const llvm::Twine &message);

/// `code`, or that of a failure to write what was printed.
int flushOutput(int code);

/// A count with its noun: "1 rank", "2 ranks", "2 micro-batches".
std::string count(int64_t number, llvm::StringRef noun);

/// The path of a model's config.json: `model` itself, or the one in that
/// folder. If there is nothing of that name, and it looks like one of the
/// HuggingFace hub, an error that says how to get it.
llvm::Expected<std::string> findConfig(llvm::StringRef model);

/// --strict: see FrontendOptions.
void addStrictFlag(CLI::App &app, bool &strict);

/// Most of what is counted.
constexpr int64_t maxCount = std::numeric_limits<int32_t>::max();

/// What a number may be, on a command line or in a recipe.
struct NumberRule {
  const char *shown, *legal; ///< in --help, in an error
  bool isWhole;
  bool (*allows)(double);
};
/// Whole from 1, or from 0, to `maxCount`; from 0; in [0, 1); above 0.
extern const NumberRule positiveRule, countRule, rateRule, shareRule,
    positiveNumberRule;
CLI::Validator makeCheck(const NumberRule &rule);

/// The flag of a recipe's key: --seq-len of seq_len.
std::string makeFlag(llvm::StringRef key);

/// Legal names.
extern const std::vector<std::string> dtypeNames, scheduleNames, optimizerNames,
    momentNames;

/// Refuse what is not an integer from 1, or from 0, to `maxCount`.
CLI::Validator makePositiveCheck();
CLI::Validator makeCountCheck();
/// Refuses what is not a finite number above 0.
CLI::Validator makePositiveNumberCheck();

/// Flags of `estimate` for what a layout can be and no program is yet. Each
/// takes the value of a layout without it and refuses others by name.
void addPlannedFlags(CLI::App &app);

/// What `compile`, `train` and `parity` are told of the layout.
struct LayoutFlags {
  TrainLayout layout{.microBatch = 0}; ///< 0: what getDefaultMicroBatch says
  std::vector<int64_t> stages;         ///< layers of virtual stages
  std::string planPath, cluster = "local", dtype;
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
  /// The compute type: the one that is given, or what the cluster's devices
  /// usually compute in.
  DType getDType(const Cluster &where) const;
  /// What a pass is told that chooses placements; nothing: the plan has them.
  std::optional<ChoosePlacementsPassOptions>
  getChoice(const Plan &plan, const Cluster &where) const;
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

/// Reads a model's configuration; its notes go to stderr.
llvm::Expected<Model> loadNotedModel(llvm::StringRef config,
                                     const FrontendOptions &options);

/// --moments, by itself for who only counts the bytes of them; and its value.
void addMomentsFlag(CLI::App &app, std::string &moments);
DType getMomentsType(llvm::StringRef moments);
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

/// Runs an executable to its end; returns its exit code. If there is a `log`,
/// errors go to that file and what else is printed to nowhere.
llvm::Expected<int> runExecutable(llvm::StringRef path,
                                  llvm::ArrayRef<std::string> arguments,
                                  llvm::StringRef log = "");

/// Compiles and links; writes the executable to `output`, or nothing.
llvm::Expected<Compiled> buildExecutable(const Model &model,
                                         const CompileOptions &options,
                                         llvm::StringRef output);

/// Links `object` with the runtime into the executable `output`.
llvm::Error linkExecutable(llvm::ArrayRef<char> object, llvm::StringRef output);

/// Each adds its command to `app`; `run` holds what to do once it is parsed.
void addImportCommand(CLI::App &app, std::function<int()> &run);
void addCompileCommand(CLI::App &app, std::function<int()> &run);
void addAssembleCommand(CLI::App &app, std::function<int()> &run);
void addTrainCommand(CLI::App &app, std::function<int()> &run);
void addRunCommand(CLI::App &app, std::function<int()> &run);
void addParityCommand(CLI::App &app, std::function<int()> &run);
void addExportCommand(CLI::App &app, std::function<int()> &run);
void addInspectCommand(CLI::App &app, std::function<int()> &run);
void addLedgerCommand(CLI::App &app, std::function<int()> &run);
void addSizeCommand(CLI::App &app, std::function<int()> &run);
void addPlanCommand(CLI::App &app, std::function<int()> &run);
void addEstimateCommand(CLI::App &app, std::function<int()> &run);
void addExplainCommand(CLI::App &app, std::function<int()> &run);
void addExploreCommand(CLI::App &app, std::function<int()> &run);
void addCalibrateCommand(CLI::App &app, std::function<int()> &run);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H
