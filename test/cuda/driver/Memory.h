//===- Memory.h - The memory of a simulated device, and pinned memory -----===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_MEMORY_H
#define CLEAVE_TEST_CUDA_DRIVER_MEMORY_H

#include "test/cuda/driver/Work.h"
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace cleave::simulated {

/// Addresses of a device are a range that is reserved and never mapped, so host
/// code that follows one faults. The bytes lie in a second range, which only
/// translate() leads to.
///
/// Bytes that nobody wrote are all ones: a NaN of every float type. Between
/// allocations there is a gap, so what runs over the end of one is outside of
/// all.
class DeviceMemory {
public:
  explicit DeviceMemory(uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  uint64_t getTotal() const { return total; }
  uint64_t getFree() const { return total - used; }

  /// False where memory, or a mapping of it, is used up. Addresses are
  /// multiples of 256 and, on purpose, of nothing more.
  bool allocate(uint64_t bytes, Address &address);
  /// False where no allocation begins there.
  bool free(Address address);
  void freeAll();

  /// Whether it is an address of this device, allocated or not.
  bool contains(Address address) const {
    return address >= base && address - base < reserved;
  }
  /// Null where no live allocation has all of the bytes; `why` then says what
  /// is there.
  std::byte *translate(Address address, uint64_t bytes, std::string &why) const;
  /// The last live allocation that begins at or before `address`, or null.
  std::byte *findAllocation(Address address, Address &begin,
                            uint64_t &size) const;

private:
  uint64_t total, reserved, used = 0;
  Address base = 0;
  std::byte *bytes = nullptr;
  std::map<Address, uint64_t> live; ///< bytes of each allocation
  std::map<Address, uint64_t> dead; ///< freed, and not allocated again since
};

/// What cuMemHostAlloc gave. What a copy writes there the host sees at the
/// latest when it knows of something behind it that is done, and until then in
/// any order, or not at all: CUDA promises no more.
class PinnedMemory {
public:
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory &) = delete;
  PinnedMemory &operator=(const PinnedMemory &) = delete;

  void *allocate(uint64_t bytes);
  bool free(void *pointer);
  enum class Place : uint8_t { Outside, Inside, Across };
  Place find(const void *pointer, uint64_t bytes) const;

  void setSeed(uint64_t seed) { random.seed(seed); }
  /// To memory inside, by the operation of that number; the host does not see
  /// it yet.
  void write(std::byte *to, const std::byte *from, uint64_t bytes,
             uint64_t operation);
  /// The host sees some of what was written, drawn.
  void showSome();
  /// It sees what the operations up to this one wrote, among which is all that
  /// it came behind; of other streams it would see more than CUDA promises.
  void showUntil(uint64_t operation);
  void showAll() { showUntil(~uint64_t(0)); }

private:
  struct Written {
    std::byte *place;
    std::vector<std::byte> bytes;
    uint64_t operation;
  };
  void show(const std::function<bool(const Written &)> &isShown);

  std::map<uintptr_t, uint64_t> live;
  std::vector<Written> unseen;
  std::minstd_rand random;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_MEMORY_H
