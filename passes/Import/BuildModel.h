//===- BuildModel.h - From a model description to its forward graph -------===//
#ifndef CLEAVE_PASSES_IMPORT_BUILDMODEL_H
#define CLEAVE_PASSES_IMPORT_BUILDMODEL_H

#include "cleave/Frontend/Model.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace cleave {

struct BuildOptions {
  int64_t batch = 1;       ///< samples of one micro-batch, over all ranks
  int64_t seqLen = 0;      ///< tokens of a sample
  int64_t paddedVocab = 0; ///< rows of the vocabulary's tensors; 0: no padding
  bool bf16 = false;       ///< compute in bf16; state stays f32
  bool logits = false;     ///< keep the logits as an output
};

/// Builds the model as one device would see it: state, and a function
/// `@forward(ids, targets) -> loss`, the sum of the loss over all tokens.
/// ids and targets are `[batch, seqLen]` i32. Fails where the sequence does not
/// fit the model's learned positions.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
buildModel(mlir::MLIRContext *context, const Model &model,
           const BuildOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_BUILDMODEL_H
