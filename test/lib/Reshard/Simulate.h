//===- Simulate.h - Collectives on arrays, the obvious way ----------------===//
//
// An oracle for what steps mean: every rank has its array, and a step is
// carried out rank by rank by cutting, joining and reducing whole arrays.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_LIB_RESHARD_SIMULATE_H
#define CLEAVE_TEST_LIB_RESHARD_SIMULATE_H

#include "cleave/Reshard/Reshard.h"
#include "test/lib/Placement/Arrays.h"

namespace cleave::simulate {

/// What each rank holds after `step`.
inline std::vector<Array> run(const Mesh &mesh, const std::vector<Array> &in,
                              const Step &step, Reduction reduction) {
  std::vector<Array> out;
  int64_t count = mesh.getSize(step.axes);
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
    int64_t number = mesh.getShardIndex(rank, step.axes);
    std::vector<Array> group;
    for (int64_t member : mesh.getGroup(rank, step.axes))
      group.push_back(in[member]);
    switch (step.kind) {
    case Step::Kind::AllReduce:
      out.push_back(reduce(group, reduction));
      break;
    case Step::Kind::ReduceScatter:
      out.push_back(cut(reduce(group, reduction), step.dim, number, count));
      break;
    case Step::Kind::AllGather:
      out.push_back(join(group, step.dim));
      break;
    case Step::Kind::AllToAll:
      for (Array &member : group)
        member = cut(member, step.splitDim, number, count);
      out.push_back(join(group, step.dim));
      break;
    case Step::Kind::Slice:
      out.push_back(cut(in[rank], step.dim, number, count));
      break;
    }
  }
  return out;
}

} // namespace cleave::simulate

#endif // CLEAVE_TEST_LIB_RESHARD_SIMULATE_H
