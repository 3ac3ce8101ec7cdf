//===- Memory.cpp ---------------------------------------------------------===//
#include "test/cuda/driver/Memory.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace cleave::simulated;

static constexpr uint64_t alignment = 256;
static constexpr int unwritten = 0xff;

static uint64_t roundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

static std::string format(Address address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
  return text;
}

static void *map(uint64_t bytes, int protection, int flags, int file) {
  void *pointer =
      mmap(nullptr, bytes, protection, flags | MAP_NORESERVE, file, 0);
  if (pointer == MAP_FAILED) {
    std::perror("simulated CUDA: mmap");
    std::abort();
  }
  return pointer;
}

/// Addresses are reserved for twice the memory: gaps and fragments cost
/// addresses, and what is free is free.
DeviceMemory::DeviceMemory(uint64_t bytes)
    : total(bytes), reserved(2 * roundUp(bytes, 1 << 20) + (64 << 20)) {
  base = Address(reinterpret_cast<uintptr_t>(
      map(reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1)));
  int file = memfd_create("cleave-simulated-gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(reserved)) != 0) {
    std::perror("simulated CUDA: memfd");
    std::abort();
  }
  this->bytes = static_cast<std::byte *>(
      map(reserved, PROT_READ | PROT_WRITE, MAP_SHARED, file));
  close(file);
}

DeviceMemory::~DeviceMemory() {
  munmap(reinterpret_cast<void *>(uintptr_t(base)), reserved);
  munmap(bytes, reserved);
}

/// First fit, each with a gap of at least one unit before it and behind it.
bool DeviceMemory::allocate(uint64_t size, Address &address) {
  uint64_t rounded = roundUp(size, alignment);
  if (size == 0 || rounded < size || rounded > getFree())
    return false;
  Address at = base + alignment;
  for (const auto &[begin, held] : live) {
    if (at + rounded + alignment <= begin)
      break;
    at = begin + roundUp(held, alignment) + alignment;
    at += at % (2 * alignment) == 0 ? alignment : 0;
  }
  if (at + rounded + alignment > base + reserved)
    return false;
  // What was freed there is no more to be told of.
  auto next = dead.lower_bound(at);
  if (next != dead.begin() &&
      std::prev(next)->first + std::prev(next)->second > at)
    next = std::prev(next);
  while (next != dead.end() && next->first < at + rounded)
    next = dead.erase(next);
  std::memset(bytes + (at - base), unwritten, rounded);
  live.emplace(at, size);
  used += rounded;
  address = at;
  return true;
}

bool DeviceMemory::free(Address address) {
  auto found = live.find(address);
  if (found == live.end())
    return false;
  uint64_t rounded = roundUp(found->second, alignment);
  std::memset(bytes + (address - base), unwritten, rounded);
  used -= rounded;
  dead.insert(*found);
  live.erase(found);
  return true;
}

void DeviceMemory::freeAll() {
  while (!live.empty())
    free(live.begin()->first);
}

std::byte *DeviceMemory::translate(Address address, uint64_t size,
                                   std::string &why) const {
  auto next = live.upper_bound(address);
  if (next != live.begin()) {
    auto [begin, held] = *std::prev(next);
    if (address - begin <= held && size <= held - (address - begin))
      return bytes + (address - base);
    if (address - begin < held) {
      why = std::to_string(size) + " bytes at " + format(address) +
            " run over the end of an allocation of " + std::to_string(held) +
            " bytes at " + format(begin) + ", of which " +
            std::to_string(held - (address - begin)) + " are left";
      return nullptr;
    }
  }
  why = std::to_string(size) + " bytes at " + format(address) + " are in ";
  auto freed = dead.upper_bound(address);
  if (freed != dead.begin() &&
      address - std::prev(freed)->first < std::prev(freed)->second)
    why += "an allocation of " + std::to_string(std::prev(freed)->second) +
           " bytes that was freed";
  else
    why += "no allocation of this device";
  return nullptr;
}

std::byte *DeviceMemory::findAllocation(Address address, Address &begin,
                                        uint64_t &size) const {
  auto next = live.upper_bound(address);
  if (next == live.begin())
    return nullptr;
  begin = std::prev(next)->first;
  size = std::prev(next)->second;
  return bytes + (begin - base);
}

void *PinnedMemory::allocate(uint64_t size) {
  void *pointer = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (size == 0 || pointer == MAP_FAILED)
    return nullptr;
  std::memset(pointer, unwritten, size);
  live.emplace(uintptr_t(pointer), size);
  return pointer;
}

bool PinnedMemory::free(void *pointer) {
  auto found = live.find(uintptr_t(pointer));
  if (found == live.end())
    return false;
  showAll();
  munmap(pointer, found->second);
  live.erase(found);
  return true;
}

void PinnedMemory::write(std::byte *to, const std::byte *from, uint64_t size,
                         uint64_t operation) {
  unseen.push_back({to, {from, from + size}, operation});
}

void PinnedMemory::show(const std::function<bool(const Written &)> &isShown) {
  std::vector<Written> left;
  for (Written &each : unseen) {
    if (!isShown(each)) {
      left.push_back(std::move(each));
      continue;
    }
    uint64_t word = 0;
    if (each.bytes.size() == sizeof word &&
        uintptr_t(each.place) % sizeof word == 0) {
      // Another thread may read it meanwhile.
      std::memcpy(&word, each.bytes.data(), sizeof word);
      std::atomic_ref(*reinterpret_cast<uint64_t *>(each.place)).store(word);
    } else {
      std::memcpy(each.place, each.bytes.data(), each.bytes.size());
    }
  }
  unseen = std::move(left);
}

/// What is left stays in front of what is written to the same place behind it.
void PinnedMemory::showSome() {
  uintptr_t begin = ~uintptr_t(0), end = 0; // of what is left
  show([&](const Written &each) {
    uintptr_t from = uintptr_t(each.place), to = from + each.bytes.size();
    if (random() % 2 == 0 && (to <= begin || end <= from))
      return true;
    begin = std::min(begin, from);
    end = std::max(end, to);
    return false;
  });
}

void PinnedMemory::showUntil(uint64_t operation) {
  show([&](const Written &each) { return each.operation <= operation; });
}

PinnedMemory::~PinnedMemory() {
  while (!live.empty())
    free(reinterpret_cast<void *>(live.begin()->first));
}

PinnedMemory::Place PinnedMemory::find(const void *pointer,
                                       uint64_t size) const {
  uintptr_t begin = uintptr_t(pointer), end = begin + size;
  auto next = live.upper_bound(begin);
  if (next != live.begin()) {
    auto [start, held] = *std::prev(next);
    if (end <= start + held)
      return Place::Inside;
    if (begin < start + held)
      return Place::Across;
  }
  return next != live.end() && next->first < end ? Place::Across
                                                 : Place::Outside;
}
