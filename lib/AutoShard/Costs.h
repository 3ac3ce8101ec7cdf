//===- Costs.h - A problem of placements as numbers -----------------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_COSTS_H
#define CLEAVE_LIB_AUTOSHARD_COSTS_H

#include "cleave/AutoShard/Choose.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <memory>
#include <unordered_map>

namespace cleave::autoshard {

constexpr double impossible = std::numeric_limits<double>::infinity();

/// To a multiple of 2^-40 s.
double roundSeconds(double seconds);

/// A placement of tensors of one shape, by its number there.
using Place = uint16_t;

/// Of numbers, to look them up in an llvm::StringMap.
template <typename Number>
llvm::StringRef asString(llvm::ArrayRef<Number> numbers) {
  return {reinterpret_cast<const char *>(numbers.data()),
          numbers.size() * sizeof(Number)};
}

/// The placements of tensors of one shape, and the seconds between them.
class Places {
public:
  /// The mesh must outlive it.
  Places(const Mesh &mesh, const PlacedTensor &one, MoveSeconds besides,
         CollectivePricer price)
      : mesh(mesh), besides(besides), price(price),
        planner(mesh, one.shape, one.elementBytes, price) {
    tensor.shape = one.shape;
    tensor.elementBytes = one.elementBytes;
  }

  Place add(const Placement &placement) {
    auto [at, isNew] = numbers.try_emplace(hash_value(placement));
    for (Place place : at->second)
      if (placements[place] == placement)
        return place;
    at->second.push_back(Place(placements.size()));
    placements.push_back(placement);
    bytes.push_back(-1);
    return at->second.back();
  }

  const Placement &get(Place place) const { return placements[place]; }
  size_t size() const { return placements.size(); }

  /// If there is no way, `impossible` of the first kind.
  const ByStepKind &getSeconds(Place from, Place to) {
    size_t all = placements.size();
    // All placements are known before the first question.
    if (seconds.size() != all * all)
      seconds.assign(all * all, {-1});
    ByStepKind &known = seconds[from * all + to];
    if (known[0] < 0)
      known = computeSeconds(placements[from], placements[to]);
    return known;
  }

  /// Of a rank's shard.
  double getBytes(Place place) {
    double &known = bytes[place];
    if (known < 0)
      known = tensor.getBytes(mesh, placements[place]);
    return known;
  }

private:
  ByStepKind computeSeconds(const Placement &from, const Placement &to);

  const Mesh &mesh;
  PlacedTensor tensor; ///< one of them, as far as all are alike
  MoveSeconds besides;
  CollectivePricer price;
  ReshardPlanner planner;
  std::vector<Placement> placements;
  std::vector<double> bytes; ///< by place; -1: nobody has asked yet
  std::unordered_map<size_t, llvm::SmallVector<Place, 1>> numbers;
  std::vector<ByStepKind> seconds; ///< by place before and place behind
};

/// The places of all tensors of a mesh, by their shapes, bytes of an element,
/// and seconds of their moves.
using PlacesByShape =
    std::map<std::tuple<std::vector<int64_t>, int64_t, MoveSeconds>, Places>;

/// Whether an op says where a parameter, its gradient or its state is for long.
inline bool isOfParameter(const PlacedOp &op) {
  return op.keeps == Keeps::Parameters || op.keeps == Keeps::Gradients ||
         op.keeps == Keeps::Optimizer;
}

/// By op of a problem: some of its strategies, by their numbers.
using StrategyLists = std::vector<std::vector<uint32_t>>;

/// What a strategy does: (tensor, place).
struct Touches {
  llvm::SmallVector<std::pair<size_t, Place>, 4> needs, makes;
};

/// Numbers for placements, and what ops and moves cost: seconds, and bytes that
/// are kept at a price.
class Costs {
public:
  /// `shapes`: of a problem that this one is a part of, if there is one.
  Costs(const ShardingProblem &problem, CollectivePricer price,
        std::shared_ptr<PlacesByShape> shapes)
      : problem(problem), price(price),
        shapes(shapes ? std::move(shapes) : std::make_shared<PlacesByShape>()) {
  }

  /// Fails if an op has no strategy.
  llvm::Error prepare();

  bool isInput(size_t tensor) const {
    return !problem.tensors[tensor].allowed.empty();
  }
  /// What it costs to have a tensor elsewhere, too.
  double getMove(size_t tensor, Place from, Place to) {
    Kind &kind = *kinds[tensor];
    double &known = kind.moves[from * kind.places->size() + to];
    if (known < 0)
      known = computeMove(tensor, from, to);
    return known;
  }
  /// What it costs to keep it there.
  double getKeep(size_t tensor, Place place);
  /// Of a rank's shard.
  double getBytes(size_t tensor, Place place) const {
    return places[tensor]->getBytes(place);
  }
  /// Where an input that is needed so is best kept, and the cost.
  std::pair<Place, double> getBestHome(size_t tensor,
                                       llvm::ArrayRef<Place> needs);

  /// Seconds of a step that it takes to have a tensor elsewhere, too, as far as
  /// they count.
  double getMoveSeconds(size_t tensor, Place from, Place to);

  /// Equal of tensors whose moves cost the same.
  const void *getKind(size_t tensor) const { return kinds[tensor]; }

  double getByteCost() const { return byteCost; }
  void setByteCost(double seconds);
  /// By tensor: the share of its moves' seconds that counts, by kinds of steps.
  /// All of them, if nothing is said.
  void setExposed(const std::vector<ByStepKind> &shares);

  std::shared_ptr<PlacesByShape> getShapes() const { return shapes; }

  const ShardingProblem &problem;
  std::vector<Places *> places; ///< by tensor
  /// By tensor: where an input may be, or its op may make it.
  std::vector<llvm::SmallVector<Place, 8>> homes;
  std::vector<std::vector<Touches>> touches; ///< by op and strategy
  std::vector<std::vector<double>> seconds;  ///< likewise
  /// By op: strategies whose inputs can be where they need them.
  StrategyLists usable;
  /// By op: those of them that need no partial sums. A choice of such can
  /// always be completed: what is whole gets everywhere, and all else becomes
  /// whole.
  StrategyLists plain;
  /// By tensor: an input that is had everywhere at no cost.
  std::vector<bool> isFree;

private:
  /// Tensors that cost the same.
  struct Kind {
    Places *places = nullptr;
    /// By place before and place behind: what a move costs; -1: nobody has
    /// asked yet.
    std::vector<double> moves;
  };

  bool isFreeInput(size_t tensor);
  double computeMove(size_t tensor, Place from, Place to);

  CollectivePricer price;
  double byteCost = 0;       ///< seconds
  std::vector<Kind *> kinds; ///< by tensor
  /// By shape, how often a tensor is moved and kept, and what counts of that.
  std::map<std::tuple<Places *, double, double, ByStepKind>, Kind> kindsByCost;
  std::vector<ByStepKind> exposed; ///< by tensor, or nothing
  std::shared_ptr<PlacesByShape> shapes;
};

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_COSTS_H
