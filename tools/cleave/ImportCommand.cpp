//===- ImportCommand.cpp - cleave import ----------------------------------===//
#include "CommandLine.h"
#include "Files.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Import/BuildModel.h"

using namespace cleave;

namespace {
struct ImportFlags {
  std::string config, output = "-";
  bool summary = false, strict = false;
  BuildOptions build;
  std::string dtype = "f32";
};
} // namespace

static int runImport(ImportFlags flags) {
  FrontendOptions frontend;
  frontend.seqLen = flags.build.seqLen;
  frontend.strict = flags.strict;
  llvm::Expected<std::string> config = tool::findConfig(flags.config);
  if (!config)
    return tool::fail(config.takeError());
  llvm::Expected<Model> model = tool::loadNotedModel(*config, frontend);
  if (!model)
    return tool::fail(model.takeError());

  std::string text;
  if (flags.summary) {
    text = getModelSummary(*model);
  } else {
    if (flags.build.seqLen == 0)
      flags.build.seqLen = model->getDefaultSeqLen();
    if (flags.build.paddedVocab && flags.build.paddedVocab < model->vocab)
      return tool::fail("--pad-vocab " + llvm::Twine(flags.build.paddedVocab) +
                        ": expects 0, or at least the vocabulary's " +
                        llvm::Twine(model->vocab) + " rows");
    flags.build.bf16 = flags.dtype == "bf16";
    mlir::MLIRContext context;
    auto module = buildModel(&context, *model, flags.build);
    if (!module)
      return tool::fail(module.takeError());
    llvm::raw_string_ostream stream(text);
    (*module)->print(stream);
  }
  if (text.empty() || text.back() != '\n')
    text += '\n';

  if (llvm::Error error = tool::writeFile(flags.output, text))
    return tool::fail(std::move(error));
  return 0;
}

void tool::addStrictFlag(CLI::App &app, bool &strict) {
  app.add_flag("--strict", strict,
               "refuse keys of config.json that no code of the model's type "
               "reads, instead of a note");
}

void tool::addImportCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App *command = app.add_subcommand(
      "import", "Turn a HuggingFace config.json into the forward graph");
  command
      ->add_option("config", flags->config,
                   "config.json, or the folder that has it")
      ->required();
  tool::addStrictFlag(*command, flags->strict);
  command->add_option("-o,--output", flags->output, "file to write; -: stdout")
      ->capture_default_str();
  command->add_flag("--summary", flags->summary,
                    "print model type, parameter count and tensors as JSON");
  command
      ->add_option("--seq-len", flags->build.seqLen,
                   "tokens of a sample (default: the model's maximum, at "
                   "most 1024)")
      ->check(tool::makePositiveCheck());
  command->add_option("--batch", flags->build.batch, "samples")
      ->check(tool::makePositiveCheck())
      ->capture_default_str();
  command
      ->add_option("--pad-vocab", flags->build.paddedVocab,
                   "rows that the vocabulary is padded to; 0: none")
      ->check(tool::makeCountCheck())
      ->capture_default_str();
  command->add_option("--dtype", flags->dtype, "compute type")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command->callback(
      [flags, &run] { run = [flags] { return runImport(*flags); }; });
}
