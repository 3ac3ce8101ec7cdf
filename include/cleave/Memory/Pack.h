//===- Pack.h - Offsets of all buffers in one arena -----------------------===//
#ifndef CLEAVE_MEMORY_PACK_H
#define CLEAVE_MEMORY_PACK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// A buffer that is live from instruction `firstUse` to `lastUse`, both
/// included.
struct BufferLifetime {
  int64_t size = 0; ///< bytes
  int64_t firstUse = 0;
  int64_t lastUse = 0;
  int64_t alignment = 64; ///< of the offset; a power of two
};

struct PackOptions {
  uint64_t seed = 1;
  /// Work that may go into improving the best order: the number of times that
  /// a placed buffer is looked at. Half a second or so.
  int64_t effort = 400'000'000;
  /// As much of it as there is to gain: for each byte that the arena is above
  /// the bound. The step of a small model is not searched for half a second for
  /// the sake of some KB; 400 MB are worth all of the effort.
  int64_t effortPerByte = 1;
};

struct Packing {
  std::vector<int64_t> offsets; ///< one for each buffer, in bytes
  int64_t peak = 0;             ///< bytes of the arena
  /// Most bytes that are live at one instruction: no arena is smaller.
  int64_t lowerBound = 0;
  std::string order; ///< what gave the offsets, for remarks
};

/// Gives every buffer an offset so that buffers live at the same instruction
/// do not overlap. Tries several orders in which each buffer in turn gets the
/// lowest or the tightest gap, then improves the best order by a local search;
/// stops as soon as no arena can be smaller. Same input, same answer. Fails on
/// a negative size, a lifetime that ends before it begins, an alignment that is
/// no power of two, or sizes whose sum overflows.
llvm::Expected<Packing> packArena(llvm::ArrayRef<BufferLifetime> buffers,
                                  const PackOptions &options = {});

} // namespace cleave

#endif // CLEAVE_MEMORY_PACK_H
