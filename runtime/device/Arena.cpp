//===- Arena.cpp ----------------------------------------------------------===//
#include "runtime/device/Arena.h"
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

using namespace cleave::runtime;

static constexpr uint64_t hugePage = uint64_t(2) << 20;

static uint64_t roundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Arena::~Arena() {
  if (mapping)
    ::munmap(mapping, mapped);
}

/// RAM and swap of the machine.
static uint64_t getMachineMemory() {
  struct sysinfo info;
  if (::sysinfo(&info) != 0)
    return ~uint64_t(0); // not known: the system will say
  return (uint64_t(info.totalram) + info.totalswap) * info.mem_unit;
}

Status Arena::allocate(uint64_t bytes, const ArenaTotal &all, Arena &arena) {
  if (uint64_t machine = getMachineMemory(); all.bytes > machine)
    return Status::error(
        std::to_string(all.ranks) +
        (all.ranks == 1 ? " rank of this process needs "
                        : " ranks of this process together need ") +
        std::to_string(all.bytes) + " bytes, this machine has " +
        std::to_string(machine) + " bytes of memory");
  const uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE));
  const uint64_t align = bytes >= hugePage ? hugePage : page;
  Arena result;
  uint64_t inside = roundUp(bytes, page);
  uint64_t total = inside + align + page;
  void *mapping = ::mmap(nullptr, total, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return Status::error("cannot allocate the arena of " +
                         std::to_string(bytes) +
                         " bytes: " + std::strerror(errno));
  result.mapping = mapping;
  result.mapped = total;
  uint64_t start = reinterpret_cast<uintptr_t>(mapping);
  uint64_t shift = roundUp(start, align) - start;
  result.data = static_cast<std::byte *>(mapping) + shift;
  result.size = bytes;
  // Both are hints: without them the program runs the same.
  if (align == hugePage)
    ::madvise(result.data, inside, MADV_HUGEPAGE);
  ::mprotect(result.data + inside, page, PROT_NONE);
  arena = std::move(result);
  return {};
}
