//===- Log.h - Passes say what they decide --------------------------------===//
//
// A file defines DEBUG_TYPE as the name of its pass, and streams into LDBG():
//
//   #define DEBUG_TYPE "cleave-overlap"
//   LDBG() << "moves " << *op << " before " << *other;
//
// `cleave-opt --debug-only=cleave-overlap` prints these lines to stderr, each
// behind the pass's name. What is streamed is not even computed where they are
// not asked for.
//
// llvm/Support/DebugLog.h has the same, but only where neither our build nor
// the one of LLVM is a release build. The switches themselves are in any
// libLLVM, and these lines are in all of our builds.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_LOG_H
#define CLEAVE_PASSES_LOG_H

#include "llvm/Support/Debug.h"
#include "llvm/Support/raw_ostream.h"

// With NDEBUG, Debug.h makes macros of these names. A name in parentheses is
// not expanded.
namespace llvm {
bool(isCurrentDebugType)(const char *type, int level);
void(setCurrentDebugTypes)(const char **types, unsigned count);
} // namespace llvm

namespace cleave {

inline bool isLogged(const char *type) {
  return llvm::DebugFlag && (llvm::isCurrentDebugType)(type, /*level=*/0);
}

/// One line of a pass's log, written when the statement ends.
class LogLine {
public:
  explicit LogLine(const char *type) { os() << "[" << type << "] "; }
  ~LogLine() { os() << "\n"; }
  LogLine(const LogLine &) = delete;
  LogLine &operator=(const LogLine &) = delete;
  llvm::raw_ostream &os() { return llvm::dbgs(); }
};

} // namespace cleave

#undef LDBG
// A loop, since an `if` would take the `else` of one around it.
#define LDBG()                                                                 \
  for (bool isOn = cleave::isLogged(DEBUG_TYPE); isOn; isOn = false)           \
  cleave::LogLine(DEBUG_TYPE).os()

#endif // CLEAVE_PASSES_LOG_H
