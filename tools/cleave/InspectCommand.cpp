//===- InspectCommand.cpp - cleave inspect --------------------------------===//
#include "CommandLine.h"
#include "CudaReport.h"
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
  llvm::Expected<tool::Executable> executable =
      tool::readExecutable(flags.path);
  if (!executable)
    return tool::fail(executable.takeError());
  if (flags.json) {
    llvm::outs() << llvm::formatv("{0:2}\n",
                                  llvm::json::Value(tool::toJSON(*executable)));
    return 0;
  }
  const runtime::PrintOptions summary{.memory = false,
                                      .states = false,
                                      .kernels = false,
                                      .instructions = false};
  const runtime::PrintOptions rest{.summary = false, .plan = true};
  llvm::outs() << runtime::printProgram(executable->program, summary);
  if (executable->cuda)
    llvm::outs() << tool::print(tool::makeCudaReport(*executable),
                                *executable->cuda);
  llvm::outs() << runtime::printProgram(executable->program, rest);
  return 0;
}

void tool::addInspectCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App *command = app.add_subcommand(
      "inspect", "Print an executable's plan, memory map, kernels, state and "
                 "instructions, and what it has for GPUs");
  command->add_option("executable", flags->path, "what cleave compile wrote")
      ->required();
  command->add_flag("--json", flags->json, "print JSON (docs/formats.md)");
  command->callback(
      [flags, &run] { run = [flags] { return runInspect(*flags); }; });
}
