//===- FaultShim.cpp - Kills or fails at the k-th file operation ----------===//
//
// To be preloaded into a run. Counts the operations on files below
// FAULT_FOLDER and, at number FAULT_AT (from 1), does FAULT_KIND: `kill` the
// process before the operation, as a power cut would; fail with ENOSPC or EIO;
// `short`: write half of what was asked, then fail; `memory`: do it, and have
// no memory when the thread next asks for some. At the end of the process the
// number of operations goes to FAULT_COUNT.
//
//===----------------------------------------------------------------------===//
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::atomic<long> operations{0};
std::atomic<bool> watched[4096];
thread_local bool isOutOfMemory = false;

const char *getFolder() {
  static const char *folder = std::getenv("FAULT_FOLDER");
  return folder;
}

bool isBelow(const char *path) {
  return getFolder() && path && std::strstr(path, getFolder());
}

bool isWatched(int fd) { return fd >= 0 && fd < 4096 && watched[fd].load(); }

/// Counts one operation. What to do in its place: 0 nothing, else an errno;
/// `isShort`: of a write, do half of it first.
int strike(bool *isShort = nullptr) {
  static const long at = std::atol(std::getenv("FAULT_AT"));
  static const char *kind = std::getenv("FAULT_KIND");
  if (++operations != at)
    return 0;
  if (std::strcmp(kind, "kill") == 0)
    ::kill(::getpid(), SIGKILL);
  if (std::strcmp(kind, "memory") == 0) {
    isOutOfMemory = true;
    return 0;
  }
  if (std::strcmp(kind, "short") == 0) {
    if (isShort)
      *isShort = true;
    return ENOSPC;
  }
  return std::strcmp(kind, "EIO") == 0 ? EIO : ENOSPC;
}

template <typename F>
F find(const char *name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

struct CountAtExit {
  ~CountAtExit() {
    if (const char *path = std::getenv("FAULT_COUNT"))
      if (FILE *file = std::fopen(path, "w")) {
        std::fprintf(file, "%ld\n", operations.load());
        std::fclose(file);
      }
  }
} countAtExit;

} // namespace

#define FAIL_IF(condition)                                                     \
  if (condition)                                                               \
    if (int code = strike()) {                                                 \
      errno = code;                                                            \
      return -1;                                                               \
    }

void *operator new(size_t size) {
  void *memory = isOutOfMemory ? nullptr : std::malloc(size > 0 ? size : 1);
  isOutOfMemory = false;
  return memory ? memory : throw std::bad_alloc();
}

extern "C" {

static int openWatched(const char *name, const char *path, int flags,
                       mode_t mode) {
  bool below = isBelow(path);
  FAIL_IF(below);
  int fd = find<int (*)(const char *, int, mode_t)>(name)(path, flags, mode);
  if (below && fd >= 0 && fd < 4096)
    watched[fd].store(true);
  return fd;
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  return openWatched("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  return openWatched("open64", path, flags, mode);
}

int close(int fd) {
  bool was = isWatched(fd);
  if (was)
    watched[fd].store(false);
  int code = was ? strike() : 0;
  int result = find<int (*)(int)>("close")(fd);
  if (!code)
    return result;
  errno = code;
  return -1;
}

static ssize_t writeAt(const char *name, int fd, const void *data, size_t size,
                       off_t offset) {
  auto real = find<ssize_t (*)(int, const void *, size_t, off_t)>(name);
  if (isWatched(fd)) {
    bool isShort = false;
    if (int code = strike(&isShort)) {
      // The half that fits; what is left is tried again, and fails then.
      if (isShort && size > 1 && real(fd, data, size / 2, offset) < 0)
        return -1;
      errno = code;
      return -1;
    }
  }
  return real(fd, data, size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  return writeAt("pwrite", fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
  return writeAt("pwrite64", fd, data, size, offset);
}

int fsync(int fd) {
  FAIL_IF(isWatched(fd));
  return find<int (*)(int)>("fsync")(fd);
}

int posix_fallocate(int fd, off_t offset, off_t size) {
  if (isWatched(fd))
    if (int code = strike())
      return code;
  return find<int (*)(int, off_t, off_t)>("posix_fallocate")(fd, offset, size);
}

int posix_fallocate64(int fd, off_t offset, off_t size) {
  if (isWatched(fd))
    if (int code = strike())
      return code;
  return find<int (*)(int, off_t, off_t)>("posix_fallocate64")(fd, offset,
                                                               size);
}

int ftruncate(int fd, off_t size) {
  FAIL_IF(isWatched(fd));
  return find<int (*)(int, off_t)>("ftruncate")(fd, size);
}

int ftruncate64(int fd, off_t size) {
  FAIL_IF(isWatched(fd));
  return find<int (*)(int, off_t)>("ftruncate64")(fd, size);
}

int rename(const char *from, const char *to) {
  FAIL_IF(isBelow(from));
  return find<int (*)(const char *, const char *)>("rename")(from, to);
}

int mkdir(const char *path, mode_t mode) {
  FAIL_IF(isBelow(path));
  return find<int (*)(const char *, mode_t)>("mkdir")(path, mode);
}

int unlink(const char *path) {
  FAIL_IF(isBelow(path));
  return find<int (*)(const char *)>("unlink")(path);
}

/// std::filesystem::remove_all goes down by descriptors.
int unlinkat(int folder, const char *path, int flags) {
  FAIL_IF(getFolder());
  return find<int (*)(int, const char *, int)>("unlinkat")(folder, path, flags);
}

int remove(const char *path) {
  FAIL_IF(isBelow(path));
  return find<int (*)(const char *)>("remove")(path);
}

} // extern "C"
