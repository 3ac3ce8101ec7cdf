//===- Link.cpp - Object file and runtime to one executable ---------------===//
#include "CommandLine.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace cleave;

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

llvm::Error tool::linkExecutable(llvm::ArrayRef<char> object,
                                 llvm::StringRef output) {
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

  // Everything beside the output, so that a rename is enough at the end.
  llvm::SmallString<256> objectPath, linkedPath;
  int descriptor = -1;
  auto create = [&](llvm::StringRef suffix, llvm::SmallString<256> &path) {
    return llvm::sys::fs::createUniqueFile(output + "-%%%%%%" + suffix,
                                           descriptor, path);
  };
  if (std::error_code code = create(".o", objectPath))
    return makeError(output + ": " + code.message());
  llvm::scope_exit cleanUp([&] {
    llvm::sys::fs::remove(objectPath);
    if (!linkedPath.empty())
      llvm::sys::fs::remove(linkedPath);
  });
  {
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream.write(object.data(), object.size());
    stream.close();
    if (stream.has_error()) {
      std::string reason = stream.error().message();
      stream.clear_error();
      return makeError(objectPath.str() + ": " + reason);
    }
  }
  if (std::error_code code = create(".tmp", linkedPath))
    return makeError(output + ": " + code.message());
  llvm::sys::Process::SafelyCloseFileDescriptor(descriptor);

  std::string message;
  llvm::StringRef arguments[] = {
      *compiler,           objectPath,       runtime, "-o",       linkedPath,
      "-static-libstdc++", "-static-libgcc", "-ldl",  "-lpthread"};
  int code = llvm::sys::ExecuteAndWait(*compiler, arguments, std::nullopt, {},
                                       0, 0, &message);
  if (code != 0)
    return makeError(llvm::Twine("linking with ") + *compiler + " failed" +
                     (message.empty() ? "" : ": " + message));
  using llvm::sys::fs::perms;
  if (std::error_code error = llvm::sys::fs::setPermissions(
          linkedPath, perms::all_read | perms::all_exe | perms::owner_write))
    return makeError(output + ": " + error.message());
  if (std::error_code error = llvm::sys::fs::rename(linkedPath, output))
    return makeError(output + ": " + error.message());
  linkedPath.clear();
  return llvm::Error::success();
}
