//===- Version.h - Which build this is ------------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_VERSION_H
#define CLEAVE_RUNTIME_BASE_VERSION_H

namespace cleave {

/// The version, the commit and the LLVM of this build, such as "0.1 (commit
/// 0123456789ab, LLVM 22.1.8)". The commit has "-dirty" after it if the tree
/// was changed since, and is "unknown" for a tree that git does not know; a
/// runtime that was built alone has "no LLVM".
const char *getVersion();

/// The section of an executable that getVersion's text lies in, with a zero
/// byte at its end: what linked it can be read without running it.
#define CLEAVE_VERSION_SECTION ".cleave.version"

} // namespace cleave

#endif // CLEAVE_RUNTIME_BASE_VERSION_H
