//===- Price.cpp - What collectives on a mesh take on a network -----------===//
#include "cleave/Reshard/Price.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using llvm::ArrayRef;

Group cleave::getGroup(const Mesh &mesh, ArrayRef<Axis> axes) {
  struct Row {
    int64_t ranks, stride;
  };
  llvm::SmallVector<Row, 4> rows; // innermost first
  int64_t stride = 1;
  for (Axis axis = mesh.getNumAxes(); axis-- > 0;) {
    int64_t size = mesh.getSize(axis);
    if (size > 1 && llvm::is_contained(axes, axis)) {
      if (!rows.empty() && rows.back().ranks * rows.back().stride == stride)
        rows.back().ranks *= size;
      else
        rows.push_back({size, stride});
    }
    stride *= size;
  }
  Group group;
  if (rows.empty())
    return group;
  group.ranks = rows.front().ranks;
  group.stride = rows.front().stride;
  for (const Row &row : llvm::drop_begin(rows)) {
    group.outerRanks *= row.ranks;
    group.outerStride = row.stride;
  }
  return group;
}

static CollectiveKind getCollective(Step::Kind kind) {
  switch (kind) {
  case Step::Kind::AllReduce:
    return CollectiveKind::AllReduce;
  case Step::Kind::ReduceScatter:
    return CollectiveKind::ReduceScatter;
  case Step::Kind::AllGather:
    return CollectiveKind::AllGather;
  case Step::Kind::AllToAll:
    return CollectiveKind::AllToAll;
  case Step::Kind::Slice:
    break;
  }
  llvm_unreachable("a slice is no collective");
}

int64_t cleave::getLevel(const Mesh &mesh, const Network &network,
                         ArrayRef<Axis> axes) {
  Group group = getGroup(mesh, axes);
  int64_t last = int64_t(network.levels.size()) - 1;
  for (int64_t level = 0; level < last; ++level)
    if (getRanksInside(group, network.levels[size_t(level)].size) ==
        group.getSize())
      return level;
  return last;
}

bool cleave::leavesNode(const Mesh &mesh, const Network &network,
                        ArrayRef<Axis> axes) {
  Group group = getGroup(mesh, axes);
  return getRanksInside(group, network.getDevicesPerNode()) < group.getSize();
}

double NetworkPricer::operator()(Step::Kind kind, ArrayRef<Axis> axes,
                                 double bytes) const {
  uint64_t set = 0;
  for (Axis axis : axes)
    set |= uint64_t(1) << axis;
  auto [at, isNew] = known.try_emplace({kind, set, bytes});
  if (isNew)
    at->second = price(kind, axes, bytes);
  return at->second;
}

double NetworkPricer::price(Step::Kind kind, ArrayRef<Axis> axes,
                            double bytes) const {
  Group group = getGroup(mesh, axes);
  // That of a collective is the whole buffer.
  if (kind == Step::Kind::AllGather)
    bytes *= double(group.getSize());
  return getCollectiveTime(network, getCollective(kind), group, bytes);
}
