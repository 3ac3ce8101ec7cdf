//===- MappedFile.cpp -----------------------------------------------------===//
#include "runtime/io/MappedFile.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using namespace cleave::runtime;

/// A mapping as the signal's handler sees it: a list that only grows, whose
/// entries are used again, so that it can be walked without a lock.
struct MappedFile::Mapping {
  static constexpr uint64_t nothing = UINT64_MAX;

  std::atomic<char *> begin{nullptr}; ///< null: free
  std::atomic<size_t> size{0};
  std::atomic<uint64_t> lostAt{nothing}; ///< where bytes could not be read
  Mapping *next = nullptr;

  static inline std::atomic<Mapping *> first{nullptr};
  static inline std::mutex mutex; ///< of those who add
  static inline struct sigaction before = {};
  static inline size_t pageBytes = 0;

  static Mapping *add(char *begin, size_t size);
  static void onBusError(int signal, siginfo_t *info, void *);
};

MappedFile::Mapping *MappedFile::Mapping::add(char *begin, size_t size) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!first.load()) {
    pageBytes = size_t(::sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = onBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGBUS, &action, &before);
  }
  Mapping *mapping = first.load();
  while (mapping && mapping->begin.load())
    mapping = mapping->next;
  if (!mapping) {
    mapping = new Mapping;
    mapping->next = first.load();
    first.store(mapping);
  }
  mapping->lostAt.store(nothing);
  mapping->size.store(size);
  mapping->begin.store(begin);
  return mapping;
}

/// Puts zeros in the place of what the file no longer has, from the page that
/// was touched to the end. System calls only: it interrupts anything.
void MappedFile::Mapping::onBusError(int signal, siginfo_t *info, void *) {
  int code = errno;
  char *address = static_cast<char *>(info->si_addr);
  for (Mapping *each = first.load(); each && info->si_code > 0;
       each = each->next) {
    char *begin = each->begin.load();
    if (!begin || address < begin || address >= begin + each->size.load())
      continue;
    uint64_t at = uint64_t(address - begin) / pageBytes * pageBytes;
    if (::mmap(begin + at, each->size.load() - at, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      break;
    uint64_t earlier = each->lostAt.load();
    while (at < earlier && !each->lostAt.compare_exchange_weak(earlier, at)) {
    }
    errno = code;
    return;
  }
  // Another's: the same fault again, under the handler that was there before.
  ::sigaction(SIGBUS, &before, nullptr);
  if (info->si_code <= 0)
    ::raise(signal);
}

MappedFile::~MappedFile() {
  if (!data)
    return;
  mapping->begin.store(nullptr);
  ::munmap(const_cast<char *>(data), file.getSize());
}

Status MappedFile::open(const std::string &path, MappedFile &file) {
  MappedFile result;
  CLEAVE_RETURN_IF_ERROR(InputFile::open(path, result.file));
  if (size_t size = result.file.getSize(); size > 0) {
    void *address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE,
                           result.file.getDescriptor(), 0);
    if (address == MAP_FAILED)
      return Status::error(path + ": cannot map " + std::to_string(size) +
                           " bytes: " + std::strerror(errno));
    result.mapping = Mapping::add(static_cast<char *>(address), size);
    result.data = static_cast<const char *>(address);
  }
  file = std::move(result);
  return {};
}

Status MappedFile::check() const {
  if (!data)
    return {};
  // Of the last page, what is beyond the file's end reads as zeros in silence.
  CLEAVE_RETURN_IF_ERROR(file.checkSize());
  uint64_t lostAt = mapping->lostAt.load();
  if (lostAt == Mapping::nothing)
    return {};
  return Status::error(getPath() + ": byte " + std::to_string(lostAt) +
                       " of the " + std::to_string(file.getSize()) +
                       " that it had when it was opened could not be read");
}
