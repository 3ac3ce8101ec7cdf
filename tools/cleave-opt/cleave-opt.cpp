//===- cleave-opt.cpp - Run any pass or stage on a file -------------------===//
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines/Pipelines.h"
#include "runtime/base/StandardStreams.h"
#include "runtime/base/Version.h"
#include "tools/UsageCode.h"
#include "llvm/Support/CommandLine.h"

static void printVersion(llvm::raw_ostream &os) {
  os << "cleave-opt " << cleave::getVersion() << '\n';
}

int main(int argc, char **argv) {
  cleave::runtime::openStandardStreams();
  llvm::cl::SetVersionPrinter(printVersion);
  mlir::DialectRegistry registry;
  cleave::registerAllDialects(registry);
  mlir::registerTransformsPasses();
  cleave::registerAllPasses();
  cleave::tool::UsageCode usage;
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "Cleave optimizer driver\n", registry);
  usage.end();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
