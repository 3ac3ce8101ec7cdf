//===- cleave-opt.cpp - Run any pass or stage on a file -------------------===//
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Interpret/CheckMeaning.h"
#include "passes/Log.h"
#include "passes/Pipelines/Pipelines.h"
#include "runtime/base/StandardStreams.h"
#include "runtime/base/Version.h"
#include "tools/UsageCode.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

static llvm::cl::opt<bool> checkMeaning(
    "check-meaning",
    llvm::cl::desc(
        "Run the step in f64 on simulated ranks before and after "
        "each pass, and fail where a pass changes what it computes"));

/// Of LLVM's own, which a release build of LLVM does not register.
static std::unique_ptr<llvm::cl::list<std::string>> addDebugOnly() {
  if (llvm::cl::getRegisteredOptions().contains("debug-only"))
    return nullptr;
  return std::make_unique<llvm::cl::list<std::string>>(
      "debug-only", llvm::cl::CommaSeparated,
      llvm::cl::desc("Print what these passes decide, to stderr"),
      llvm::cl::value_desc("pass,..."));
}

/// Passes stream their decisions into LDBG(), see passes/Log.h.
static void logPasses(const llvm::cl::list<std::string> *names) {
  if (!names || names->empty())
    return;
  llvm::SmallVector<const char *> types;
  for (const std::string &name : *names)
    types.push_back(name.c_str());
  llvm::DebugFlag = true;
  (llvm::setCurrentDebugTypes)(types.data(), unsigned(types.size()));
}

static void printVersion(llvm::raw_ostream &os) {
  os << "cleave-opt " << cleave::getVersion() << '\n';
}

/// As mlir::MlirOptMain, with a check around each pass.
static mlir::LogicalResult runChecked(llvm::StringRef input,
                                      llvm::StringRef output,
                                      mlir::DialectRegistry &registry) {
  std::string error;
  auto from = mlir::openInputFile(input, &error);
  auto to = from ? mlir::openOutputFile(output, &error) : nullptr;
  if (!to) {
    llvm::errs() << error << "\n";
    return mlir::failure();
  }
  cleave::MeaningCheck::Result result;
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  mlir::MlirOptMainConfig checked = config;
  checked.setPassPipelineSetupFn([&](mlir::PassManager &pm) {
    pm.addInstrumentation(std::make_unique<cleave::MeaningCheck>(result));
    return config.setupPassPipeline(pm);
  });
  if (failed(mlir::MlirOptMain(to->os(), std::move(from), registry, checked)) ||
      result.failed)
    return mlir::failure();
  to->keep();
  return mlir::success();
}

int main(int argc, char **argv) {
  cleave::runtime::openStandardStreams();
  llvm::cl::SetVersionPrinter(printVersion);
  mlir::DialectRegistry registry;
  cleave::registerAllDialects(registry);
  mlir::registerTransformsPasses();
  cleave::registerAllPasses();
  auto debugOnly = addDebugOnly();
  cleave::tool::UsageCode usage;
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "Cleave optimizer driver\n", registry);
  usage.end();
  logPasses(debugOnly.get());
  if (checkMeaning)
    return mlir::asMainReturnCode(runChecked(input, output, registry));
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
