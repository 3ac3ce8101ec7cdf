//===- TrainCommand.cpp - cleave train: compile and run in one go ---------===//
#include "CompileFlags.h"
#include "Files.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include <fcntl.h>
#include <unistd.h>

using namespace cleave;

namespace {
struct TrainFlags {
  tool::CompileFlags compile;
  std::vector<std::string> arguments, recipeArguments;
};
} // namespace

llvm::Expected<int> tool::runExecutable(llvm::StringRef path,
                                        llvm::ArrayRef<std::string> arguments,
                                        llvm::StringRef log) {
  llvm::SmallVector<llvm::StringRef> all{path};
  all.append(arguments.begin(), arguments.end());
  std::string message;
  // An empty path is /dev/null.
  llvm::SmallVector<std::optional<llvm::StringRef>, 3> redirects;
  if (!log.empty())
    redirects = {std::nullopt, llvm::StringRef(), log};
  int code = llvm::sys::ExecuteAndWait(path, all, std::nullopt, redirects, 0, 0,
                                       &message);
  if (!message.empty())
    return llvm::createStringError(path + ": " + message);
  return code;
}

/// Becomes the executable: signals reach it, and its exit code is the
/// command's. Returns only if that fails. `file` is removed first, which the
/// open descriptor outlives.
static int becomeExecutable(const std::string &path,
                            const std::vector<std::string> &arguments,
                            std::optional<tool::TemporaryFile> file) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return tool::fail(path + ": " + llvm::sys::StrError());
  file.reset();
  std::vector<char *> argv{const_cast<char *>(path.c_str())};
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  ::fexecve(descriptor, argv.data(), environ);
  return tool::fail(path + ": " + llvm::sys::StrError());
}

static int runTrain(TrainFlags flags) {
  std::vector<std::string> arguments =
      tool::mergeRunFlags(flags.arguments, flags.recipeArguments);
  if (std::string missing = tool::getMissingRunFlags(arguments);
      !missing.empty())
    return tool::failUsage(
        "expects " + missing +
        " after --, for the executable, or in the recipe: cleave train MODEL "
        "... -- --data FILE --steps N");
  std::optional<tool::TemporaryFile> temporary;
  if (flags.compile.output.empty()) {
    auto file = tool::TemporaryFile::create();
    if (!file)
      return tool::fail(file.takeError());
    flags.compile.output = file->getPath().str();
    temporary.emplace(std::move(*file));
  }
  int code = tool::flushOutput(tool::runCompile(flags.compile));
  if (code)
    return code;
  llvm::SmallString<128> absolute(flags.compile.output);
  if (std::error_code code = llvm::sys::fs::make_absolute(absolute))
    return tool::fail(flags.compile.output + ": " + code.message());
  return becomeExecutable(absolute.str().str(), arguments,
                          std::move(temporary));
}

void tool::addTrainCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App *command = app.add_subcommand(
      "train", "Compile a model and train it: cleave train MODEL ... -- --data "
               "FILE --steps N ..., or cleave train MODEL --recipe FILE");
  flags->compile.add(*command, &flags->recipeArguments);
  command->add_option("-o,--output", flags->compile.output,
                      "keep the executable under this name");
  command->add_option("arguments", flags->arguments,
                      "after --: the executable's own, such as --data and "
                      "--steps; see cleave train MODEL ... -- --help");
  command->footer("Exit code: that of the executable (its --help), or 1 on "
                  "failure and 2 on wrong usage before it runs.");
  command->callback(
      [flags, &run] { run = [flags] { return runTrain(*flags); }; });
}
