//===- AssembleCommand.cpp - cleave assemble ------------------------------===//
#include "CompileFlags.h"
#include "Files.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

namespace {
struct AssembleFlags {
  std::string path, output, after = "memory", cluster = "local",
                            overlap = "auto", cpu;
  bool remarks = false, quiet = false;
};
} // namespace

static int runAssemble(const AssembleFlags &flags) {
  if (llvm::Error error = tool::checkReplaceable(flags.output))
    return tool::fail(std::move(error));
  llvm::Expected<Cluster> cluster = parseCluster(flags.cluster);
  if (!cluster)
    return tool::fail(cluster.takeError());
  CompileOptions options;
  options.remarks = flags.remarks;
  options.cpu = flags.cpu.empty() ? cluster->cpu : flags.cpu;
  if (llvm::Error error = options.setDevice(*cluster))
    return tool::fail(std::move(error));
  options.stages.plan.cluster = flags.cluster;
  options.stages.partition.cluster = flags.cluster;
  options.stages.turn.cluster = flags.cluster;
  options.stages.overlap.cluster = flags.cluster;
  options.stages.overlap.mode = flags.overlap;
  llvm::Expected<Compiled> compiled =
      compileIR(flags.path, flags.after, *cluster, options);
  if (!compiled)
    return tool::fail(compiled.takeError());
  llvm::Expected<runtime::Program> program =
      tool::linkExecutable(*compiled, flags.path, flags.output);
  if (!program)
    return tool::fail(program.takeError());
  tool::printWarnings(*compiled);
  if (!flags.quiet)
    llvm::outs() << llvm::formatv(
        "{0}: {1}, {2}, {3}\n", flags.output,
        tool::count(program->getWorldSize(), "rank"),
        tool::count(compiled->instructions, "instruction"),
        tool::count(compiled->kernels, "kernel"));
  return 0;
}

void tool::addAssembleCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<AssembleFlags>();
  CLI::App *command = app.add_subcommand(
      "assemble", "Make an executable of IR, as a stage left it or as you "
                  "changed it");
  command
      ->add_option("ir", flags->path,
                   "what cleave compile --dump-after-stage or cleave-translate "
                   "--program-to-exec printed")
      ->required();
  std::vector<std::string> stages;
  for (const Stage &stage : getStages())
    stages.push_back(stage.name.str());
  command
      ->add_option("--after-stage", flags->after,
                   "the stage that the IR comes from; those after it run now")
      ->check(CLI::IsMember(stages))
      ->capture_default_str();
  command
      ->add_option("--cluster", flags->cluster,
                   "for the stages to come, as of cleave compile")
      ->capture_default_str();
  command
      ->add_option("--overlap", flags->overlap,
                   "likewise: always, never or auto")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  command->add_option("--cpu", flags->cpu,
                      "x86-64 CPU that kernels are for, as LLVM names it "
                      "(default: the cluster's)");
  command->add_flag("--remarks", flags->remarks,
                    "say what the passes decided, on stderr");
  command->add_flag("-q,--quiet", flags->quiet, "print errors only");
  command->add_option("-o,--output", flags->output, "executable to write")
      ->required();
  command->callback(
      [flags, &run] { run = [flags] { return runAssemble(*flags); }; });
}
