//===- Activations.h - The pointwise functions and their slopes -----------===//
#ifndef CLEAVE_PASSES_INTERPRET_ACTIVATIONS_H
#define CLEAVE_PASSES_INTERPRET_ACTIVATIONS_H

#include "dialects/xf/Xf.h"

namespace cleave {

/// A function and its derivative at x, the latter by the rules of arithmetic.
std::pair<double, double> activate(xf::ActivationKind kind, double x);

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_ACTIVATIONS_H
