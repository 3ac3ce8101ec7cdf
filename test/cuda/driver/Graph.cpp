//===- Graph.cpp ----------------------------------------------------------===//
#include "test/cuda/driver/Graph.h"
#include <algorithm>

using namespace cleave::simulated;

bool Graph::isReached(const std::vector<size_t> &from,
                      const std::vector<size_t> &ends) const {
  std::vector<bool> reached(nodes.size());
  for (size_t node : from)
    reached[node] = true;
  for (size_t node = nodes.size(); node-- > 0;)
    if (reached[node])
      for (size_t earlier : nodes[node].waits)
        reached[earlier] = true;
  return std::ranges::all_of(ends, [&](size_t node) { return reached[node]; });
}
