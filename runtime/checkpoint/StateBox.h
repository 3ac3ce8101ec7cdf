//===- StateBox.h - Where a shard's elements lie in the checkpoint --------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_STATEBOX_H
#define CLEAVE_RUNTIME_CHECKPOINT_STATEBOX_H

#include "runtime/base/Mesh.h"
#include "runtime/program/Program.h"
#include <algorithm>

namespace cleave::runtime {

/// The elements of a rank's shard of a state that are not padding, each with
/// its place in the shard and in the checkpoint tensor. They are numbered from
/// 0 in the shard's order, so that threads can share them.
///
/// A state without a source is its own checkpoint tensor: its logical box.
class StateBox {
public:
  /// Of the rank's shard.
  StateBox(const program::State &state, const Mesh &mesh, int rank);
  /// Of the whole state, unpadded.
  explicit StateBox(const program::State &state);

  /// Elements of the shard, with and without padding.
  uint64_t getLocalSize() const { return localSize; }
  uint64_t getSize() const { return size; }

  /// Calls `fn(local, source, stride, count)` for runs that cover the elements
  /// [begin, end): element `local + i` of the shard is element
  /// `source + i * stride` of the checkpoint tensor.
  template <typename Fn>
  void forEachRun(uint64_t begin, uint64_t end, Fn &&fn) const {
    const Dim &inner = dims.back();
    while (begin < end) {
      uint64_t column = begin % inner.valid, row = begin / inner.valid;
      uint64_t count = std::min(inner.valid - column, end - begin);
      uint64_t local = column * inner.localStride;
      uint64_t source = base + column * inner.sourceStride;
      for (size_t d = dims.size() - 1; d-- > 0;) {
        uint64_t index = row % dims[d].valid;
        row /= dims[d].valid;
        local += index * dims[d].localStride;
        source += index * dims[d].sourceStride;
      }
      fn(local, source, inner.sourceStride, count);
      begin += count;
    }
  }

private:
  struct Dim {
    uint64_t valid; ///< of the shard's elements, how many are not padding
    uint64_t localStride, sourceStride;
  };
  /// `local`: the shard's shape; `starts`: its first element in the state.
  void set(const program::State &state, const std::vector<uint64_t> &local,
           const std::vector<uint64_t> &starts);

  std::vector<Dim> dims; ///< merged where they are one run; at least one
  uint64_t base = 0;     ///< the shard's first element in the source
  uint64_t localSize = 1, size = 1;
};

/// The part of a state that a rank's shard holds: elements
/// [starts[d], starts[d] + sizes[d]) of each dim of the logical shape. Padding
/// is no part of it, so a size may be 0.
struct ShardBox {
  std::vector<uint64_t> starts, sizes;

  uint64_t getElements() const;
};
/// Likewise with padding: what the shard's bytes in memory are.
ShardBox getPaddedBox(const program::State &state, const Mesh &mesh, int rank);
ShardBox getShardBox(const program::State &state, const Mesh &mesh, int rank);

/// Whether a state comes from HuggingFace's weights and goes back into them: it
/// has a source and is no moment.
bool isWeight(const program::State &state);

/// Whether it has a parameter's value in another type.
inline bool isCopy(const program::State &state) {
  return !toView(state.of()).empty();
}

/// Whether a run cannot go on without a state: all but copies and what is a
/// pure function of the program, such as tables of rotary embeddings.
inline bool isSaved(const program::State &state) {
  return isWeight(state) ||
         (toView(state.role()) != "constant" && !isCopy(state));
}

/// Whether `rank` is the one of its replicas that writes: it is of the first
/// stage that has the state, and its coordinate is 0 on every other axis that
/// does not split it.
bool isWriter(const Program &program, const program::State &state, int rank);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_STATEBOX_H
