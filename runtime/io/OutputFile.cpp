//===- OutputFile.cpp -----------------------------------------------------===//
#include "runtime/io/OutputFile.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace cleave::runtime;
namespace fs = std::filesystem;

namespace {

Status fail(const std::string &path, const std::string &what, int code) {
  return Status::error(path + ": cannot " + what + ": " + std::strerror(code));
}

} // namespace

Status cleave::runtime::syncFolder(const std::string &folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return fail(folder, "open the folder", errno);
  int code = fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems cannot sync a folder; the rename is done all the same.
  return code == 0 || code == EINVAL ? Status()
                                     : fail(folder, "sync the folder", code);
}

OutputFile::~OutputFile() {
  if (fd >= 0)
    ::close(fd);
  if (!path.empty())
    ::unlink(temporaryPath.c_str());
}

Status OutputFile::create(const std::string &path, uint64_t size,
                          OutputFile &file) {
  if (fs::path(path).filename().empty())
    return Status::error(path + ": is not the name of a file");
  std::error_code error;
  if (fs::is_directory(path, error))
    return Status::error(path + ": is a folder");
  // A rename would put a file in the place of a device.
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    return Status::error(path + ": is not a regular file");
  OutputFile result;
  result.temporaryPath = path + ".tmp-" + std::to_string(getpid());
  result.fd = ::open(result.temporaryPath.c_str(),
                     O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (result.fd < 0)
    return fail(path, "create", errno);
  result.path = path;
  if (size > 0) {
    int code = posix_fallocate(result.fd, 0, static_cast<off_t>(size));
    // A file system without allocation: the size alone, and each write says.
    if (code == EOPNOTSUPP || code == EINVAL)
      code = ftruncate(result.fd, static_cast<off_t>(size)) ? errno : 0;
    if (code)
      return fail(path, "allocate " + std::to_string(size) + " bytes", code);
  }
  file = std::move(result);
  return {};
}

Status OutputFile::join(const std::string &temporaryPath, OutputFile &file) {
  OutputFile result;
  result.temporaryPath = temporaryPath;
  result.fd = ::open(temporaryPath.c_str(), O_RDWR | O_CLOEXEC);
  if (result.fd < 0)
    return fail(temporaryPath,
                "open the file that rank 0 made (is the folder shared by all "
                "ranks?)",
                errno);
  file = std::move(result);
  return {};
}

Status OutputFile::write(uint64_t offset, const void *data, size_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = pwrite(fd, next, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return fail(temporaryPath, "write", written < 0 ? errno : ENOSPC);
    next += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return {};
}

Status OutputFile::sync() {
  if (fsync(fd) != 0)
    return fail(temporaryPath, "sync", errno);
  return {};
}

Status OutputFile::commit() {
  CLEAVE_RETURN_IF_ERROR(sync());
  int code = ::close(fd) == 0 ? 0 : errno;
  fd = -1;
  if (code)
    return fail(temporaryPath, "close", code);
  if (rename(temporaryPath.c_str(), path.c_str()) != 0)
    return fail(path, "rename " + temporaryPath + " to it", errno);
  std::string final = std::exchange(path, {});
  std::string folder = fs::path(final).parent_path().string();
  return syncFolder(folder.empty() ? "." : folder);
}

Status cleave::runtime::writeWholeFile(const std::string &path,
                                       std::string_view text) {
  OutputFile file;
  CLEAVE_RETURN_IF_ERROR(OutputFile::create(path, text.size(), file));
  CLEAVE_RETURN_IF_ERROR(file.write(0, text.data(), text.size()));
  return file.commit();
}

Status cleave::runtime::createFolder(const std::string &path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return {};
  fs::create_directories(path, error);
  if (error)
    return Status::error(path +
                         ": cannot create the folder: " + error.message());
  return {};
}
