//===- Shrink.h - A small model of the same structure ---------------------===//
#ifndef CLEAVE_FRONTEND_SHRINK_H
#define CLEAVE_FRONTEND_SHRINK_H

#include "cleave/Frontend/Model.h"

namespace cleave {

/// Sizes of a small model.
struct SmallSizes {
  int64_t layers = 2;
  int64_t seqLen = 8;
  /// Numbers that must divide sizes: the parts that a mesh cuts them into.
  int64_t vocab = 1, heads = 1, kvHeads = 1, intermediate = 1, hidden = 1,
          headDim = 1;
};

/// The model with its sizes cut down to a few units, to run it in f64 in
/// milliseconds: of the same family, norms, biases, position embedding,
/// grouping of heads, windows (some layers with and some without, where the
/// model has both) and a vocabulary that its parts divide only if they do so in
/// `model`. Fails where the small config is not one that the frontend reads.
llvm::Expected<Model> shrinkModel(const Model &model, const SmallSizes &sizes,
                                  bool padsVocab);

} // namespace cleave

#endif // CLEAVE_FRONTEND_SHRINK_H
