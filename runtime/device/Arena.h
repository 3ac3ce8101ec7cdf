//===- Arena.h - All memory of a rank's program ---------------------------===//
#ifndef CLEAVE_RUNTIME_DEVICE_ARENA_H
#define CLEAVE_RUNTIME_DEVICE_ARENA_H

#include "runtime/base/Status.h"
#include <cstddef>
#include <cstdint>
#include <utility>

namespace cleave::runtime {

/// The arenas of all ranks that share a process.
struct ArenaTotal {
  uint64_t bytes;
  int ranks;
};

/// `bytes` bytes, zero at first, on a page boundary, in huge pages where the
/// system has them. Taken from the system page by page when first written, and
/// followed by a page that cannot be touched.
class Arena {
public:
  Arena() = default;
  Arena(Arena &&other) noexcept { swap(other); }
  Arena &operator=(Arena &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Arena();

  /// Fails where all arenas of the process are more than the machine's memory:
  /// the system would grant them, and end the process when they are written.
  static Status allocate(uint64_t bytes, const ArenaTotal &all, Arena &arena);

  std::byte *getData() const { return data; }
  uint64_t getSize() const { return size; }

private:
  void swap(Arena &other) noexcept {
    std::swap(mapping, other.mapping);
    std::swap(mapped, other.mapped);
    std::swap(data, other.data);
    std::swap(size, other.size);
  }

  void *mapping = nullptr; ///< with what aligns it, and the last page
  size_t mapped = 0;
  std::byte *data = nullptr;
  uint64_t size = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_ARENA_H
