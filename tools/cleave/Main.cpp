//===- Main.cpp - The cleave command --------------------------------------===//
#include "CommandLine.h"
#include "runtime/base/StandardStreams.h"
#include "runtime/base/Version.h"
#include "runtime/train/HelpFormatter.h"
#include "llvm/ADT/StringExtras.h"
#include <csignal>
#include <sstream>

using namespace cleave;

/// `; did you mean X?` if one of the names is what `name` looks like.
static std::string suggest(llvm::StringRef name,
                           llvm::ArrayRef<std::string> names) {
  llvm::StringRef nearest;
  unsigned least = std::max<unsigned>(1, unsigned(name.size()) / 3) + 1;
  for (const std::string &each : names)
    if (unsigned distance = name.edit_distance(each); distance < least) {
      least = distance;
      nearest = each;
    }
  return nearest.empty() ? "" : ("; did you mean " + nearest + "?").str();
}

/// What is wrong with the first thing that a command does not know.
static std::string describeExtra(const CLI::App &command,
                                 const std::string &extra) {
  if (extra[0] != '-')
    return "unexpected argument \"" + extra + "\"";
  std::string flag = extra.substr(0, extra.find('=')), message;
  if (command.get_name() == "train")
    message = tool::describeRunFlag(flag);
  if (!message.empty())
    return message;
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string &name : option->get_lnames())
        names.push_back("--" + name);
  return "unknown option " + flag + suggest(flag, names);
}

/// What is wrong with a command line, and whose help says what is legal.
static std::string describeUsage(const CLI::App &app, int argc, char **argv,
                                 const CLI::ParseError &error) {
  if (app.get_subcommands().empty()) {
    std::string message = error.what();
    if (argc > 1 && argv[1][0] != '-') {
      std::vector<std::string> names;
      for (const CLI::App *command : app.get_subcommands(nullptr))
        names.push_back(command->get_name());
      message = "unknown command \"" + std::string(argv[1]) + "\"" +
                suggest(argv[1], names);
    }
    message[0] = llvm::toLower(message[0]);
    return message + "; see cleave --help";
  }
  const CLI::App &command = *app.get_subcommands().front();
  std::string message = error.what();
  std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  if (error.get_exit_code() == int(CLI::ExitCodes::ExtrasError) &&
      !extras.empty())
    message = describeExtra(command, extras.front());
  message[0] = llvm::toLower(message[0]);
  return message + "; see cleave " + command.get_name() + " --help";
}

/// Parses and runs; returns the exit code.
static int runCommand(int argc, char **argv) {
  CLI::App app("Cleave: compile a model to a distributed training executable");
  app.formatter(std::make_shared<runtime::HelpFormatter>());
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_version_flag("--version", std::string("cleave ") + getVersion(),
                       "Print version, commit and LLVM's version, and exit");
  app.footer("Exit code: 0, 1 on failure, 2 on wrong usage; that of the "
             "executable where one is run.");
  std::function<int()> run;
  tool::addImportCommand(app, run);
  tool::addCompileCommand(app, run);
  tool::addAssembleCommand(app, run);
  tool::addTrainCommand(app, run);
  tool::addRunCommand(app, run);
  tool::addParityCommand(app, run);
  tool::addExportCommand(app, run);
  tool::addInspectCommand(app, run);
  tool::addLedgerCommand(app, run);
  tool::addSizeCommand(app, run);
  tool::addPlanCommand(app, run);
  tool::addEstimateCommand(app, run);
  tool::addExplainCommand(app, run);
  tool::addExploreCommand(app, run);
  tool::addCalibrateCommand(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::FileError &error) {
    return tool::fail(error.what());
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) { // help or the version
      std::ostringstream text;
      app.exit(error, text, text);
      llvm::outs() << text.str();
      return 0;
    }
    return tool::failUsage(describeUsage(app, argc, argv, error));
  }
  return run();
}

int main(int argc, char **argv) {
  runtime::openStandardStreams();
  // A limit on the size of files is then an error, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = runCommand(argc, argv);
  return tool::flushOutput(code);
}
