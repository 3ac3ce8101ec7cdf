//===- EntryPoints.cpp - That none is missing -----------------------------===//
//
// The library cannot be linked without a definition of each entry point that
// the product opens. Process.h declares them as the product calls them, so none
// is defined with other parameters.
//
//===----------------------------------------------------------------------===//
#include "test/cuda/driver/Process.h"

namespace cleave::simulated {

extern const void *const entryPoints[];

#define CLEAVE_TAKE(name, symbol, ...) reinterpret_cast<const void *>(&symbol),
const void *const entryPoints[] = {CLEAVE_DRIVER_CALLS(CLEAVE_TAKE)};
#undef CLEAVE_TAKE

} // namespace cleave::simulated
