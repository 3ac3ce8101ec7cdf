//===- MappedFile.cpp -----------------------------------------------------===//
#include "runtime/io/MappedFile.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cleave::runtime;

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<char *>(data), size);
}

Status MappedFile::open(const std::string &path, MappedFile &file) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return Status::error(path + ": cannot open: " + std::strerror(errno));
  struct stat info;
  Status status;
  MappedFile result;
  result.path = path;
  if (fstat(fd, &info) != 0) {
    status = Status::error(path + ": cannot stat: " + std::strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = Status::error(path + ": is not a regular file");
  } else if (info.st_size > 0) {
    size_t size = static_cast<size_t>(info.st_size);
    void *address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      status = Status::error(path + ": cannot map " + std::to_string(size) +
                             " bytes: " + std::strerror(errno));
    } else {
      result.data = static_cast<const char *>(address);
      result.size = size;
    }
  }
  ::close(fd);
  if (status.ok())
    file = std::move(result);
  return status;
}
