//===- OutputFile.cpp -----------------------------------------------------===//
#include "runtime/io/OutputFile.h"
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace cleave::runtime;
namespace fs = std::filesystem;

namespace {

Status fail(const std::string &path, const std::string &what, int code) {
  return Status::error(path + ": cannot " + what + ": " + std::strerror(code));
}

std::string getFolder(const std::string &file) {
  std::string folder = fs::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// What this host is called in temporary names.
std::string getHostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || !*name)
    return "host";
  std::string text = name;
  for (char &c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-')
      c = '_';
  return text;
}

/// Takes "-NUMBER" off the end of `name`; false where it does not end so.
bool dropNumber(std::string_view &name) {
  size_t end = name.find_last_not_of("0123456789");
  if (end == name.npos || end + 1 == name.size() || name[end] != '-')
    return false;
  name = name.substr(0, end);
  return true;
}

/// Removes the temporary file `path`, made on this host or another, unless its
/// creator lives. A lock may be seen only on the host that holds it; so what
/// another host made goes only when it was not written to for an hour.
void removeIfStale(const std::string &path, bool isOfThisHost) {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return;
  struct stat info;
  auto now = std::chrono::system_clock::now().time_since_epoch();
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      (isOfThisHost ||
       std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::hours(1) <
           now) &&
      flock(fd, LOCK_EX | LOCK_NB) == 0)
    ::unlink(path.c_str());
  ::close(fd);
}

/// Removes what killed processes left of `path`: NAME.tmp-HOST-PID-COUNT.
void removeStaleTemporaries(const std::string &path) {
  std::string folder = getFolder(path);
  std::string prefix = fs::path(path).filename().string() + ".tmp-";
  std::string host = getHostName();
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.rfind(prefix, 0) != 0)
      continue;
    std::string_view rest = std::string_view(name).substr(prefix.size());
    // NOLINTNEXTLINE(misc-redundant-expression): two numbers, one by one
    if (dropNumber(rest) && dropNumber(rest) && !rest.empty())
      removeIfStale(folder + "/" + name, rest == host);
  }
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
  // Under the lock: another's of that name would be removed otherwise.
  if (!path.empty())
    ::unlink(temporaryPath.c_str());
  if (fd >= 0)
    ::close(fd);
}

/// Makes the temporary file and locks it.
Status OutputFile::openTemporary() {
  static std::atomic<unsigned> count{0};
  std::string stem =
      path + ".tmp-" + getHostName() + "-" + std::to_string(getpid()) + "-";
  // A name may be taken by a process of this number in another container, and
  // a file may be taken for stale before it is locked: then the next name.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    temporaryPath = stem + std::to_string(count++);
    fd = ::open(temporaryPath.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                0666);
    if (fd < 0 && errno == EEXIST)
      continue;
    if (fd < 0)
      return fail(path, "create", errno);
    // Where a file system has no locks, nothing there is taken for stale.
    struct stat info;
    if ((flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
        fstat(fd, &info) == 0 && info.st_nlink > 0)
      return {};
    ::close(std::exchange(fd, -1));
  }
  return fail(path, "create", EEXIST);
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
  removeStaleTemporaries(path);
  OutputFile result;
  result.path = path;
  if (Status status = result.openTemporary(); !status.ok()) {
    result.path.clear(); // nothing to remove
    return status;
  }
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

void OutputFile::startSync(uint64_t offset, uint64_t bytes) {
  (void)::sync_file_range(fd, static_cast<off64_t>(offset),
                          static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

Status OutputFile::sync() {
  if (fsync(fd) != 0)
    return fail(temporaryPath, "sync", errno);
  return {};
}

Status OutputFile::commit() {
  CLEAVE_RETURN_IF_ERROR(sync());
  // Some file systems say only at a close what could not be written. The lock
  // stays with the other descriptor until the file has its name.
  int copy = ::dup(fd);
  if (copy < 0 || ::close(copy) != 0)
    return fail(temporaryPath, "close", errno);
  if (rename(temporaryPath.c_str(), path.c_str()) != 0)
    return fail(path, "rename " + temporaryPath + " to it", errno);
  std::string final = std::exchange(path, {});
  ::close(std::exchange(fd, -1));
  return syncFolder(getFolder(final));
}

Status cleave::runtime::writeWholeFile(const std::string &path,
                                       std::string_view text) {
  OutputFile file;
  CLEAVE_RETURN_IF_ERROR(OutputFile::create(path, text.size(), file));
  CLEAVE_RETURN_IF_ERROR(file.write(0, text.data(), text.size()));
  return file.commit();
}

Status cleave::runtime::checkFreeSpace(const std::string &folder,
                                       uint64_t bytes) {
  fs::path place = folder.empty() ? fs::path(".") : fs::path(folder);
  std::error_code error;
  while (!fs::exists(place, error) && place != place.parent_path())
    place = place.parent_path();
  if (place.empty())
    place = ".";
  struct statvfs info;
  if (statvfs(place.c_str(), &info) != 0)
    return fail(folder, "ask for its free space", errno);
  uint64_t available = uint64_t(info.f_bavail) * info.f_frsize;
  if (bytes > available)
    return Status::error(folder + ": needs " + std::to_string(bytes) +
                         " bytes, but its disk has " +
                         std::to_string(available) + " free");
  return {};
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
