//===- cleave-lsp-server.cpp - Our dialects in an editor ------------------===//
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "passes/Pipelines/Pipelines.h"
#include "runtime/base/StandardStreams.h"
#include "runtime/base/Version.h"
#include "tools/UsageCode.h"
#include "llvm/Support/CommandLine.h"

static void printVersion(llvm::raw_ostream &os) {
  os << "cleave-lsp-server " << cleave::getVersion() << '\n';
}

int main(int argc, char **argv) {
  cleave::runtime::openStandardStreams();
  llvm::cl::SetVersionPrinter(printVersion);
  mlir::DialectRegistry registry;
  cleave::registerAllDialects(registry);
  cleave::tool::UsageCode usage;
  // It is asked for the dialects of a file, so once all options are read.
  auto getRegistry = [&](const llvm::lsp::URIForFile &) -> auto & {
    usage.end();
    return registry;
  };
  return failed(mlir::MlirLspServerMain(argc, argv, getRegistry));
}
