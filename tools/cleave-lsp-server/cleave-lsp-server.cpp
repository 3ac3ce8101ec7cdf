//===- cleave-lsp-server.cpp - Our dialects in an editor ------------------===//
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "passes/Pipelines/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  cleave::registerAllDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
