//===- GapFinder.h - Where a buffer fits among those placed ---------------===//
#ifndef CLEAVE_LIB_MEMORY_GAPFINDER_H
#define CLEAVE_LIB_MEMORY_GAPFINDER_H

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace cleave {

enum class Fit {
  First, ///< the lowest gap that is wide enough
  Best,  ///< the narrowest gap that is wide enough; the lowest of those
};

/// Buffers placed so far, sorted by offset. A search walks up through those
/// that overlap in time. They lie in blocks of flat arrays, so that the test
/// for overlap is a loop that compilers vectorize: about one cycle a buffer.
class GapFinder {
public:
  void clear();

  /// The offset, a multiple of `alignment`, of a free range of `size` bytes
  /// during [first, last].
  int64_t find(int32_t first, int32_t last, int64_t size, int64_t alignment,
               Fit fit);
  void insert(int32_t first, int32_t last, int64_t offset, int64_t size);

  /// How often a placed buffer was looked at.
  int64_t getWork() const { return work; }

private:
  static constexpr unsigned capacity = 128;

  struct Block {
    Block();
    unsigned count = 0;
    /// Hull of the lifetimes.
    int32_t hullFirst, hullLast;
    /// Past `count`, lifetimes that overlap nothing.
    std::array<int32_t, capacity> first, last;
    std::array<int64_t, capacity> begin, end;

    void insert(unsigned at, int32_t first, int32_t last, int64_t begin,
                int64_t end);
    void computeHull();
  };

  /// Moves the upper half of a full block into one of its own.
  void split(size_t block);

  std::vector<std::unique_ptr<Block>> blocks;
  int64_t work = 0;
};

} // namespace cleave

#endif // CLEAVE_LIB_MEMORY_GAPFINDER_H
