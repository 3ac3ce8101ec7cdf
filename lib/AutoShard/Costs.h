//===- Costs.h - A problem of placements as numbers -----------------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_COSTS_H
#define CLEAVE_LIB_AUTOSHARD_COSTS_H

#include "cleave/AutoShard/Choose.h"
#include <map>
#include <unordered_map>

namespace cleave::autoshard {

constexpr double impossible = std::numeric_limits<double>::infinity();

/// To a multiple of 2^-40 s.
double roundSeconds(double seconds);

/// A placement of tensors of one shape, by its number there.
using Place = uint16_t;

/// The placements of tensors of one shape, and the seconds between them.
class Places {
public:
  explicit Places(const PlacedTensor &tensor) : tensor(tensor) {}

  Place add(const Placement &placement) {
    auto [at, isNew] = numbers.try_emplace(hash_value(placement));
    for (Place place : at->second)
      if (placements[place] == placement)
        return place;
    at->second.push_back(Place(placements.size()));
    placements.push_back(placement);
    return at->second.back();
  }

  const Placement &get(Place place) const { return placements[place]; }
  size_t size() const { return placements.size(); }

  double getSeconds(const Mesh &mesh, CollectivePricer price, Place from,
                    Place to) {
    size_t all = placements.size();
    // All placements are known before the first question.
    if (seconds.size() != all * all)
      seconds.assign(all * all, -1);
    double &known = seconds[from * all + to];
    if (known < 0)
      known = getReshardSeconds(mesh, tensor, placements[from], placements[to],
                                price)
                  .value_or(impossible);
    return known;
  }

  /// Of a rank's shard.
  double getBytes(const Mesh &mesh, Place place) const {
    return tensor.getBytes(mesh, placements[place]);
  }

private:
  const PlacedTensor &tensor; ///< one of them
  std::vector<Placement> placements;
  std::unordered_map<size_t, llvm::SmallVector<Place, 1>> numbers;
  std::vector<double> seconds;
};

/// What a strategy does: (tensor, place).
struct Touches {
  llvm::SmallVector<std::pair<size_t, Place>, 4> needs, makes;
};

/// Numbers for placements, and what ops and moves cost: seconds, and bytes that
/// are kept at a price.
class Costs {
public:
  Costs(const ShardingProblem &problem, CollectivePricer price)
      : problem(problem), price(price) {}

  /// Fails if an op has no strategy.
  llvm::Error prepare();

  bool isInput(size_t tensor) const {
    return !problem.tensors[tensor].allowed.empty();
  }
  double getReshard(size_t tensor, Place from, Place to) {
    return places[tensor]->getSeconds(problem.mesh, price, from, to);
  }
  /// What it costs to have a tensor elsewhere, too.
  double getMove(size_t tensor, Place from, Place to);
  /// What it costs to keep it there.
  double getKeep(size_t tensor, Place place);
  /// Of a rank's shard.
  double getBytes(size_t tensor, Place place) const {
    return places[tensor]->getBytes(problem.mesh, place);
  }
  /// Where an input that is needed so is best kept, and the cost.
  std::pair<Place, double> getBestHome(size_t tensor,
                                       llvm::ArrayRef<Place> needs);

  const ShardingProblem &problem;
  double byteCost = 0;          ///< seconds
  std::vector<Places *> places; ///< by tensor
  /// By tensor: where an input may be, or its op may make it.
  std::vector<llvm::SmallVector<Place, 8>> homes;
  std::vector<std::vector<Touches>> touches; ///< by op and strategy
  std::vector<std::vector<double>> seconds;  ///< likewise
  /// By op: strategies whose inputs can be where they need them.
  std::vector<std::vector<uint32_t>> usable;
  /// By op: those of them that need no partial sums. A choice of such can
  /// always be completed: what is whole gets everywhere, and all else becomes
  /// whole.
  std::vector<std::vector<uint32_t>> plain;
  /// By style and op, see Styles.h.
  std::vector<std::vector<std::vector<uint32_t>>> styled;
  /// By tensor: an input that is had everywhere at no cost.
  std::vector<bool> isFree;

private:
  bool isFreeInput(size_t tensor);

  CollectivePricer price;
  std::map<std::pair<std::vector<int64_t>, int64_t>, Places> shapes;
};

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_COSTS_H
