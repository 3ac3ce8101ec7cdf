//===- Version.cpp --------------------------------------------------------===//
#include "runtime/base/Version.h"
// Written at each build; changes only with what it says.
#include "runtime/base/commit.h"

[[gnu::section(CLEAVE_VERSION_SECTION)]] static const char version[] =
    "0.1 (commit " CLEAVE_COMMIT ", " CLEAVE_LLVM ")";

const char *cleave::getVersion() { return version; }
