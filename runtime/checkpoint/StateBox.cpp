//===- StateBox.cpp -------------------------------------------------------===//
#include "runtime/checkpoint/StateBox.h"

using namespace cleave::runtime;
namespace fb = cleave::program;

/// Strides of a dense tensor, in elements.
static std::vector<uint64_t> getStrides(std::span<const uint64_t> shape) {
  std::vector<uint64_t> strides(shape.size());
  uint64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

ShardBox cleave::runtime::getPaddedBox(const fb::State &state, const Mesh &mesh,
                                       int rank) {
  ShardBox box;
  auto shape = toSpan(state.shape());
  for (size_t d = 0; d < shape.size(); ++d) {
    auto axes = toSpan(state.dims()->Get(flatbuffers::uoffset_t(d))->axes());
    box.sizes.push_back(shape[d] / uint64_t(mesh.getShardCount(axes)));
    box.starts.push_back(box.sizes[d] *
                         uint64_t(mesh.getShardIndex(rank, axes)));
  }
  return box;
}

/// Of `size` elements from `start`, how many are not padding.
static uint64_t getValid(uint64_t start, uint64_t size, uint64_t logical) {
  return start < logical ? std::min(size, logical - start) : 0;
}

StateBox::StateBox(const fb::State &state, const Mesh &mesh, int rank) {
  ShardBox box = getPaddedBox(state, mesh, rank);
  set(state, box.sizes, box.starts);
}

uint64_t ShardBox::getElements() const {
  uint64_t elements = 1;
  for (uint64_t size : sizes)
    elements *= size;
  return elements;
}

ShardBox cleave::runtime::getShardBox(const fb::State &state, const Mesh &mesh,
                                      int rank) {
  ShardBox box = getPaddedBox(state, mesh, rank);
  auto logical = toSpan(state.logical());
  for (size_t d = 0; d < box.sizes.size(); ++d)
    box.sizes[d] = getValid(box.starts[d], box.sizes[d], logical[d]);
  return box;
}

bool cleave::runtime::isWeight(const fb::State &state) {
  std::string_view role = toView(state.role());
  return !toView(state.source()).empty() &&
         (role == "parameter" || role == "constant");
}

StateBox::StateBox(const fb::State &state) {
  auto logical = toSpan(state.logical());
  set(state, {logical.begin(), logical.end()},
      std::vector<uint64_t>(logical.size()));
}

void StateBox::set(const fb::State &state, const std::vector<uint64_t> &local,
                   const std::vector<uint64_t> &starts) {
  auto logical = toSpan(state.logical());

  // 1. Each dim's stride in the source, and the box's first element.
  std::vector<uint64_t> sourceStrides;
  if (toView(state.source()).empty()) {
    sourceStrides = getStrides(logical);
  } else {
    auto boxStarts = toSpan(state.starts());
    auto drop = toSpan(state.drop());
    std::vector<uint64_t> viewStrides = getStrides(toSpan(state.view()));
    for (size_t v = 0; v < viewStrides.size(); ++v) {
      base += boxStarts[v] * viewStrides[v];
      if (std::find(drop.begin(), drop.end(), v) == drop.end())
        sourceStrides.push_back(viewStrides[v]);
    }
  }

  // 2. The shard's part of the box.
  std::vector<uint64_t> valid;
  for (size_t d = 0; d < local.size(); ++d) {
    valid.push_back(getValid(starts[d], local[d], logical[d]));
    base += starts[d] * sourceStrides[d];
    localSize *= local[d];
    size *= valid[d];
  }

  // 3. A dim joins the run inside it where its step is the run's length, in
  // the shard and in the source.
  std::vector<uint64_t> localStrides = getStrides(local);
  for (size_t d = local.size(); d-- > 0;) {
    if (!dims.empty()) {
      Dim &run = dims.front();
      if (localStrides[d] == run.valid * run.localStride &&
          sourceStrides[d] == run.valid * run.sourceStride) {
        run.valid *= valid[d];
        continue;
      }
    }
    dims.insert(dims.begin(), {valid[d], localStrides[d], sourceStrides[d]});
  }
  if (dims.empty())
    dims.push_back({1, 1, 1});
}

bool cleave::runtime::isWriter(const Program &program, const fb::State &state,
                               int rank) {
  if (program.getStageNumber(rank) != program.getFirstStage(state))
    return false;
  const Mesh &mesh = program.getMesh();
  std::vector<bool> isFree(mesh.getSizes().size());
  for (uint8_t axis : program.getStageAxes())
    isFree[axis] = true;
  for (const fb::DimAxes *dim : toList(state.dims()))
    for (uint8_t axis : toSpan(dim->axes()))
      isFree[axis] = true;
  for (size_t axis = 0; axis < isFree.size(); ++axis)
    if (!isFree[axis] && mesh.getCoordinate(rank, int(axis)) != 0)
      return false;
  return true;
}
