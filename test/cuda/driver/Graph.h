//===- Graph.h - What a capture holds -------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_GRAPH_H
#define CLEAVE_TEST_CUDA_DRIVER_GRAPH_H

#include "test/cuda/driver/Scheduler.h"
#include <thread>

namespace cleave::simulated {

/// Operations, and which come behind which. In the order of their capture, so a
/// node waits for earlier ones only.
struct Graph {
  struct Node {
    std::shared_ptr<const Work> work;
    std::vector<size_t> waits;
    size_t lane; ///< of `lanes`: those of one stream, one behind the other
    void *event = nullptr; ///< that its execution records; it has no work then
  };
  /// A stream that took part.
  struct Part {
    std::string name;
    int device;
  };
  std::vector<Node> nodes;
  std::vector<Part> lanes;

  /// Whether each of `ends` is one of `from`, or comes before one of them.
  bool isReached(const std::vector<size_t> &from,
                 const std::vector<size_t> &ends) const;
};

struct Stream;

/// A capture that goes on. It has an origin and all streams that waited for an
/// event of it since; each of them has the nodes that its next one waits for.
struct Capture {
  uint64_t number = 0;
  Stream *origin = nullptr;
  std::thread::id thread;
  bool isValid = true;
  Graph graph;
  std::vector<Stream *> streams; ///< as graph.lanes
};

/// A graph that can be launched. Its launches run one after the other.
struct GraphExec {
  Graph graph;
  Id lastLaunch = 0;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_GRAPH_H
