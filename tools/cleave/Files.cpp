//===- Files.cpp - Files that cleave writes -------------------------------===//
#include "Files.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>

using namespace cleave::tool;
namespace fs = llvm::sys::fs;

static llvm::Error makeError(llvm::StringRef path, const llvm::Twine &message) {
  return llvm::createStringError(path + ": " + message);
}

static llvm::Error writeTo(llvm::StringRef path, llvm::StringRef bytes,
                           llvm::StringRef shown) {
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (code)
    return makeError(shown, code.message());
  stream << bytes;
  stream.close();
  if (stream.has_error()) {
    std::string reason = stream.error().message();
    stream.clear_error();
    return makeError(shown, reason);
  }
  return llvm::Error::success();
}

TemporaryFile::TemporaryFile(llvm::StringRef path) : path(path) {
  llvm::sys::RemoveFileOnSignal(path);
  // A limit on the size of files is an error like a full disk, for the linker
  // as well; LLVM's handlers would end the process.
  std::signal(SIGXFSZ, SIG_IGN);
}

TemporaryFile::TemporaryFile(TemporaryFile &&other) noexcept
    : path(std::move(other.path)) {
  other.path.clear();
}

TemporaryFile::~TemporaryFile() {
  if (path.empty())
    return;
  // A file that stays behind is no reason to fail: what it was for is done.
  std::ignore = fs::remove(path);
  llvm::sys::DontRemoveFileOnSignal(path);
}

llvm::Expected<TemporaryFile> TemporaryFile::createFor(llvm::StringRef output,
                                                       llvm::StringRef suffix) {
  llvm::SmallString<128> path;
  // In a folder of its own name "-o" could begin with a dash.
  llvm::StringRef here = llvm::sys::path::has_parent_path(output) ? "" : "./";
  if (std::error_code code =
          fs::createUniqueFile(here + output + "-%%%%%%" + suffix, path))
    return makeError(output, code.message());
  return TemporaryFile(path);
}

llvm::Expected<TemporaryFile> TemporaryFile::create() {
  llvm::SmallString<128> folder, path;
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, folder);
  if (std::error_code code =
          fs::createUniqueFile(folder + "/cleave-%%%%%%", path))
    return makeError(folder,
                     "cannot create a temporary file: " + code.message());
  return TemporaryFile(path);
}

llvm::Error TemporaryFile::write(llvm::StringRef bytes,
                                 llvm::StringRef output) {
  return writeTo(path, bytes, output);
}

llvm::Error TemporaryFile::commit(llvm::StringRef output) {
  if (std::error_code code = fs::rename(path, output))
    return makeError(output, code.message());
  llvm::sys::DontRemoveFileOnSignal(path);
  path.clear();
  return llvm::Error::success();
}

llvm::Error cleave::tool::checkReplaceable(llvm::StringRef output) {
  if (llvm::sys::path::filename(output).empty() || output.ends_with("/"))
    return llvm::createStringError("\"" + output +
                                   "\" is not the name of a file");
  fs::file_status status;
  if (fs::status(output, status) || !fs::exists(status)) {
    llvm::StringRef folder = llvm::sys::path::parent_path(output);
    if (folder.empty())
      folder = ".";
    if (std::error_code code = fs::access(folder, fs::AccessMode::Write))
      return makeError(output, code.message());
    if (!fs::is_directory(folder))
      return makeError(output, "Not a directory");
    return llvm::Error::success();
  }
  if (fs::is_directory(status))
    return makeError(output, "is a folder");
  if (!fs::is_regular_file(status))
    return makeError(output, "is not a regular file");
  return llvm::Error::success();
}

std::string cleave::tool::readMessage(llvm::StringRef log) {
  auto buffer = llvm::MemoryBuffer::getFile(log);
  llvm::SmallVector<llvm::StringRef> lines;
  if (buffer)
    llvm::SplitString((*buffer)->getBuffer(), lines, "\n");
  for (llvm::StringRef &line : lines)
    line.consume_front("error: ");
  return llvm::join(lines, "; ");
}

llvm::Error cleave::tool::writeFile(llvm::StringRef output,
                                    llvm::StringRef text) {
  if (output == "-") {
    llvm::outs() << text;
    return llvm::Error::success();
  }
  fs::file_status status;
  if (!fs::status(output, status) && fs::exists(status) &&
      !fs::is_regular_file(status) && !fs::is_directory(status))
    return writeTo(output, text, output);
  if (llvm::Error error = checkReplaceable(output))
    return error;
  llvm::Expected<TemporaryFile> file = TemporaryFile::createFor(output, ".tmp");
  if (!file)
    return file.takeError();
  if (llvm::Error error = file->write(text, output))
    return error;
  return file->commit(output);
}

llvm::StringRef cleave::tool::getTitle(llvm::StringRef model,
                                       llvm::StringRef type) {
  llvm::StringRef path = model.rtrim('/');
  path.consume_back("/config.json");
  llvm::StringRef name = llvm::sys::path::filename(path);
  name.consume_back(".json");
  return name.empty() || name.starts_with(".") || name == "config" ? type
                                                                   : name;
}
