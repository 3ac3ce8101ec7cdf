//===- ReshardExhaustiveTest.cpp - Every pair of placements ---------------===//
//
// For every mesh of up to 8 ranks with up to 3 axes, tensors of rank 1 to 3,
// several shapes and pricers, and every pair of placements: the planned steps
// are carried out on arrays and must give the value, and their seconds must
// equal the shortest path that Bellman-Ford finds over all conceivable steps. A
// planner that has been asked before plans the same.
//
//===----------------------------------------------------------------------===//
#include "Ring.h"
#include "Simulate.h"
#include "cleave/Reshard/Price.h"
#include "test/lib/Placement/Enumerate.h"
#include "gtest/gtest.h"
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>

using namespace cleave;

namespace {

struct Edge {
  int from, to;
  double seconds;
};

/// One figure for each step, whatever plan it is in.
using Pricer = std::function<double(Step::Kind, llvm::ArrayRef<Axis>, double)>;

std::vector<Edge> getEdges(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                           const std::vector<Placement> &placements,
                           CollectivePricer price, int64_t elementBytes) {
  std::vector<Edge> edges;
  std::vector<AxisList> sequences = getSequences(mesh.getNumAxes());
  unsigned rank = shape.size();
  for (unsigned from = 0; from < placements.size(); ++from) {
    double bytes = elementBytes;
    for (int64_t size : placements[from].getLocalShape(mesh, shape))
      bytes *= size;
    for (Step::Kind kind :
         {Step::Kind::AllReduce, Step::Kind::ReduceScatter,
          Step::Kind::AllGather, Step::Kind::AllToAll, Step::Kind::Slice})
      for (const AxisList &axes : sequences)
        for (unsigned dims = 0; dims < rank * rank; ++dims) {
          Step step;
          step.kind = kind;
          step.axes = axes;
          step.dim = dims % rank;
          step.splitDim = dims / rank;
          auto after = applyStep(mesh, shape, placements[from], step);
          if (!after) {
            llvm::consumeError(after.takeError());
            continue;
          }
          auto it = llvm::find(placements, *after);
          EXPECT_TRUE(it != placements.end()) << after->toString(mesh);
          edges.push_back({static_cast<int>(from),
                           static_cast<int>(it - placements.begin()),
                           kind == Step::Kind::Slice || mesh.getSize(axes) == 1
                               ? 0
                               : price(kind, axes, bytes)});
        }
  }
  return edges;
}

/// Seconds from `source` to every placement; infinite where there is no way.
std::vector<double> getDistances(const std::vector<Edge> &edges, int source,
                                 size_t count) {
  std::vector<double> distances(count, INFINITY);
  distances[source] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge &edge : edges)
      if (distances[edge.from] + edge.seconds < distances[edge.to]) {
        distances[edge.to] = distances[edge.from] + edge.seconds;
        changed = true;
      }
  }
  return distances;
}

struct Totals {
  int64_t pairs = 0, refused = 0, steps = 0, longest = 0;
  double planning = 0;
};

/// Checks every pair of placements of one tensor from each `stride`-th source.
void checkPairs(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                Reduction reduction, CollectivePricer price, Totals &totals,
                int stride = 1) {
  constexpr int64_t elementBytes = 2;
  std::vector<Placement> placements = getPlacements(mesh, shape, reduction);
  std::vector<Edge> edges =
      getEdges(mesh, shape, placements, price, elementBytes);
  // It is asked for all pairs, and remembers.
  ReshardPlanner planner(mesh, shape, elementBytes, price);
  auto checkPlanner = [&](const Placement &from, const Placement &to,
                          llvm::ArrayRef<Step> want) {
    auto got = planner.plan(from, to);
    ASSERT_TRUE(static_cast<bool>(got));
    EXPECT_TRUE(llvm::equal(*got, want,
                            [](const Step &a, const Step &b) {
                              return a.kind == b.kind && a.axes == b.axes &&
                                     a.dim == b.dim &&
                                     a.splitDim == b.splitDim &&
                                     a.after == b.after;
                            }))
        << from.toString(mesh) << " -> " << to.toString(mesh);
  };

  for (unsigned source = 0; source < placements.size(); source += stride) {
    const Placement &from = placements[source];
    std::vector<double> distances =
        getDistances(edges, source, placements.size());
    auto addends = simulate::makeAddends(shape, mesh.getSize(from.partial),
                                         source + 17 * shape.size());
    simulate::Array value = simulate::reduce(addends, reduction);
    auto start = simulate::distribute(mesh, addends, from);
    ASSERT_TRUE(simulate::holds(mesh, start, value, from));

    for (unsigned target = 0; target < placements.size(); ++target) {
      const Placement &to = placements[target];
      auto begin = std::chrono::steady_clock::now();
      auto steps = planReshard(mesh, shape, from, to, elementBytes, price);
      totals.planning += std::chrono::duration<double>(
                             std::chrono::steady_clock::now() - begin)
                             .count();
      std::string what = mesh.toString() + " " + from.toString(mesh) + " -> " +
                         to.toString(mesh);
      if (std::isinf(distances[target])) {
        // Nothing makes a value partial.
        ASSERT_FALSE(static_cast<bool>(steps)) << what;
        EXPECT_TRUE(llvm::any_of(to.partial, [&](Axis axis) {
          return !from.isPartialOver(axis);
        })) << what;
        llvm::consumeError(steps.takeError());
        ++totals.refused;
        continue;
      }
      ASSERT_TRUE(static_cast<bool>(steps)) << what;
      checkPlanner(from, to, *steps);

      auto ranks = start;
      Placement placement = from;
      double seconds = 0;
      for (const Step &step : *steps) {
        seconds +=
            getStepSeconds(mesh, shape, placement, step, elementBytes, price);
        ranks = simulate::run(mesh, ranks, step, reduction);
        ASSERT_TRUE(simulate::holds(mesh, ranks, value, step.after))
            << what << ", after " << step.toString(mesh);
        placement = step.after;
      }
      ASSERT_TRUE(placement == to) << what;
      // The planner's seconds are rounded to 2^-40, twice a step.
      ASSERT_NEAR(seconds, distances[target],
                  distances[target] * 1e-12 + 20 * std::ldexp(1, -40))
          << what;
      ++totals.pairs;
      totals.steps += steps->size();
      totals.longest = std::max<int64_t>(totals.longest, steps->size());
    }
  }
}

