//===- Main.cpp - The cleave command --------------------------------------===//
#include "CommandLine.h"

using namespace cleave;

int main(int argc, char **argv) {
  CLI::App app("Cleave: compile a model to a distributed training executable");
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_version_flag("--version", "cleave 0.1");
  std::function<int()> run;
  tool::addImportCommand(app, run);
  tool::addCompileCommand(app, run);
  tool::addTrainCommand(app, run);
  tool::addParityCommand(app, run);
  tool::addInspectCommand(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // Help and version are no errors; anything else is a usage error.
    return app.exit(error) ? 2 : 0;
  }
  return run();
}
