//===- ProgramTimes.h - What an executable's step takes, and took ---------===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROGRAMTIMES_H
#define CLEAVE_TOOLS_CLEAVE_PROGRAMTIMES_H

#include "CommandLine.h"
#include "cleave/Simulate/SimulateTasks.h"
#include "runtime/program/Program.h"

namespace cleave::tool {

/// Whether a file is what `cleave compile` writes, by its first bytes.
bool isProgram(llvm::StringRef path);

/// A program and what its tasks take.
struct TimedProgram {
  runtime::Program program;
  TaskProgram tasks;
  Machine machine;
  TaskTimes times;
};

/// What `train --trace` wrote of a program: of each instruction the mean over
/// ranks and steps of what a step spends in it, and the median step, from the
/// first instruction of any rank to the end of the last. Without the first
/// step, if there are others.
struct MeasuredTasks {
  PerTask<double> seconds; ///< in a step
  double step = 0;
  int64_t steps = 0;
  std::string device; ///< as the executable calls it
};

/// Errors name the file; one is a trace of another program.
llvm::Expected<MeasuredTasks> readTrace(const std::string &path,
                                        const runtime::Program &program,
                                        const TaskProgram &tasks);

/// How a program is priced.
struct ProgramFlags {
  std::string kernelsFrom;
  std::vector<std::string> links;
  bool serial = false;

  /// Flags other than `--cluster`, for a command that takes a model, too; which
  /// needs those of `ofModel` then.
  void add(CLI::App &app, llvm::ArrayRef<std::string> ofModel);
  /// Whether `target`, what the command is of, is a program. Throws a
  /// CLI::ParseError where a flag is given that is not of such a target, or one
  /// is missing. Those of a program: its own, and `shared`.
  bool check(const CLI::App &app, const std::string &target,
             llvm::ArrayRef<std::string> shared) const;
  /// Without a cluster: this machine, with as many ranks as the program has.
  /// Without a profile: that of our own software on its devices.
  llvm::Error load(const std::string &path, const std::string &cluster,
                   const std::string &profile, TimedProgram &timed) const;

private:
  std::vector<CLI::Option *> own, ofModel;
};

/// Tasks that are alike: those of one name, but for the numbers of layers, and
/// phase.
struct TaskGroup {
  std::string name, phase;
  int64_t count = 0; ///< executions, of a rank of each stage
  double seconds = 0, measured = 0;
};
/// In the order of the seconds of both; `measured` may be null.
std::vector<TaskGroup> groupTasks(const TaskProgram &program,
                                  const TaskSimulation &simulation,
                                  const MeasuredTasks *measured);

/// For a person.
void printSimulation(llvm::raw_ostream &os, const TimedProgram &timed,
                     const TaskSimulation &simulation);
void printComparison(llvm::raw_ostream &os, const TimedProgram &timed,
                     const TaskSimulation &simulation,
                     const MeasuredTasks &measured);
/// With the keys of docs/planner.md; `measured` may be null.
llvm::json::Object toJSON(const TimedProgram &timed,
                          const TaskSimulation &simulation,
                          const MeasuredTasks *measured);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PROGRAMTIMES_H
