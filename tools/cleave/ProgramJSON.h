//===- ProgramJSON.h - An executable as JSON ------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROGRAMJSON_H
#define CLEAVE_TOOLS_CLEAVE_PROGRAMJSON_H

#include "Executable.h"
#include "llvm/Support/JSON.h"

namespace cleave::tool {

/// All that `cleave inspect` shows, with the keys of docs/formats.md.
llvm::json::Object toJSON(const Executable &executable);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PROGRAMJSON_H
