//===- Meanings.h - What the ops of our dialects mean, in f64 -------------===//
#ifndef CLEAVE_PASSES_INTERPRET_MEANINGS_H
#define CLEAVE_PASSES_INTERPRET_MEANINGS_H

#include "mlir/IR/DialectRegistry.h"

namespace cleave {

/// Lets ops of xf, dist and exec be interpreted: when a context loads a
/// dialect, its ops get their models of InterpretableOpInterface.
void registerInterpretableExternalModels(mlir::DialectRegistry &registry);

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_MEANINGS_H
