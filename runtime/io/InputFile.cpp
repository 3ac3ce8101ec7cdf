//===- InputFile.cpp ------------------------------------------------------===//
#include "runtime/io/InputFile.h"
#include "runtime/base/Crc32c.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace cleave::runtime;

/// One for each file of the process, whatever the number of its ranks that
/// read it: a process may have fewer descriptors than ranks times files.
struct InputFile::Descriptor {
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() { ::close(fd); }

  /// Takes `fd` over, or closes it where another descriptor of its file is
  /// open.
  static std::shared_ptr<const Descriptor> share(int fd,
                                                 const struct stat &info) {
    static std::mutex mutex;
    static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<const Descriptor>>
        open;
    std::lock_guard<std::mutex> lock(mutex);
    std::erase_if(open, [](const auto &each) { return each.second.expired(); });
    auto mine = std::make_shared<const Descriptor>(fd);
    auto &entry = open[{info.st_dev, info.st_ino}];
    if (auto other = entry.lock())
      return other;
    entry = mine;
    return mine;
  }

  int fd;
};

static Status checkRegular(const std::string &path, mode_t mode) {
  const char *kind = S_ISDIR(mode)    ? "a folder"
                     : S_ISFIFO(mode) ? "a pipe"
                     : S_ISSOCK(mode) ? "a socket"
                     : S_ISCHR(mode)  ? "a character device"
                     : S_ISBLK(mode)  ? "a block device"
                                      : "something else";
  if (S_ISREG(mode))
    return {};
  return Status::error(path + ": is not a regular file, but " + kind);
}

Status InputFile::open(const std::string &path, InputFile &file) {
  auto fail = [&](const char *what) {
    return Status::error(path + ": cannot " + what + ": " +
                         std::strerror(errno));
  };
  // Opening a device may do something to it, and a socket cannot be opened.
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return fail("open");
  CLEAVE_RETURN_IF_ERROR(checkRegular(path, info.st_mode));
  // What has become a pipe since then must not be waited for.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fail("open");
  if (::fstat(fd, &info) != 0) {
    Status status = fail("stat");
    ::close(fd);
    return status;
  }
  InputFile result;
  result.descriptor = Descriptor::share(fd, info);
  CLEAVE_RETURN_IF_ERROR(checkRegular(path, info.st_mode));
  result.path = path;
  result.size = uint64_t(info.st_size);
  result.modifiedNs =
      int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  file = std::move(result);
  return {};
}

int InputFile::getDescriptor() const { return descriptor->fd; }

Status InputFile::read(uint64_t offset, uint64_t bytes, void *out) const {
  // Linux moves at most 2 GiB in one call.
  constexpr uint64_t most = uint64_t(1) << 30;
  char *next = static_cast<char *>(out);
  for (uint64_t done = 0; done < bytes;) {
    ssize_t got = ::pread(descriptor->fd, next + done,
                          std::min(most, bytes - done), off_t(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return Status::error(path + ": cannot read " + std::to_string(bytes) +
                           " bytes at byte " + std::to_string(offset) + ": " +
                           std::strerror(errno));
    if (got == 0)
      return Status::error(path + ": ends at byte " +
                           std::to_string(offset + done) + ", inside the " +
                           std::to_string(bytes) + " bytes at byte " +
                           std::to_string(offset) + "; it had " +
                           std::to_string(size) + " bytes when it was opened");
    done += uint64_t(got);
  }
  return {};
}

Status InputFile::readAll(std::string &bytes) const {
  std::string result(size, '\0');
  CLEAVE_RETURN_IF_ERROR(read(0, size, result.data()));
  bytes = std::move(result);
  return {};
}

Status InputFile::checkSize() const {
  struct stat info;
  if (::fstat(descriptor->fd, &info) != 0)
    return Status::error(path + ": cannot stat: " + std::strerror(errno));
  if (uint64_t(info.st_size) < size)
    return Status::error(path + ": ends at byte " +
                         std::to_string(info.st_size) + "; it had " +
                         std::to_string(size) + " bytes when it was opened");
  return {};
}

Status InputFile::computeSampleChecksum(uint32_t &checksum) const {
  constexpr uint64_t blockBytes = 1 << 16, blocks = 18;
  std::vector<char> block(std::min(blockBytes, size));
  uint32_t result = 0;
  uint64_t last = size - block.size(), done = 0;
  for (uint64_t i = 0; i < blocks; ++i) {
    // Blocks of a small file would overlap: each byte is read once.
    uint64_t begin = std::max(done, last / (blocks - 1) * i +
                                        last % (blocks - 1) * i / (blocks - 1));
    uint64_t bytes = std::min<uint64_t>(block.size(), size - begin);
    CLEAVE_RETURN_IF_ERROR(read(begin, bytes, block.data()));
    result = computeCrc32c(block.data(), bytes, result);
    done = begin + bytes;
  }
  checksum = result;
  return {};
}

Status InputFile::describe(DataIdentity &identity) const {
  DataIdentity result;
  result.path = path;
  result.bytes = size;
  CLEAVE_RETURN_IF_ERROR(computeSampleChecksum(result.sampleChecksum));
  identity = std::move(result);
  return {};
}
