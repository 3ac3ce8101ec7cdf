//===- PlanReshard.cpp - Cheapest collectives between two placements ------===//
//
// Dijkstra's algorithm over placements: an edge is a step, its weight the
// step's seconds. All placements of a mesh with 3 axes and a tensor with 4 dims
// are about 300, so the search is exhaustive in microseconds. Whoever asks for
// many reshards of one tensor finds the edges, and the searches from the last
// placement, as they were left.
//
//===----------------------------------------------------------------------===//
#include "Seconds.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <queue>

using namespace cleave;
using llvm::ArrayRef;
using llvm::Twine;

namespace {

constexpr unsigned maxAxes = 8;
constexpr unsigned maxDims = 13;

/// A placement in 64 bits: a byte for each axis. Its high half says where the
/// axis is (0: nowhere, 1: partial, 2 + d: splits dim d), its low half at which
/// position of the dim's list.
struct State {
  static constexpr unsigned free = 0, partial = 1, firstDim = 2;

  uint64_t bits = 0;

  unsigned getPlace(Axis axis) const { return bits >> (8 * axis + 4) & 15; }
  unsigned getPosition(Axis axis) const { return bits >> (8 * axis) & 15; }
  void put(Axis axis, unsigned place, unsigned position = 0) {
    bits &= ~(uint64_t(255) << (8 * axis));
    bits |= uint64_t(place << 4 | position) << (8 * axis);
  }

  static State get(const Placement &placement) {
    State state;
    for (Axis axis : placement.partial)
      state.put(axis, partial);
    for (auto [dim, list] : llvm::enumerate(placement.dims))
      for (auto [position, axis] : llvm::enumerate(list))
        state.put(axis, firstDim + dim, position);
    return state;
  }
};

/// A step out of some state, small enough to be stored for each state.
struct Move {
  Step::Kind kind = Step::Kind::Slice;
  uint8_t dim = 0, splitDim = 0;
  uint8_t numAxes = 0;
  std::array<uint8_t, maxAxes> axes = {};
};

/// What is cheaper, or else simpler, comes first.
struct Cost {
  double seconds = 0;
  unsigned steps = 0; ///< collectives * 256 + slices

  auto operator<=>(const Cost &) const = default;
};

/// A step from one placement to another, by its number.
struct Edge {
  Move move;
  int to = 0;
  double seconds = 0;

  /// By axis.
  unsigned getAxes() const {
    unsigned set = 0;
    for (unsigned i = 0; i != move.numAxes; ++i)
      set |= 1u << move.axes[i];
    return set;
  }
  bool reduces() const {
    return move.kind == Step::Kind::AllReduce ||
           move.kind == Step::Kind::ReduceScatter;
  }
};

/// Which steps lead where from each placement that somebody has come to.
class Graph {
public:
  Graph(const Mesh &mesh, ArrayRef<int64_t> shape, int64_t elementBytes,
        CollectivePricer price)
      : mesh(mesh), shape(shape), elementBytes(elementBytes), price(price) {}

  int getNumber(State state) {
    auto [at, isNew] = numbers.try_emplace(state.bits, int(states.size()));
    if (isNew) {
      states.push_back(state);
      edges.emplace_back();
    }
    return at->second;
  }
  size_t size() const { return states.size(); }

  /// Valid until the next call.
  ArrayRef<Edge> getEdges(int state) {
    if (!edges[state]) {
      enter(state);
      expand();
      edges[state] = std::move(found);
    }
    return *edges[state];
  }

  const Mesh &mesh;
  const llvm::SmallVector<int64_t, 4> shape;

private:
  /// One dim, or the partial or free axes, of the state that is expanded.
  using List = llvm::SmallVector<Axis, maxAxes>;

  /// Reads a state into the members below.
  void enter(int state);
  /// Finds every edge out of the entered state.
  void expand();
  void expandSlices();
  void expandGathers();
  void expandReductions(List &chosen);
  /// Adds an edge: `axes` go to the end of dim `target`, or nowhere.
  void add(Step::Kind kind, ArrayRef<Axis> axes, unsigned dim,
           unsigned splitDim, std::optional<unsigned> target);
  bool canSplit(unsigned dim, ArrayRef<Axis> axes) const {
    return localShape[dim] % mesh.getSize(axes) == 0;
  }

  int64_t elementBytes;
  CollectivePricer price;
  std::vector<State> states;
  std::vector<std::optional<std::vector<Edge>>> edges; ///< by state
  llvm::DenseMap<uint64_t, int> numbers;

