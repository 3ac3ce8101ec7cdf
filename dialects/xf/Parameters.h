//===- Parameters.h - What steps do with parameters -----------------------===//
#ifndef CLEAVE_DIALECTS_XF_PARAMETERS_H
#define CLEAVE_DIALECTS_XF_PARAMETERS_H

#include "dialects/xf/Xf.h"

namespace cleave::xf {

/// The parameter that an op reads and gives in fewer bits; null of all others.
/// A step that updates the parameter may keep the result for the next one
/// (cleave-keep-copies): then the update writes it, and nothing reads the
/// parameter for it.
StateOp getRoundedParameter(mlir::CastOpInterface op);

} // namespace cleave::xf

#endif // CLEAVE_DIALECTS_XF_PARAMETERS_H
