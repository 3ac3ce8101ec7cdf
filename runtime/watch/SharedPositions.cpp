//===- SharedPositions.cpp ------------------------------------------------===//
#include "runtime/watch/SharedPositions.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cleave::runtime;

static Status makeError(const std::string &what) {
  return Status::error("watchdog: " + what + ": " + std::strerror(errno));
}

SharedPositions::~SharedPositions() {
  if (shared)
    ::munmap(shared, bytes);
  if (fd >= 0)
    ::close(fd);
}

Status SharedPositions::map(int ranks) {
  void *memory = ::mmap(nullptr, getBytes(ranks), PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return makeError("cannot map shared memory");
  shared = static_cast<Header *>(memory);
  bytes = getBytes(ranks);
  return {};
}

Status SharedPositions::create(int ranks, std::string &path) {
  fd = ::memfd_create("cleave-positions", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, off_t(getBytes(ranks))) != 0)
    return makeError("cannot make shared memory");
  CLEAVE_RETURN_IF_ERROR(map(ranks));
  new (shared) Header{false};
  for (int rank = 0; rank < ranks; ++rank)
    new (&(*this)[rank]) RankPosition();
  path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd);
  return {};
}

Status SharedPositions::open(const std::string &path, int ranks) {
  fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || ::fstat(fd, &info) != 0)
    return makeError(path);
  if (size_t(info.st_size) != getBytes(ranks))
    return Status::error("watchdog: " + path + " is not shared memory of " +
                         std::to_string(ranks) + " ranks");
  return map(ranks);
}