  // The entered state.
  State current;
  llvm::SmallVector<List, 4> dims;
  List partial, free;
  llvm::SmallVector<int64_t, 4> localShape;
  double localBytes = 0;
  std::vector<Edge> found;
};

/// The cheapest ways from one placement to all that stay partial along the
/// same axes, as far as they have been asked for.
class Search {
public:
  /// `staying`: the set of those axes. They cannot be reduced on the way.
  Search(Graph &graph, const Placement &from, unsigned staying)
      : graph(graph), from(from), staying(staying) {
    int first = graph.getNumber(State::get(from));
    add(first, {Cost(), -1, first, Move(), false});
  }

  std::vector<Step> getSteps(State to);

private:
  struct Node {
    Cost cost;
    int parent = -1;
    int state = 0;
    Move move; ///< from the parent to here
    bool done = false;
  };
  using Entry = std::pair<Cost, int>;

  void add(int state, const Node &node) {
    if (index.size() < graph.size())
      index.resize(graph.size(), -1);
    index[state] = int(nodes.size());
    nodes.push_back(node);
    queue.push({node.cost, index[state]});
  }
  /// Relaxes every edge out of a node.
  void expand(int node);
  std::vector<Step> follow(int last) const;

  Graph &graph;
  const Placement from;
  const unsigned staying;
  std::vector<Node> nodes;
  std::vector<int> index; ///< by state; -1: has not been come to
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
};

} // namespace

void Graph::enter(int number) {
  State state = current = states[number];
  dims.assign(shape.size(), List());
  partial.clear();
  free.clear();
  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis) {
    unsigned place = state.getPlace(axis);
    if (place == State::free) {
      free.push_back(axis);
    } else if (place == State::partial) {
      partial.push_back(axis);
    } else {
      List &list = dims[place - State::firstDim];
      unsigned position = state.getPosition(axis);
      if (list.size() <= position)
        list.resize(position + 1);
      list[position] = axis;
    }
  }
  localBytes = elementBytes;
  localShape.assign(shape.begin(), shape.end());
  for (auto [size, list] : llvm::zip_equal(localShape, dims)) {
    size /= mesh.getSize(list);
    localBytes *= size;
  }
}

void Graph::add(Step::Kind kind, ArrayRef<Axis> axes, unsigned dim,
                unsigned splitDim, std::optional<unsigned> target) {
  State state = current;
  Edge edge;
  edge.move.kind = kind;
  edge.move.dim = dim;
  edge.move.splitDim = splitDim;
  edge.move.numAxes = axes.size();
  for (auto [i, axis] : llvm::enumerate(axes)) {
    edge.move.axes[i] = axis;
    if (target)
      state.put(axis, State::firstDim + *target, dims[*target].size() + i);
    else
      state.put(axis, State::free);
  }
  edge.seconds = detail::getSeconds(mesh, kind, axes, localBytes, price);
  edge.to = getNumber(state);
  found.push_back(edge);
}

void Graph::expandSlices() {
  // One axis at a time: several are the same as one after the other, at no
  // cost, and getSteps joins them.
  for (Axis axis : free)
    for (unsigned dim = 0; dim < dims.size(); ++dim)
      if (canSplit(dim, axis))
        add(Step::Kind::Slice, axis, dim, 0, dim);
}

void Graph::expandGathers() {
  for (unsigned dim = 0; dim < dims.size(); ++dim)
    for (unsigned count = 1; count <= dims[dim].size(); ++count) {
      ArrayRef<Axis> axes = ArrayRef(dims[dim]).take_back(count);
      add(Step::Kind::AllGather, axes, dim, 0, std::nullopt);
      for (unsigned split = 0; split < dims.size(); ++split)
        if (split != dim && canSplit(split, axes))
          add(Step::Kind::AllToAll, axes, dim, split, split);
    }
}

void Graph::expandReductions(List &chosen) {
  // All ordered selections of the partial axes; the order matters only to the
  // dim that is scattered.
  for (Axis axis : partial) {
    if (llvm::is_contained(chosen, axis))
      continue;
    chosen.push_back(axis);
    if (llvm::is_sorted(chosen))
      add(Step::Kind::AllReduce, chosen, 0, 0, std::nullopt);
    for (unsigned dim = 0; dim < dims.size(); ++dim)
      if (canSplit(dim, chosen))
        add(Step::Kind::ReduceScatter, chosen, dim, 0, dim);
    expandReductions(chosen);
    chosen.pop_back();
  }
}

void Graph::expand() {
  expandSlices();
  expandGathers();
  List chosen;
  expandReductions(chosen);
}

