#include "passes/Import/BuildModel.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
int main(int argc, char **argv) {
  auto model = cleave::loadModel(argv[1]);
  if (!model) { llvm::errs() << llvm::toString(model.takeError()) << "\n"; return 1; }
  mlir::MLIRContext context;
  cleave::BuildOptions options;
  options.batch = 2; options.seqLen = 48; options.paddedVocab = 332;
  auto module = cleave::buildModel(&context, *model, options);
  if (!module) { llvm::errs() << llvm::toString(module.takeError()) << "\n"; return 1; }
  if (failed(mlir::verify(**module))) return 1;
  (*module)->print(llvm::outs());
}
