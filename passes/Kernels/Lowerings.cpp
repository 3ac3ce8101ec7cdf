//===- Lowerings.cpp - The lowering of each training-graph op -------------===//
#include "passes/Kernels/Lowerings.h"
#include "dialects/xf/Xf.h"
#include "passes/Kernels/LoweringInterfaces.h"

using namespace mlir;
using namespace cleave;

#include "passes/Kernels/LoweringInterfaces.cpp.inc"

void cleave::registerLoweringExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, xf::XfDialect *) {
    attachPointwiseKernels(context);
    attachNormKernels(context);
    attachLossKernels(context);
    attachOptimizerKernels(context);
    attachRoutines(context);
    attachComposites(context);
  });
}
