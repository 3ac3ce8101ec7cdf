//===- Board.cpp ----------------------------------------------------------===//
#include "test/cuda/nccl/Board.h"
#include "test/cuda/nccl/Settings.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace cleave::simulated;

namespace {

constexpr uint64_t headerBytes = 4096;
/// Where data begin: behind the slots and mailboxes of `mostRanks`.
constexpr uint64_t dataOffset = uint64_t(64) << 20;
constexpr int mostRanks = 256;
constexpr const char *prefix = "cleave-nccl-";

std::string describeErrno(const std::string &what) {
  return what + ": " + std::strerror(errno);
}

/// As NCCL, of the environment or else of the machine.
uint64_t getHost() {
  char name[256] = {};
  if (const char *id = std::getenv("NCCL_HOSTID"))
    return std::hash<std::string>()(id);
  ::gethostname(name, sizeof name - 1);
  return std::hash<std::string>()(name);
}

struct flock makeLock(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

} // namespace

struct Board::Header {
  std::atomic<int> ranks;     ///< 0: nobody has come
  std::atomic<uint64_t> end;  ///< of the file's data
  std::atomic<int> errorStep; ///< 0: none; 1: being written; 2: there
  int error;
  char errorText[2048];
};

bool Board::create(std::string &path, std::string &why) {
  static std::atomic<int> count{0};
  const char *folder = std::getenv("TMPDIR");
  path = folder && *folder ? folder : "/tmp";
  path += std::string("/") + prefix + std::to_string(::getpid()) + "-" +
          std::to_string(++count) + "-" +
          std::to_string(std::random_device()());
  if (path.size() >= sizeof(NcclId)) {
    why = "the path of TMPDIR is too long for a unique id";
    return false;
  }
  int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, headerBytes) != 0) {
    why = describeErrno(path);
    if (file >= 0)
      ::close(file);
    return false;
  }
  ::close(file);
  return true;
}

void Board::remove(const std::string &path) { ::unlink(path.c_str()); }

Board::Board(int file, int ranks, int rank, std::string path)
    : file(file), ranks(ranks), rank(rank), path(std::move(path)) {
  name = this->path.substr(this->path.rfind(prefix) + std::strlen(prefix));
  name = name.substr(0, name.rfind('-'));
}

Board::~Board() {
  if (header)
    ::munmap(header, mappedBytes);
  ::close(file);
}

bool Board::map(std::string &why) {
  mappedBytes = headerBytes + uint64_t(ranks) * sizeof(Slot) +
                uint64_t(ranks) * uint64_t(ranks) * sizeof(Mailbox);
  // All ranks do so before any of them writes data.
  struct stat status;
  if (::fstat(file, &status) != 0 ||
      (uint64_t(status.st_size) < mappedBytes &&
       ::ftruncate(file, off_t(mappedBytes)) != 0)) {
    why = describeErrno(path);
    return false;
  }
  void *mapped =
      ::mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) {
    why = describeErrno(path);
    return false;
  }
  static_assert(sizeof(Header) <= headerBytes);
  header = static_cast<Header *>(mapped);
  auto *bytes = static_cast<std::byte *>(mapped) + headerBytes;
  slots = reinterpret_cast<Slot *>(bytes);
  mailboxes = reinterpret_cast<Mailbox *>(bytes + ranks * sizeof(Slot));
  return true;
}

