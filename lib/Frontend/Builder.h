//===- Builder.h - Lays out a family's checkpoint as program parameters ---===//
#ifndef CLEAVE_LIB_FRONTEND_BUILDER_H
#define CLEAVE_LIB_FRONTEND_BUILDER_H

#include "Family.h"

namespace cleave::frontend {

/// Fills in every Piece of `model`, its layers and its tensor list. The dims,
/// norm, qkNorm, tied and each layer's window must be set already.
void buildLayout(Model &model, const Family &family,
                 const LayoutOptions &options);

} // namespace cleave::frontend

#endif // CLEAVE_LIB_FRONTEND_BUILDER_H
