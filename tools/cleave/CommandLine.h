//===- CommandLine.h - What the commands of cleave share ------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H
#define CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H

#include "Recipe.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Hardware/Cluster.h"
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

/// A flag that the help does not have, which says what is legal. CLI11 does not
/// name such a flag in errors, so `check` gives the whole error.
void addHiddenFlag(CLI::App &app, const std::string &flag,
                   std::function<std::string(llvm::StringRef)> check);

/// Flags of `estimate` for what a layout can be and no program is yet. Each
/// takes the value of a layout without it and refuses others by name.
void addPlannedFlags(CLI::App &app);

/// Reads a model's configuration; its notes go to stderr.
llvm::Expected<Model> loadNotedModel(llvm::StringRef config,
                                     const FrontendOptions &options);

/// --moments, by itself for who only counts the bytes of them; and its value.
void addMomentsFlag(CLI::App &app, std::string &moments);
DType getMomentsType(llvm::StringRef moments);
/// Runs an executable to its end; returns its exit code. If there is a `log`,
/// errors go to that file and what else is printed to nowhere.
llvm::Expected<int> runExecutable(llvm::StringRef path,
                                  llvm::ArrayRef<std::string> arguments,
                                  llvm::StringRef log = "");

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
