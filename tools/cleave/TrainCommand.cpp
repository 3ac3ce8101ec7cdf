//===- TrainCommand.cpp - cleave train: compile and run in one go ---------===//
#include "CommandLine.h"
#include "Files.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

using namespace cleave;

namespace {
struct TrainFlags {
  tool::CompileFlags compile;
  std::vector<std::string> arguments;
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

static int runTrain(TrainFlags flags) {
  std::optional<tool::TemporaryFile> temporary;
  if (flags.compile.output.empty()) {
    auto file = tool::TemporaryFile::create();
    if (!file)
      return tool::fail(file.takeError());
    flags.compile.output = file->getPath().str();
    temporary.emplace(std::move(*file));
  }
  if (int code = tool::runCompile(flags.compile))
    return code;
  llvm::SmallString<128> absolute(flags.compile.output);
  llvm::sys::fs::make_absolute(absolute);
  llvm::Expected<int> code = tool::runExecutable(absolute, flags.arguments);
  return code ? *code : tool::fail(code.takeError());
}

void tool::addTrainCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App *command = app.add_subcommand(
      "train", "Compile a model and train it: cleave train MODEL ... -- --data "
               "FILE --steps N ...");
  flags->compile.add(*command);
  command->add_option("-o,--output", flags->compile.output,
                      "keep the executable under this name");
  command->prefix_command(false);
  command
      ->add_option("arguments", flags->arguments,
                   "after --: the executable's own, such as --data and --steps")
      ->required();
  command->callback(
      [flags, &run] { run = [flags] { return runTrain(*flags); }; });
}
