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
  if (positions)
    ::munmap(positions, size_t(count) * sizeof(RankPosition));
  if (fd >= 0)
    ::close(fd);
}

Status SharedPositions::map(int ranks) {
  void *memory = ::mmap(nullptr, size_t(ranks) * sizeof(RankPosition),
                        PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return makeError("cannot map shared memory");
  positions = static_cast<RankPosition *>(memory);
  count = ranks;
  return {};
}

Status SharedPositions::create(int ranks, std::string &path) {
  fd = ::memfd_create("cleave-positions", MFD_CLOEXEC);
  if (fd < 0 ||
      ::ftruncate(fd, off_t(size_t(ranks) * sizeof(RankPosition))) != 0)
    return makeError("cannot make shared memory");
  CLEAVE_RETURN_IF_ERROR(map(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    new (&positions[rank]) RankPosition();
  path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd);
  return {};
}

Status SharedPositions::open(const std::string &path, int ranks) {
  fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || ::fstat(fd, &info) != 0)
    return makeError(path);
  if (uint64_t(info.st_size) != uint64_t(ranks) * sizeof(RankPosition))
    return Status::error("watchdog: " + path + " is not shared memory of " +
                         std::to_string(ranks) + " ranks");
  return map(ranks);
}
