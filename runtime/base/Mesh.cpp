//===- Mesh.cpp -----------------------------------------------------------===//
#include "runtime/base/Mesh.h"
#include <cassert>

using namespace cleave::runtime;

Mesh::Mesh(std::vector<int> axisSizes) : sizes(std::move(axisSizes)) {
  strides.resize(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    assert(sizes[axis] >= 1 && "an axis has at least one rank");
    strides[axis] = world;
    world *= sizes[axis];
  }
}

int Mesh::getShardCount(std::span<const uint8_t> axes) const {
  int count = 1;
  for (uint8_t axis : axes)
    count *= sizes[axis];
  return count;
}

int Mesh::getShardIndex(int rank, std::span<const uint8_t> axes) const {
  int index = 0;
  for (uint8_t axis : axes)
    index = index * sizes[axis] + getCoordinate(rank, axis);
  return index;
}

std::vector<int> Mesh::getGroup(int rank, std::span<const uint8_t> axes) const {
  int first = rank;
  for (uint8_t axis : axes)
    first -= getCoordinate(rank, axis) * strides[axis];
  std::vector<int> ranks = {first};
  // From the minor axis to the major one: each repeats what is there.
  for (size_t i = axes.size(); i-- > 0;) {
    size_t inner = ranks.size();
    for (int c = 1; c < sizes[axes[i]]; ++c)
      for (size_t j = 0; j < inner; ++j)
        ranks.push_back(ranks[j] + c * strides[axes[i]]);
  }
  return ranks;
}

std::string cleave::runtime::listRanks(std::span<const int> ranks) {
  constexpr size_t most = 8;
  size_t shown = ranks.size() <= most ? ranks.size() : most - 1;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0)
      text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (shown < ranks.size())
    text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}
