//===- Version.cpp --------------------------------------------------------===//
#include "runtime/base/Version.h"
// Written at each build; changes only with what it says.
#include "runtime/base/commit.h"

const char *cleave::getVersion() {
  return "0.1 (commit " CLEAVE_COMMIT ", " CLEAVE_LLVM ")";
}
