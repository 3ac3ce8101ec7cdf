//===- GapFinder.cpp - Where a buffer fits among those placed -------------===//
#include "GapFinder.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

using namespace cleave;

GapFinder::Block::Block() {
  first.fill(std::numeric_limits<int32_t>::max());
  last.fill(std::numeric_limits<int32_t>::min());
  computeHull();
}

void GapFinder::Block::computeHull() {
  hullFirst = std::numeric_limits<int32_t>::max();
  hullLast = std::numeric_limits<int32_t>::min();
  for (unsigned i = 0; i < count; ++i) {
    hullFirst = std::min(hullFirst, first[i]);
    hullLast = std::max(hullLast, last[i]);
  }
}

void GapFinder::Block::insert(unsigned at, int32_t newFirst, int32_t newLast,
                              int64_t newBegin, int64_t newEnd) {
  auto put = [&](auto &array, auto value) {
    std::move_backward(array.begin() + at, array.begin() + count,
                       array.begin() + count + 1);
    array[at] = value;
  };
  put(first, newFirst);
  put(last, newLast);
  put(begin, newBegin);
  put(end, newEnd);
  ++count;
  hullFirst = std::min(hullFirst, newFirst);
  hullLast = std::max(hullLast, newLast);
}

void GapFinder::clear() { blocks.clear(); }

int64_t GapFinder::find(int32_t first, int32_t last, int64_t size,
                        int64_t alignment, Fit fit) {
  // Everything below `top` and live at the time has been seen; `top` is free.
  int64_t top = 0;
  int64_t best = -1, bestWidth = std::numeric_limits<int64_t>::max();
  for (const std::unique_ptr<Block> &block : blocks) {
    ++work;
    if (block->hullFirst > last || block->hullLast < first)
      continue;
    work += capacity;
    alignas(64) std::array<uint8_t, capacity> overlaps;
    for (unsigned i = 0; i < capacity; ++i)
      overlaps[i] = static_cast<unsigned>(block->first[i] <= last) &
                    static_cast<unsigned>(block->last[i] >= first);

    for (unsigned word = 0; word < capacity; word += 8) {
      uint64_t bits;
      std::memcpy(&bits, &overlaps[word], 8);
      for (; bits; bits &= bits - 1) {
        unsigned i = word + std::countr_zero(bits) / 8;
        int64_t start = (top + alignment - 1) & -alignment;
        int64_t width = block->begin[i] - top;
        if (start + size <= block->begin[i]) {
          if (fit == Fit::First)
            return start;
          if (width < bestWidth) {
            best = start;
            bestWidth = width;
          }
        }
        top = std::max(top, block->end[i]);
      }
    }
  }
  return best >= 0 ? best : (top + alignment - 1) & -alignment;
}

void GapFinder::split(size_t index) {
  Block &lower = *blocks[index];
  auto upper = std::make_unique<Block>();
  constexpr unsigned half = capacity / 2;
  upper->count = lower.count = half;
  auto move = [&](auto &from, auto &to, auto filler) {
    std::copy(from.begin() + half, from.end(), to.begin());
    std::fill(from.begin() + half, from.end(), filler);
  };
  move(lower.first, upper->first, std::numeric_limits<int32_t>::max());
  move(lower.last, upper->last, std::numeric_limits<int32_t>::min());
  move(lower.begin, upper->begin, 0);
  move(lower.end, upper->end, 0);
  lower.computeHull();
  upper->computeHull();
  blocks.insert(blocks.begin() + index + 1, std::move(upper));
}

void GapFinder::insert(int32_t first, int32_t last, int64_t offset,
                       int64_t size) {
  if (blocks.empty())
    blocks.push_back(std::make_unique<Block>());
  // The last block that begins at or below the offset, or the lowest.
  auto it = llvm::upper_bound(
      blocks, offset, [](int64_t value, const std::unique_ptr<Block> &block) {
        return value < block->begin[0];
      });
  size_t index = it == blocks.begin() ? 0 : it - blocks.begin() - 1;
  if (blocks[index]->count == capacity) {
    split(index);
    if (blocks[index + 1]->begin[0] <= offset)
      ++index;
  }
  Block &block = *blocks[index];
  unsigned at = std::upper_bound(block.begin.begin(),
                                 block.begin.begin() + block.count, offset) -
                block.begin.begin();
  block.insert(at, first, last, offset, offset + size);
}