void Search::expand(int node) {
  for (const Edge &edge : graph.getEdges(nodes[node].state)) {
    if (edge.reduces() && (edge.getAxes() & staying))
      continue;
    Cost cost = nodes[node].cost;
    cost.seconds += edge.seconds;
    cost.steps += edge.move.kind == Step::Kind::Slice ? 1 : 256;
    if (index.size() <= size_t(edge.to) || index[edge.to] < 0) {
      add(edge.to, {cost, node, edge.to, edge.move, false});
      continue;
    }
    Node &known = nodes[index[edge.to]];
    if (!(cost < known.cost))
      continue;
    known.cost = cost;
    known.parent = node;
    known.move = edge.move;
    queue.push({cost, index[edge.to]});
  }
}

std::vector<Step> Search::getSteps(State to) {
  int goal = graph.getNumber(to);
  auto isDone = [&] {
    return index.size() > size_t(goal) && index[goal] >= 0 &&
           nodes[index[goal]].done;
  };
  // Invariant: a node that is done has its final cost. Every goal is reached,
  // since all can be gathered and reduced, then sliced.
  while (!isDone()) {
    int node = queue.top().second;
    queue.pop();
    if (nodes[node].done)
      continue;
    nodes[node].done = true;
    expand(node);
  }
  return follow(index[goal]);
}

std::vector<Step> Search::follow(int last) const {
  std::vector<Step> steps;
  for (int node = last; nodes[node].parent >= 0; node = nodes[node].parent) {
    const Move &move = nodes[node].move;
    Step step;
    step.kind = move.kind;
    step.axes.assign(move.axes.begin(), move.axes.begin() + move.numAxes);
    step.dim = move.dim;
    step.splitDim = move.splitDim;
    steps.push_back(std::move(step));
  }
  std::reverse(steps.begin(), steps.end());

  // Slices in a row commute unless they cut the same dim: one for each dim.
  std::vector<Step> joined;
  size_t firstSlice = 0;
  for (Step &step : steps) {
    if (step.kind != Step::Kind::Slice) {
      joined.push_back(std::move(step));
      firstSlice = joined.size();
      continue;
    }
    auto it = std::find_if(joined.begin() + firstSlice, joined.end(),
                           [&](const Step &s) { return s.dim == step.dim; });
    if (it == joined.end())
      joined.push_back(std::move(step));
    else
      llvm::append_range(it->axes, step.axes);
  }

  Placement placement = from;
  for (Step &step : joined)
    placement = step.after =
        llvm::cantFail(applyStep(graph.mesh, graph.shape, placement, step));
  return joined;
}

struct ReshardPlanner::Impl {
  Graph graph;
  Placement from;                      ///< of the searches
  std::map<unsigned, Search> searches; ///< by the axes that stay partial
};

ReshardPlanner::ReshardPlanner(const Mesh &mesh, ArrayRef<int64_t> shape,
                               int64_t elementBytes, CollectivePricer price)
    : impl(new Impl{Graph(mesh, shape, elementBytes, price), {}, {}}) {}
ReshardPlanner::ReshardPlanner(ReshardPlanner &&) noexcept = default;
ReshardPlanner::~ReshardPlanner() = default;

llvm::Expected<std::vector<Step>> ReshardPlanner::plan(const Placement &from,
                                                       const Placement &to) {
  const Mesh &mesh = impl->graph.mesh;
  ArrayRef<int64_t> shape = impl->graph.shape;
  if (mesh.getNumAxes() > maxAxes || shape.size() > maxDims)
    return llvm::createStringError(
        Twine("resharding handles at most ") + Twine(maxAxes) + " axes and " +
        Twine(maxDims) + " dims, got " + Twine(mesh.getNumAxes()) + " and " +
        Twine(shape.size()));
  for (const Placement *placement : {&from, &to})
    if (llvm::Error error = placement->verify(mesh, shape))
      return error;
  unsigned staying = 0;
  for (Axis axis : to.partial) {
    if (!from.isPartialOver(axis))
      return llvm::createStringError(
          Twine("cannot make a value partial over axis \"") +
          mesh.getName(axis) + "\": " + from.toString(mesh) + " -> " +
          to.toString(mesh));
    staying |= 1u << axis;
  }
  if (to.isPartial() && to.reduction != from.reduction)
    return llvm::createStringError(
        Twine("cannot change the reduction of a partial value: ") +
        from.toString(mesh) + " -> " + to.toString(mesh));
  if (!(from == impl->from)) {
    impl->from = from;
    impl->searches.clear();
  }
  return impl->searches.try_emplace(staying, impl->graph, from, staying)
      .first->second.getSteps(State::get(to));
}

llvm::Expected<std::vector<Step>>
cleave::planReshard(const Mesh &mesh, ArrayRef<int64_t> globalShape,
                    const Placement &from, const Placement &to,
                    int64_t elementBytes, CollectivePricer price) {
  return ReshardPlanner(mesh, globalShape, elementBytes, price).plan(from, to);
}
