//===- Files.h - Files that cleave writes ---------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_FILES_H
#define CLEAVE_TOOLS_CLEAVE_FILES_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"

namespace cleave::tool {

/// A file that is gone when this is, or when a signal ends the process, unless
/// it got its name.
class TemporaryFile {
public:
  /// Creates one beside `output`, so that a rename is enough at the end, with
  /// a name that ends in `suffix`.
  static llvm::Expected<TemporaryFile> createFor(llvm::StringRef output,
                                                 llvm::StringRef suffix);
  /// Creates one in the system's folder for them.
  static llvm::Expected<TemporaryFile> create();

  TemporaryFile(TemporaryFile &&other) noexcept;
  TemporaryFile &operator=(TemporaryFile &&) = delete;
  ~TemporaryFile();

  llvm::StringRef getPath() const { return path; }
  /// Errors name `output`, which is what the bytes are for.
  llvm::Error write(llvm::StringRef bytes, llvm::StringRef output);
  /// Gives it its name.
  llvm::Error commit(llvm::StringRef output);

private:
  explicit TemporaryFile(llvm::StringRef path);

  llvm::SmallString<128> path; ///< empty: not this one's to remove
};

/// Fails if a file of that name could not be replaced by another.
llvm::Error checkReplaceable(llvm::StringRef output);

/// What a program wrote to its log, in one line.
std::string readMessage(llvm::StringRef log);

/// Writes all of a file, or leaves what was there. "-" is stdout; what is no
/// regular file is written to where it is.
llvm::Error writeFile(llvm::StringRef output, llvm::StringRef text);

/// What a model's folder or file is called; its type if that is no name.
llvm::StringRef getTitle(llvm::StringRef model, llvm::StringRef type);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_FILES_H