/// Devices joined by `inner` in fours, and by `outer` beyond.
Network makeNetwork(int64_t devices, llvm::StringRef inner,
                    llvm::StringRef outer) {
  return {devices,
          {{4, llvm::cantFail(getLink(inner))},
           {devices, llvm::cantFail(getLink(outer))}}};
}

/// Prices that pull plans into different directions.
std::vector<Pricer> getPricers(const Mesh &mesh) {
  // Bandwidth alone; latency alone; a slow first axis, as between nodes; a slow
  // last axis.
  std::vector<RingPricer> rings = {
      RingPricer(mesh, 0, {0, 1e6}), RingPricer(mesh, 1e-5, {1e-6, 1e12}),
      RingPricer(mesh, 2e-6, {1e-6, 4e8}), RingPricer(mesh, 2e-6, {1e-6, 4e8})};
  rings[2].axes.front() = {5e-6, 2e7};
  rings[3].axes.back() = {3e-6, 1e8};
  std::vector<Pricer> pricers(rings.begin(), rings.end());
  // Measured links: alike, and much faster between neighbours.
  static const Network networks[] = {
      makeNetwork(8, "shared-memory", "shared-memory"),
      makeNetwork(8, "nvlink4", "ethernet-100x4")};
  for (const Network &network : networks)
    pricers.push_back(NetworkPricer(mesh, network));
  return pricers;
}

void print(const char *what, const Totals &totals) {
  std::cout << what << ": " << totals.pairs << " pairs checked, "
            << totals.refused << " refused, " << totals.steps
            << " steps simulated, longest plan " << totals.longest
            << ", planning "
            << totals.planning * 1e6 / (totals.pairs + totals.refused)
            << " us a pair\n";
}

std::vector<Mesh> getMeshes() {
  std::vector<Mesh> meshes;
  for (int64_t a = 2; a <= 8; ++a) {
    meshes.push_back(Mesh({{"x", a}}));
    for (int64_t b = 2; a * b <= 8; ++b) {
      meshes.push_back(Mesh({{"x", a}, {"y", b}}));
      for (int64_t c = 2; a * b * c <= 8; ++c)
        meshes.push_back(Mesh({{"x", a}, {"y", b}, {"z", c}}));
    }
  }
  return meshes;
}

TEST(ReshardExhaustive, EveryPairOnEveryMeshOfUpToEightRanks) {
  std::vector<Mesh> meshes = getMeshes();
  EXPECT_EQ(meshes.size(), 13u);
  Totals totals;
  for (const Mesh &mesh : meshes)
    for (unsigned rank = 1; rank <= 3; ++rank) {
      // A shape that everything divides, and one whose last dim only the
      // smallest axis does.
      int64_t ranks = mesh.getNumRanks(), smallest = ranks;
      for (const MeshAxis &axis : mesh.getAxes())
        smallest = std::min(smallest, axis.size);
      simulate::Shape even(rank, ranks), odd(rank, ranks);
      odd.back() = smallest;
      for (const Pricer &price : getPricers(mesh)) {
        checkPairs(mesh, even, Reduction::Sum, price, totals);
        checkPairs(mesh, odd, Reduction::Max, price, totals);
      }
    }
  print("all meshes up to 8 ranks", totals);
}

TEST(ReshardExhaustive, AxesOfSizeOne) {
  Totals totals;
  for (const Mesh &mesh : {Mesh({{"x", 1}}), Mesh({{"x", 1}, {"y", 3}}),
                           Mesh({{"x", 2}, {"y", 1}, {"z", 2}})})
    for (const Pricer &price : getPricers(mesh))
      checkPairs(mesh, {mesh.getNumRanks(), 2 * mesh.getNumRanks()},
                 Reduction::Sum, price, totals);
  print("axes of size 1", totals);
}

TEST(ReshardExhaustive, FourAxesSampled) {
  Totals totals;
  Mesh mesh({{"x", 2}, {"y", 2}, {"z", 2}, {"w", 2}});
  checkPairs(mesh, {16, 4}, Reduction::Sum, getPricers(mesh)[2], totals, 40);
  print("four axes", totals);
}

} // namespace
