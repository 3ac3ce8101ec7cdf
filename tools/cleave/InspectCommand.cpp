//===- InspectCommand.cpp - cleave inspect --------------------------------===//
#include "CommandLine.h"
#include "ProgramJSON.h"
#include "runtime/program/Print.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

namespace {
struct InspectFlags {
  std::string path;
  bool json = false;
};
} // namespace

static int runInspect(const InspectFlags &flags) {
  runtime::Program program;
  runtime::Status status = runtime::Program::loadFile(flags.path, program);
  if (!status.ok())
    return tool::fail(status.message());
  if (flags.json) {
    llvm::outs() << llvm::formatv("{0:2}\n",
                                  llvm::json::Value(tool::toJSON(program)));
    return 0;
  }
  runtime::PrintOptions all;
  all.plan = true;
  llvm::outs() << runtime::printProgram(program, all);
  return 0;
}

void tool::addInspectCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App *command = app.add_subcommand(
      "inspect", "Print an executable's plan, memory map, kernels, state and "
                 "instructions");
  command->add_option("executable", flags->path, "what cleave compile wrote")
      ->required();
  command->add_flag("--json", flags->json, "print JSON (docs/formats.md)");
  command->callback(
      [flags, &run] { run = [flags] { return runInspect(*flags); }; });
}
