//===- Lanes.h - Neighbours that run beside each other --------------------===//
//
// A stream's instructions run one after the other, though many small ones have
// nothing to do with each other: the updates of all parameters, the casts of
// all weights. Such neighbours are a group, whose members take turns in the
// stream itself and some more beside it, its lanes, so that one begins while
// another ends. What comes before a group comes before all of its members, and
// what comes after it after all of them: to everyone else it is the same
// stream.
//
// Members that launch the same kernel, such as the updates of all biases of one
// size, are one launch: a GPU takes some microseconds for each.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_LANES_H
#define CLEAVE_RUNTIME_CUDA_LANES_H

#include "runtime/device/Device.h"
#include <functional>
#include <vector>

namespace cleave::runtime::cuda {

/// Of each stream, itself included.
constexpr unsigned mostLanes = 4;

/// Where an instruction runs.
struct Lane {
  unsigned number = 0; ///< 0: the stream itself
  unsigned count = 1;  ///< of the lanes that its group has
  bool forks = false;  ///< the first launch of a group
  bool joins = false;  ///< the last of one
  /// The instructions, this one the first, that are one launch here; empty
  /// where it is one by itself.
  std::vector<size_t> together = {};
  bool follows = false; ///< an instruction before it launches it, too
};

/// For each of a stage's instructions, which must be kernel launches where
/// `canShare` says that they may be in a group. Two of a group touch no byte in
/// common, unless both read it. `getMulti`: an instruction's kernel, if there
/// is one that does several launches of it at once; else null.
std::vector<Lane>
assignLanes(const Program &program, const Stage &stage,
            std::span<const BoundInstruction> instructions,
            const std::function<bool(size_t)> &canShare,
            const std::function<const void *(size_t)> &getMulti);

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_LANES_H
