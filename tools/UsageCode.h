//===- UsageCode.h - The exit code of wrong usage of LLVM's options -------===//
#ifndef CLEAVE_TOOLS_USAGECODE_H
#define CLEAVE_TOOLS_USAGECODE_H

#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <unistd.h>

namespace cleave::tool {

/// LLVM's parser of options ends the process with 1 where it does not know one,
/// like every other failure, and MLIR's mains leave no choice. While this
/// lives, or until `end`, that becomes 2, the exit code of wrong usage in
/// `cleave`.
class UsageCode {
public:
  UsageCode() {
    // What is made before is torn down after: a full standard output is then
    // found out behind the handler.
    llvm::outs();
    isParsing = true;
    ::on_exit(
        [](int code, void *) {
          if (isParsing && code == EXIT_FAILURE)
            ::_exit(2);
        },
        nullptr);
  }
  ~UsageCode() { end(); }
  UsageCode(const UsageCode &) = delete;
  UsageCode &operator=(const UsageCode &) = delete;

  static void end() { isParsing = false; }

private:
  static inline bool isParsing = false;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_USAGECODE_H
