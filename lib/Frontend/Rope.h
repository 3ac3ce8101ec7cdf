//===- Rope.h - Rotary frequencies as HuggingFace computes them -----------===//
#ifndef CLEAVE_LIB_FRONTEND_ROPE_H
#define CLEAVE_LIB_FRONTEND_ROPE_H

#include "Family.h"

namespace cleave::frontend {

/// Reads "rope_theta", "rope_scaling", "rope_parameters" and the partial
/// rotation of a config, and computes the frequencies from them. The model's
/// headDim and maxPositions must be set. `seqLen` decides between the short
/// and the long factors of longrope; 0: the model's maximum. What a user
/// should know goes to `notes`.
RopeSpec readRope(ObjectReader &config, const Family &family,
                  const Model &model, int64_t seqLen,
                  std::vector<std::string> &notes);

} // namespace cleave::frontend

#endif // CLEAVE_LIB_FRONTEND_ROPE_H
