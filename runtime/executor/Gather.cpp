//===- Gather.cpp ---------------------------------------------------------===//
#include "runtime/executor/Gather.h"
#include "runtime/cpu/Bf16.h"
#include <cstring>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// Copies a shard to where it belongs in the logical tensor; rows (the last
/// dim) that are cut by padding are copied in part.
class ShardPlacer {
public:
  ShardPlacer(const PlacedValue &value, const std::vector<uint64_t> &localShape,
              std::vector<std::byte> &global)
      : value(value), localShape(localShape), global(global) {}

  /// `starts`: the shard's first element in the padded tensor.
  void place(const std::byte *shard, const std::vector<uint64_t> &starts) {
    placeDim(shard, starts, 0, 0);
  }

private:
  void placeDim(const std::byte *shard, const std::vector<uint64_t> &starts,
                size_t dim, uint64_t globalIndex) {
    uint64_t bytes = getBytes(value.dtype);
    if (dim == localShape.size()) {
      std::memcpy(global.data() + globalIndex * bytes, shard, bytes);
      return;
    }
    uint64_t inside = 1;
    for (size_t d = dim + 1; d < localShape.size(); ++d)
      inside *= localShape[d];
    uint64_t kept = 0;
    if (starts[dim] < value.logical[dim])
      kept = std::min(localShape[dim], value.logical[dim] - starts[dim]);
    uint64_t first = globalIndex * value.logical[dim] + starts[dim];
    if (dim + 1 == localShape.size()) {
      std::memcpy(global.data() + first * bytes, shard, kept * bytes);
      return;
    }
    for (uint64_t i = 0; i < kept; ++i)
      placeDim(shard + i * inside * bytes, starts, dim + 1, first + i);
  }

  const PlacedValue &value;
  const std::vector<uint64_t> &localShape;
  std::vector<std::byte> &global;
};

std::vector<AxisList>
getDims(const flatbuffers::Vector<flatbuffers::Offset<fb::DimAxes>> *dims) {
  std::vector<AxisList> lists;
  for (size_t i = 0; i < getSize(dims); ++i) {
    auto axes = toSpan(dims->Get(flatbuffers::uoffset_t(i))->axes());
    lists.emplace_back(axes.begin(), axes.end());
  }
  return lists;
}

} // namespace

Status cleave::runtime::gatherValue(Communicator &communicator,
                                    const PlacedValue &value,
                                    std::span<const std::byte> local,
                                    GlobalTensor &result) {
  const Mesh &mesh = communicator.getMesh();
  std::vector<std::byte> mine(local.begin(), local.end());
  if (!value.partial.empty()) {
    const Group *group;
    CLEAVE_RETURN_IF_ERROR(communicator.getGroup(value.partial, group));
    CLEAVE_RETURN_IF_ERROR(communicator.allReduce(
        *group, mine.data(), mine.data(), mine.size() / getBytes(value.dtype),
        ElementType(value.dtype), Reduction::Sum));
  }

  AxisList axes = value.stages;
  std::vector<uint64_t> localShape;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    axes.insert(axes.end(), value.dims[d].begin(), value.dims[d].end());
    localShape.push_back(value.shape[d] /
                         uint64_t(mesh.getShardCount(value.dims[d])));
  }
  const Group *group;
  CLEAVE_RETURN_IF_ERROR(communicator.getGroup(axes, group));
  std::vector<std::byte> shards(mine.size() * size_t(group->getSize()));
  CLEAVE_RETURN_IF_ERROR(communicator.allGather(*group, mine.data(),
                                                shards.data(), 1, mine.size()));

  GlobalTensor tensor;
  tensor.dtype = value.dtype;
  tensor.shape.assign(value.logical.begin(), value.logical.end());
  uint64_t bytes = getBytes(value.dtype);
  for (uint64_t size : tensor.shape)
    bytes *= size;
  tensor.data.resize(bytes);
  ShardPlacer placer(value, localShape, tensor.data);
  int count = group->getSize() / mesh.getShardCount(value.stages);
  int first = int(value.stage) * count;
  for (int i = first; i < first + count; ++i) {
    std::vector<uint64_t> starts;
    for (size_t d = 0; d < localShape.size(); ++d)
      starts.push_back(
          localShape[d] *
          uint64_t(mesh.getShardIndex(group->getRanks()[i], value.dims[d])));
    placer.place(shards.data() + size_t(i) * mine.size(), starts);
  }
  result = std::move(tensor);
  return {};
}

/// Of a value that the program has first in stage `value.stage`, where it is
/// `operand`.
static Status gatherOf(Executor &executor, PlacedValue value,
                       const fb::Operand &operand, GlobalTensor &result) {
  value.stages = executor.getProgram().getStageAxes();
  auto gather = [&](std::span<const std::byte> local) {
    return gatherValue(executor.getCommunicator(), value, local, result);
  };
  if (executor.getStage().getNumber() == value.stage)
    return executor.read(operand, gather);
  return gather(std::vector<std::byte>(operand.bytes()));
}

Status cleave::runtime::gatherState(Executor &executor, const fb::State &named,
                                    GlobalTensor &result) {
  const Program &program = executor.getProgram();
  const fb::State &state =
      *program.findState(toView(named.name()), toView(named.role()));
  PlacedValue value;
  value.dtype = state.dtype();
  value.shape = toSpan(state.shape());
  value.logical = toSpan(state.logical());
  value.dims = getDims(state.dims());
  value.stage = program.getFirstStage(state);
  return gatherOf(executor, std::move(value), *state.operand(), result);
}

Status cleave::runtime::gatherOutput(Executor &executor,
                                     const fb::Output &named,
                                     GlobalTensor &result,
                                     uint64_t microBatch) {
  const Program &program = executor.getProgram();
  const fb::Output &output = *program.findOutput(toView(named.name()));
  auto partial = toSpan(output.partial());
  PlacedValue value;
  value.dtype = output.dtype();
  value.shape = toSpan(output.shape());
  value.logical = toSpan(output.logical());
  value.dims = getDims(output.dims());
  value.partial.assign(partial.begin(), partial.end());
  value.stage = program.getFirstStage(output);
  const fb::Operand &operand = *output.operand();
  return gatherOf(executor, std::move(value),
                  {getPlace(operand, microBatch), operand.bytes(), 0, 0, 0},
                  result);
}

std::vector<float> cleave::runtime::toFloats(const GlobalTensor &tensor) {
  std::vector<float> values(tensor.data.size() / getBytes(tensor.dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == fb::DType::BF16) {
      uint16_t bits;
      std::memcpy(&bits, tensor.data.data() + i * 2, 2);
      values[i] = cpu::fromBf16(bits);
    } else if (tensor.dtype == fb::DType::F32) {
      std::memcpy(&values[i], tensor.data.data() + i * 4, 4);
    } else {
      int32_t number;
      std::memcpy(&number, tensor.data.data() + i * 4, 4);
      values[i] = float(number);
    }
  }
  return values;
}