std::unique_ptr<Board> Board::open(const std::string &path, int ranks, int rank,
                                   int &result, std::string &why) {
  result = ncclInvalidArgument;
  if (ranks < 1 || ranks > mostRanks || rank < 0 || rank >= ranks) {
    why = "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
    return nullptr;
  }
  if (path.find(prefix) == std::string::npos) {
    why = "the id is not of ncclGetUniqueId";
    return nullptr;
  }
  int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    why = describeErrno("nobody waits by this id, or all of its ranks are "
                        "there: " +
                        path);
    return nullptr;
  }
  std::unique_ptr<Board> board(new Board(file, ranks, rank, path));
  result = ncclSystemError;
  if (!board->map(why))
    return nullptr;
  result = ncclInvalidArgument;
  int expected = 0;
  if (!board->header->ranks.compare_exchange_strong(expected, ranks) &&
      expected != ranks) {
    why = "rank " + std::to_string(rank) + " says that there are " +
          std::to_string(ranks) + " ranks, another that there are " +
          std::to_string(expected);
    return nullptr;
  }
  uint64_t end = 0;
  board->header->end.compare_exchange_strong(end, dataOffset);
  Slot &mine = board->getMine();
  struct flock lock = makeLock(rank);
  bool isTaken = mine.presence.load() != Presence::Absent ||
                 ::fcntl(file, F_OFD_SETLK, &lock) != 0;
  if (isTaken) {
    why = "there are two ranks " + std::to_string(rank);
    return nullptr;
  }
  mine.process = uint64_t(::getpid());
  mine.host = getHost();
  mine.presence.store(Presence::Here);
  result = ncclSuccess;
  return board;
}

int Board::waitForAll(double patience, std::string &why) {
  double lastSeconds = getSeconds();
  int last = 0;
  for (;;) {
    std::string missing;
    int here = 0, dead = -1;
    for (int other = 0; other < ranks; ++other) {
      Presence presence = slots[other].presence.load();
      here += presence != Presence::Absent;
      if (presence == Presence::Absent)
        missing +=
            (missing.empty() ? "rank " : ", rank ") + std::to_string(other);
      else if (presence == Presence::Here && !isAlive(other) &&
               slots[other].presence.load() == Presence::Here)
        dead = other;
    }
    // One that has ended since is told of later.
    if (here == ranks) {
      // Whoever comes first; who comes later finds none.
      ::unlink(path.c_str());
      return ncclSuccess;
    }
    // Or one that ended once all were there, some of whom were not seen yet.
    bool isWhole = std::all_of(slots, slots + ranks, [](const Slot &slot) {
      return slot.presence.load() != Presence::Absent;
    });
    if (dead >= 0 && !isWhole) {
      why = "rank " + std::to_string(dead) + " came, and its process ended";
      return ncclRemoteError;
    }
    if (here > last)
      lastSeconds = getSeconds();
    last = here;
    if (getSeconds() - lastSeconds > patience) {
      why = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
            " waits for " + missing + ", which did not come to communicator " +
            name;
      postError(ncclSystemError, why);
      return ncclSystemError;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Board::isOfOneProcess() const {
  return std::all_of(slots, slots + ranks, [&](const Slot &slot) {
    return slot.process == getMine().process;
  });
}

bool Board::isAlive(int other) const {
  if (slots[other].presence.load() != Presence::Here)
    return false;
  if (other == rank)
    return true;
  struct flock lock = makeLock(other);
  return ::fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Board::write(Extent &extent, std::span<const std::byte> bytes) {
  if (extent.capacity < bytes.size()) {
    extent.capacity =
        std::max<uint64_t>(std::bit_ceil(bytes.size()), headerBytes);
    extent.offset = header->end.fetch_add(extent.capacity);
  }
  extent.bytes = bytes.size();
  uint64_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = ::pwrite(file, bytes.data() + done, bytes.size() - done,
                             off_t(extent.offset + done));
    if (count <= 0)
      return false;
    done += uint64_t(count);
  }
  return true;
}

bool Board::read(const Extent &extent, uint64_t begin,
                 std::span<std::byte> bytes) {
  if (begin + bytes.size() > extent.bytes)
    return false;
  uint64_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = ::pread(file, bytes.data() + done, bytes.size() - done,
                            off_t(extent.offset + begin + done));
    if (count <= 0)
      return false;
    done += uint64_t(count);
  }
  return true;
}

void Board::postError(int result, const std::string &text) {
  int none = 0;
  if (!header->errorStep.compare_exchange_strong(none, 1))
    return;
  header->error = result;
  std::strncpy(header->errorText, text.c_str(), sizeof header->errorText - 1);
  header->errorStep.store(2);
}

int Board::getError(std::string &text) const {
  if (header->errorStep.load() != 2)
    return ncclSuccess;
  text = header->errorText;
  return header->error;
}
