//===- Main.cpp - The cleave command --------------------------------------===//
#include "CommandLine.h"
#include "llvm/ADT/StringExtras.h"
#include <csignal>

using namespace cleave;

/// Parses and runs; returns the exit code.
static int runCommand(int argc, char **argv) {
  CLI::App app("Cleave: compile a model to a distributed training executable");
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_version_flag("--version", "cleave 0.1");
  std::function<int()> run;
  tool::addImportCommand(app, run);
  tool::addCompileCommand(app, run);
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
  tool::addCalibrateCommand(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::FileError &error) {
    return tool::fail(error.what());
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // help or the version
      return app.exit(error);
    std::string message = error.what(), command = "cleave";
    if (!app.get_subcommands().empty())
      command += " " + app.get_subcommands().front()->get_name();
    else if (argc > 1 && argv[1][0] != '-')
      message = "unknown command \"" + std::string(argv[1]) + "\"";
    message[0] = llvm::toLower(message[0]);
    tool::fail(message + "; see " + command + " --help");
    return 2;
  }
  return run();
}

int main(int argc, char **argv) {
  // A limit on the size of files is then an error, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = runCommand(argc, argv);
  llvm::outs().flush();
  if (llvm::outs().has_error()) {
    std::string reason = llvm::outs().error().message();
    llvm::outs().clear_error();
    return tool::fail("standard output: " + reason);
  }
  return code;
}
