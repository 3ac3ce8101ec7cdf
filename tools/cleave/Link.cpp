//===- Link.cpp - Object file and runtime to one executable ---------------===//
#include "CompileFlags.h"
#include "Files.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace cleave;
using tool::TemporaryFile;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(message.str());
}

/// The runtime's archive lies beside the compiler: bin/../lib.
static std::string getRuntimePath() {
  std::string self =
      llvm::sys::fs::getMainExecutable(nullptr, (void *)&getRuntimePath);
  llvm::SmallString<256> path(
      llvm::sys::path::parent_path(llvm::sys::path::parent_path(self)));
  llvm::sys::path::append(path, "lib", "libcleave_runtime.a");
  return path.str().str();
}

static llvm::Error link(llvm::ArrayRef<char> object, llvm::StringRef output) {
  std::string runtime = getRuntimePath();
  if (!llvm::sys::fs::exists(runtime))
    return makeError(runtime + ": the runtime's archive is missing");
  llvm::ErrorOr<std::string> compiler = std::error_code();
  for (const char *name : {"c++", "g++", "clang++-22", "clang++"})
    if ((compiler = llvm::sys::findProgramByName(name)))
      break;
  if (!compiler)
    return makeError("no C++ compiler to link with: looked for c++, g++, "
                     "clang++-22, clang++ in PATH");

  auto objectFile = TemporaryFile::createFor(output, ".o");
  if (!objectFile)
    return objectFile.takeError();
  if (llvm::Error error = objectFile->write(
          llvm::StringRef(object.data(), object.size()), output))
    return error;
  auto linked = TemporaryFile::createFor(output, ".tmp");
  if (!linked)
    return linked.takeError();
  auto log = TemporaryFile::create();
  if (!log)
    return log.takeError();

  std::string message;
  llvm::StringRef arguments[] = {
      *compiler, objectFile->getPath(), runtime, "-o", linked->getPath(),
      "-static-libstdc++", "-static-libgcc", "-ldl", "-lpthread",
      // What stands in for a GPU in tests finds the CPU's kernels by them.
      "-Wl,--export-dynamic-symbol=cleave_*"};
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, log->getPath(),
                                                log->getPath()};
  int code = llvm::sys::ExecuteAndWait(*compiler, arguments, std::nullopt,
                                       redirects, 0, 0, &message);
  if (code != 0)
    return makeError(
        output + ": linking with " + *compiler + " failed: " +
        (message.empty() ? tool::readMessage(log->getPath()) : message));
  using llvm::sys::fs::perms;
  if (std::error_code error = llvm::sys::fs::setPermissions(
          linked->getPath(),
          perms::all_read | perms::all_exe | perms::owner_write))
    return makeError(output + ": " + error.message());
  return linked->commit(output);
}

llvm::Expected<runtime::Program> tool::linkExecutable(const Compiled &compiled,
                                                      const std::string &where,
                                                      llvm::StringRef output) {
  runtime::Program program;
  runtime::Status status = runtime::Program::load(
      compiled.program.data(), compiled.program.size(), where, program);
  if (!status.ok())
    return makeError(status.message());
  if (llvm::Error error = link(compiled.object, output))
    return error;
  return program;
}
