//===- Ring.h - Prices that pull plans into different directions ----------===//
#ifndef CLEAVE_TEST_LIB_RESHARD_RING_H
#define CLEAVE_TEST_LIB_RESHARD_RING_H

#include "cleave/Reshard/Reshard.h"

namespace cleave {

/// The alpha-beta model of ring collectives (Thakur, Rabenseifner and Gropp,
/// "Optimization of Collective Communication Operations in MPICH", 2005), with
/// a latency and a bandwidth for each axis: over several a ring has the worst
/// of them. Its figures are easy to work out by hand.
struct RingPricer {
  struct AxisCost {
    double latency = 0, bandwidth = 1; ///< s a hop; byte/s of a rank, each way
  };

  const Mesh &mesh;
  double launch = 0; ///< s of each collective
  llvm::SmallVector<AxisCost, 4> axes;

  RingPricer(const Mesh &mesh, double launch, AxisCost cost)
      : mesh(mesh), launch(launch), axes(mesh.getNumAxes(), cost) {}

  /// With n ranks and b bytes:
  ///
  ///   all_reduce      launch + 2 (n-1) latency + 2 (n-1)/n b / bandwidth
  ///   reduce_scatter  launch +   (n-1) latency +   (n-1)/n b / bandwidth
  ///   all_gather      launch +   (n-1) latency +   (n-1)   b / bandwidth
  ///   all_to_all      launch +   (n-1) latency +   (n-1)/n b / bandwidth
  double operator()(Step::Kind kind, llvm::ArrayRef<Axis> list,
                    double bytes) const {
    double n = double(mesh.getSize(list));
    AxisCost ring = axes[list.front()];
    for (Axis axis : list) {
      ring.latency = std::max(ring.latency, axes[axis].latency);
      ring.bandwidth = std::min(ring.bandwidth, axes[axis].bandwidth);
    }
    double piece = kind == Step::Kind::AllGather ? bytes : bytes / n;
    double once = (n - 1) * (ring.latency + piece / ring.bandwidth);
    return launch + (kind == Step::Kind::AllReduce ? 2 : 1) * once;
  }
};

} // namespace cleave

#endif // CLEAVE_TEST_LIB_RESHARD_RING_H
