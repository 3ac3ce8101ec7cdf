//===- Price.h - What collectives on a mesh take on a network -------------===//
#ifndef CLEAVE_RESHARD_PRICE_H
#define CLEAVE_RESHARD_PRICE_H

#include "cleave/Cost/Kernels.h"
#include "cleave/Reshard/Reshard.h"
#include <map>

namespace cleave {

/// The devices of ranks that differ along `axes` only, in whatever order these
/// are, if rank i is device i. Axes that are neighbours on the mesh are as one;
/// two rows of such axes are the group's inner and outer ranks. On
/// ["a"=2, "b"=3, "c"=4, "d"=5, "e"=6]:
///
///   {c, d}     20 ranks 6 apart
///   {b, d, e}  30 ranks 1 apart, 3 such rows 120 apart
///   {a, c, e}   6 ranks 1 apart, 8 such rows 360 apart
///
/// The last has three rows, which no group has: all but the innermost count as
/// if they were as far apart as the outermost. So it has no more ranks in a
/// unit of the network than there are, and is never priced as nearer.
Group getGroup(const Mesh &mesh, llvm::ArrayRef<Axis> axes);

/// The outermost level of the network between ranks that differ along `axes`,
/// of which there is more than one: what moves over one level at the same time
/// shares it.
int64_t getLevel(const Mesh &mesh, const Network &network,
                 llvm::ArrayRef<Axis> axes);

/// Whether ranks of more than one node are among those that differ along
/// `axes`.
bool leavesNode(const Mesh &mesh, const Network &network,
                llvm::ArrayRef<Axis> axes);

/// The planner's own figures, of getCollectiveTime, as a CollectivePricer. Mesh
/// and network must outlive it.
class NetworkPricer {
public:
  NetworkPricer(const Mesh &mesh, const Network &network)
      : mesh(mesh), network(network) {}

  double operator()(Step::Kind kind, llvm::ArrayRef<Axis> axes,
                    double bytes) const;

private:
  double price(Step::Kind kind, llvm::ArrayRef<Axis> axes, double bytes) const;

  /// What was asked before, by kind and set of axes, and bytes: whoever plans
  /// reshards asks the same thousands of times.
  mutable std::map<std::tuple<Step::Kind, uint64_t, double>, double> known;
  const Mesh &mesh;
  const Network &network;
};

} // namespace cleave

#endif // CLEAVE_RESHARD_PRICE_H
