//===- Symbols.h - Names of the running executable ------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_SYMBOLS_H
#define CLEAVE_TEST_CUDA_DRIVER_SYMBOLS_H

namespace cleave::simulated {

/// The address of an object of the running executable: one that it exports, or
/// else one of its symbol table; null without either.
void *findSymbol(const char *name);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_SYMBOLS_H
