//===- InspectCommand.cpp - cleave inspect --------------------------------===//
#include "CommandLine.h"
#include "runtime/program/Print.h"

using namespace cleave;

static int runInspect(const std::string &path) {
  runtime::Program program;
  runtime::Status status = runtime::Program::loadFile(path, program);
  if (!status.ok())
    return tool::fail(status.message());
  runtime::PrintOptions all;
  all.plan = true;
  llvm::outs() << runtime::printProgram(program, all);
  return 0;
}

void tool::addInspectCommand(CLI::App &app, std::function<int()> &run) {
  auto path = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand(
      "inspect", "Print an executable's plan, memory map, kernels, state and "
                 "instructions");
  command->add_option("executable", *path, "what cleave compile wrote")
      ->required();
  command->callback(
      [path, &run] { run = [path] { return runInspect(*path); }; });
}
