//===- Gather.h - Whole tensors out of shards -----------------------------===//
//
// For tests, dumps and small values: each rank ends up with the whole tensor.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_GATHER_H
#define CLEAVE_RUNTIME_EXECUTOR_GATHER_H

#include "runtime/executor/Executor.h"
#include <string_view>

namespace cleave::runtime {

/// A tensor as one device would hold it.
struct GlobalTensor {
  program::DType dtype;
  std::vector<uint64_t> shape; ///< logical: without padding
  std::vector<std::byte> data;
};

/// A placed value; see State and Output in program.fbs.
struct PlacedValue {
  program::DType dtype;
  std::span<const uint64_t> shape;   ///< global, padded
  std::span<const uint64_t> logical; ///< what is kept of it
  std::vector<AxisList> dims;        ///< axes that split each dim
  AxisList partial;                  ///< axes to sum over, in rank order
  AxisList stages;                   ///< the stage axis, if there is one
  uint64_t stage = 0;                ///< whose ranks have the value
};

/// Puts `local`, this rank's shard, together with those of all ranks. Ranks of
/// other stages than the value's give as many bytes of any content. Collective
/// over the world; every rank gets the result.
Status gatherValue(Communicator &communicator, const PlacedValue &value,
                   std::span<const std::byte> local, GlobalTensor &result);

/// The same for a state or an output that some stage of the program has, which
/// all ranks name alike; of an output with places, what the micro-batch wrote.
Status gatherState(Executor &executor, const program::State &state,
                   GlobalTensor &result);
Status gatherOutput(Executor &executor, const program::Output &output,
                    GlobalTensor &result, uint64_t microBatch = 0);

/// Elements as f32.
std::vector<float> toFloats(const GlobalTensor &tensor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_GATHER_H
