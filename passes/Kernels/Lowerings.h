//===- Lowerings.h - The lowering of each training-graph op ---------------===//
#ifndef CLEAVE_PASSES_KERNELS_LOWERINGS_H
#define CLEAVE_PASSES_KERNELS_LOWERINGS_H

#include "mlir/IR/DialectRegistry.h"

namespace cleave {

/// Lets ops of xf become instructions of exec: when a context loads xf, each op
/// gets a model of KernelOpInterface, LibraryOpInterface or
/// CompositeOpInterface.
void registerLoweringExternalModels(mlir::DialectRegistry &registry);

// The models, by theme.
void attachPointwiseKernels(mlir::MLIRContext *context);
void attachNormKernels(mlir::MLIRContext *context);
void attachLossKernels(mlir::MLIRContext *context);
void attachOptimizerKernels(mlir::MLIRContext *context);
void attachRoutines(mlir::MLIRContext *context);
void attachComposites(mlir::MLIRContext *context);

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_LOWERINGS_H
