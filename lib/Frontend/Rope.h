//===- Rope.h - Rotary frequencies as HuggingFace computes them -----------===//
#ifndef CLEAVE_LIB_FRONTEND_ROPE_H
#define CLEAVE_LIB_FRONTEND_ROPE_H

#include "ConfigReader.h"
#include "cleave/Frontend/Model.h"

namespace cleave::frontend {

/// Reads "rope_theta", "rope_scaling", "rope_parameters" and the partial
/// rotation of a config, and computes the frequencies from them. The model's
/// modelType, headDim and maxPositions must be set. `seqLen` decides between
/// the short and the long factors of longrope; 0: the model's maximum.
RopeSpec readRope(ObjectReader &config, const Model &model, int64_t seqLen);

} // namespace cleave::frontend

#endif // CLEAVE_LIB_FRONTEND_ROPE_H
