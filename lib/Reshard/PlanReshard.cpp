//===- PlanReshard.cpp - Cheapest collectives between two placements ------===//
//
// Dijkstra's algorithm over placements: an edge is a step, its weight the
// step's seconds. All placements of a mesh with 3 axes and a tensor with 4 dims
// are about 300, so the search is exhaustive in microseconds.
//
//===----------------------------------------------------------------------===//
#include "Seconds.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
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

struct Node {
  State state;
  Cost cost;
  int parent = -1;
  Move move; ///< from the parent to here
  bool done = false;
};

class Planner {
public:
  Planner(const Mesh &mesh, ArrayRef<int64_t> shape, const Placement &from,
          const Placement &to, int64_t elementBytes, CollectivePricer price)
      : mesh(mesh), shape(shape), from(from), to(to),
        elementBytes(elementBytes), price(price) {}

  std::vector<Step> run();

private:
  /// One dim, or the partial or free axes, of the state that is expanded.
  using List = llvm::SmallVector<Axis, maxAxes>;

  /// Reads the state of node `index` into the members below.
  void enter(int index);
  /// Relaxes every edge out of the entered node.
  void expand();
  void expandSlices();
  void expandGathers();
  void expandReductions(List &chosen);
  /// Relaxes one edge: `axes` go to the end of dim `target`, or nowhere.
  void relax(Step::Kind kind, ArrayRef<Axis> axes, unsigned dim,
             unsigned splitDim, std::optional<unsigned> target);
  bool canSplit(unsigned dim, ArrayRef<Axis> axes) const {
    return localShape[dim] % mesh.getSize(axes) == 0;
  }
  std::vector<Step> getSteps(int last) const;

  const Mesh &mesh;
  ArrayRef<int64_t> shape;
  const Placement &from, &to;
  int64_t elementBytes;
  CollectivePricer price;

  std::vector<Node> nodes;
  llvm::DenseMap<uint64_t, int> index;
  using Entry = std::pair<Cost, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;

  // The entered node.
  int current = 0;
  llvm::SmallVector<List, 4> dims;
  List partial, free;
  llvm::SmallVector<int64_t, 4> localShape;
  double localBytes = 0;
};

} // namespace

void Planner::enter(int node) {
  current = node;
  State state = nodes[node].state;
  dims.assign(shape.size(), List());
  partial.clear();
  free.clear();
  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis) {
    unsigned place = state.getPlace(axis);
    if (place == State::free) {
      free.push_back(axis);
    } else if (place == State::partial) {
      // What stays partial to the end cannot be reduced on the way.
      if (!to.isPartialOver(axis))
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

void Planner::relax(Step::Kind kind, ArrayRef<Axis> axes, unsigned dim,
                    unsigned splitDim, std::optional<unsigned> target) {
  State state = nodes[current].state;
  Move move;
  move.kind = kind;
  move.dim = dim;
  move.splitDim = splitDim;
  move.numAxes = axes.size();
  for (auto [i, axis] : llvm::enumerate(axes)) {
    move.axes[i] = axis;
    if (target)
      state.put(axis, State::firstDim + *target, dims[*target].size() + i);
    else
      state.put(axis, State::free);
  }
  Cost cost = nodes[current].cost;
  cost.seconds += detail::getSeconds(mesh, kind, axes, localBytes, price);
  cost.steps += kind == Step::Kind::Slice ? 1 : 256;

  auto [it, isNew] = index.try_emplace(state.bits, nodes.size());
  if (isNew)
    nodes.push_back({state, cost, current, move, false});
  else if (Node &node = nodes[it->second]; cost < node.cost) {
    node.cost = cost;
    node.parent = current;
    node.move = move;
  } else
    return;
  queue.push({cost, it->second});
}

void Planner::expandSlices() {
  // One axis at a time: several are the same as one after the other, at no
  // cost, and getSteps joins them.
  for (Axis axis : free)
    for (unsigned dim = 0; dim < dims.size(); ++dim)
      if (canSplit(dim, axis))
        relax(Step::Kind::Slice, axis, dim, 0, dim);
}

void Planner::expandGathers() {
  for (unsigned dim = 0; dim < dims.size(); ++dim)
    for (unsigned count = 1; count <= dims[dim].size(); ++count) {
      ArrayRef<Axis> axes = ArrayRef(dims[dim]).take_back(count);
      relax(Step::Kind::AllGather, axes, dim, 0, std::nullopt);
      for (unsigned split = 0; split < dims.size(); ++split)
        if (split != dim && canSplit(split, axes))
          relax(Step::Kind::AllToAll, axes, dim, split, split);
    }
}

void Planner::expandReductions(List &chosen) {
  // All ordered selections of the partial axes; the order matters only to the
  // dim that is scattered.
  for (Axis axis : partial) {
    if (llvm::is_contained(chosen, axis))
      continue;
    chosen.push_back(axis);
    if (llvm::is_sorted(chosen))
      relax(Step::Kind::AllReduce, chosen, 0, 0, std::nullopt);
    for (unsigned dim = 0; dim < dims.size(); ++dim)
      if (canSplit(dim, chosen))
        relax(Step::Kind::ReduceScatter, chosen, dim, 0, dim);
    expandReductions(chosen);
    chosen.pop_back();
  }
}

void Planner::expand() {
  expandSlices();
  expandGathers();
  List chosen;
  expandReductions(chosen);
}

std::vector<Step> Planner::run() {
  uint64_t goal = State::get(to).bits;
  nodes.push_back({State::get(from), Cost(), -1, Move(), false});
  index[nodes[0].state.bits] = 0;
  queue.push({Cost(), 0});
  // Invariant: a node that is done has its final cost. Every goal is reached,
  // since all can be gathered and reduced, then sliced.
  while (true) {
    int node = queue.top().second;
    queue.pop();
    if (nodes[node].done)
      continue;
    nodes[node].done = true;
    if (nodes[node].state.bits == goal)
      return getSteps(node);
    enter(node);
    expand();
  }
}

std::vector<Step> Planner::getSteps(int last) const {
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
        llvm::cantFail(applyStep(mesh, shape, placement, step));
  return joined;
}

llvm::Expected<std::vector<Step>>
cleave::planReshard(const Mesh &mesh, ArrayRef<int64_t> globalShape,
                    const Placement &from, const Placement &to,
                    int64_t elementBytes, CollectivePricer price) {
  if (mesh.getNumAxes() > maxAxes || globalShape.size() > maxDims)
    return llvm::createStringError(
        Twine("resharding handles at most ") + Twine(maxAxes) + " axes and " +
        Twine(maxDims) + " dims, got " + Twine(mesh.getNumAxes()) + " and " +
        Twine(globalShape.size()));
  for (const Placement *placement : {&from, &to})
    if (llvm::Error error = placement->verify(mesh, globalShape))
      return error;
  for (Axis axis : to.partial)
    if (!from.isPartialOver(axis))
      return llvm::createStringError(
          Twine("cannot make a value partial over axis \"") +
          mesh.getName(axis) + "\": " + from.toString(mesh) + " -> " +
          to.toString(mesh));
  if (to.isPartial() && to.reduction != from.reduction)
    return llvm::createStringError(
        Twine("cannot change the reduction of a partial value: ") +
        from.toString(mesh) + " -> " + to.toString(mesh));
  return Planner(mesh, globalShape, from, to, elementBytes, price).run();
}
