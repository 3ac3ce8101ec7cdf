//===- ExportCommand.cpp - cleave export ----------------------------------===//
#include "CommandLine.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Store.h"

using namespace cleave;

namespace {
struct ExportFlags {
  std::string checkpoint;
  runtime::ExportOptions options;
};
} // namespace

/// Exports the newest checkpoint that is whole; damaged ones are named.
static int runExport(const ExportFlags &flags) {
  std::vector<runtime::CheckpointPath> found =
      runtime::listCheckpoints(flags.checkpoint);
  if (found.empty())
    return tool::fail(
        runtime::failWithoutCheckpoint(flags.checkpoint).message());
  for (const runtime::CheckpointPath &checkpoint : found) {
    runtime::CheckpointReader reader;
    runtime::Status status =
        runtime::CheckpointReader::open(checkpoint.path, reader);
    if (status.ok())
      status = reader.verify();
    if (status.ok()) {
      status = runtime::exportCheckpoint(reader, flags.options);
      if (!status.ok())
        return tool::fail(status.message());
      llvm::outs() << "exported " << checkpoint.path << " to "
                   << flags.options.folder << "\n";
      return 0;
    }
    llvm::errs() << "cleave: warning: "
                 << runtime::describePassedOver(status, checkpoint.path)
                 << "\n";
  }
  return tool::fail(
      runtime::failWithoutWhole(flags.checkpoint, found.size()).message());
}

void tool::addExportCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App *command = app.add_subcommand(
      "export", "Write a checkpoint's weights as a folder that transformers "
                "reads");
  command
      ->add_option("checkpoint", flags->checkpoint,
                   "a checkpoint, or the folder of a run's: then the newest "
                   "that is whole")
      ->required();
  command
      ->add_option("folder", flags->options.folder,
                   "gets model.safetensors, or numbered files and their "
                   "index, and config.json")
      ->required();
  command
      ->add_option("--max-shard-size", flags->options.fileBytes,
                   "begin another file beyond so many bytes, such as 500MB "
                   "(default: 5GB)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(makePositiveNumberCheck())
      ->type_name("SIZE");
  command->add_flag("--overwrite", flags->options.overwrite,
                    "replace the weights that are in the folder");
  command->callback(
      [flags, &run] { run = [flags] { return runExport(*flags); }; });
}
