//===- Chooser.h - The search for the cheapest placements -----------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_CHOOSER_H
#define CLEAVE_LIB_AUTOSHARD_CHOOSER_H

#include "Potentials.h"
#include "Repeats.h"
#include "States.h"
#include "Styles.h"
#include "cleave/AutoShard/Moves.h"
#include "llvm/ADT/STLExtras.h"
#include <memory>

namespace cleave::autoshard {

class Shares;

constexpr size_t none = ~size_t(0);

/// Of bounds, which are sums in another order than costs.
constexpr double slack = 1e-9;

/// Of a choice: nobody has looked for a bound.
constexpr double unbounded = -std::numeric_limits<double>::infinity();

/// Sorts by what `get` says of each, ascending; equal ones keep their order.
template <typename Item, typename Get>
void sortBy(std::vector<Item> &items, Get get) {
  using Value = std::decay_t<decltype(get(items.front()))>;
  std::vector<std::pair<Value, size_t>> order;
  for (size_t i = 0; i != items.size(); ++i)
    order.push_back({get(items[i]), i});
  llvm::sort(order);
  std::vector<Item> sorted;
  for (const auto &[value, i] : order)
    sorted.push_back(std::move(items[i]));
  items = std::move(sorted);
}

/// A tensor between the ops that have been and those to come.
struct Slot {
  size_t tensor = 0;
  bool isMade = false; ///< by an op that has been
  unsigned later = 0;  ///< so many ops to come need it
};

/// How a search came to a state.
struct Link {
  uint32_t from, strategy;
};

/// A tensor that an op reads or makes: its slots before and behind it.
struct Touched {
  size_t tensor = 0;
  size_t before = none, behind = none;
  bool wasMade = false, isMade = false;
};

/// What an op can do where its tensors are in some states: one state of those
/// that lie behind it for each way in which it can leave them. By what a state
/// says of the tensors that the op touches.
using Outcomes = llvm::StringMap<States>;

/// A state behind an op that a search may keep.
struct Candidate {
  double bound = 0, cost = 0;
  uint32_t from = 0;    ///< the state before the op
  uint32_t outcome = 0; ///< of that state's

  auto operator<=>(const Candidate &) const = default;
};

class Chooser {
public:
  /// `shapes`: of a problem that this one is a part of, if there is one.
  Chooser(const ShardingProblem &problem, CollectivePricer price,
          size_t mostStates, std::shared_ptr<PlacesByShape> shapes = nullptr)
      : problem(problem), price(price), mostStates(mostStates),
        costs(problem, price, std::move(shapes)), limit(problem.memory),
        leavesRoom(problem.holdsTemporaries) {}

  llvm::Expected<ShardingChoice> run(const BesideCompute &beside);
  llvm::Expected<std::vector<ShardingChoice>> computeFront(size_t most);
  std::vector<std::optional<ShardingChoice>>
  getAlternatives(const ShardingChoice &choice, size_t op);

private:
  /// One of which what is kept fits into `limit`.
  llvm::Expected<ShardingChoice> choose();
  llvm::Expected<ShardingChoice> searchPrices();
  std::optional<ShardingChoice> searchWithin(const ShardingChoice &known);
  /// What no choice that fits takes less than.
  double getLeastSeconds(const ShardingChoice &best);
  std::pair<std::optional<ShardingChoice>, std::optional<ShardingChoice>>
  getKnownEnds();
  std::optional<ShardingChoice> findSmall(const ShardingChoice &fast);
  llvm::Error failToFit(const ShardingChoice &small) const;
  llvm::Expected<ShardingChoice> chooseWithTemporaries();
  double leaveRoom(const ShardingChoice &choice, llvm::ArrayRef<Move> moves);
  void setExposed(const std::vector<ByStepKind> &shares);
  struct Timed;
  struct Recipe;
  Timed time(ShardingChoice choice, const Shares &shares,
             const BesideCompute &beside);
  double estimateBeside(const ShardingChoice &choice,
                        const BesideCompute &beside);
  std::vector<ShardingChoice>
  getPromising(const Shares &shares, const ShardingChoice &best,
               const BesideCompute &beside,
               llvm::function_ref<bool(const ShardingChoice &)> isNew);
  llvm::Error prepare();
  /// The same without equal parts.
  llvm::Error begin();
  void order();
  void findGroups();
  /// Of the choice with the least cost, a byte that is kept costing
  /// `secondsPerByte`; its bound is one of costs.
  llvm::Expected<ShardingChoice> solve(double secondsPerByte);
  States decide(size_t step, const States &states, double upper, size_t width,
                std::optional<uint32_t> only);
  std::optional<ShardingChoice> search(size_t width, double upper);
  void polish(ShardingChoice &choice);
  /// Into `key`, the whereabouts behind a step of the tensors that its op
  /// touches, where it takes that strategy; `before` are those before it.
  /// `cost` is told of what that takes besides the op's seconds.
  template <typename Cost>
  void apply(size_t step, Key before, uint32_t strategy,
             llvm::SmallVectorImpl<uint32_t> &key, Cost &cost);
  States getOutcomes(size_t step, Key before,
                     llvm::ArrayRef<uint32_t> strategies);
  States keep(size_t step, const States &states,
              llvm::ArrayRef<const States *> outcomes, size_t width);
  bool isMetBy(llvm::ArrayRef<Slot> cut, Key better, Key key, double cost);
  double getMost(size_t tensor, Place need);
  void boundRests();
  void boundBy(const ShardingChoice &choice);
  double getRest(size_t step, size_t slot, uint32_t number);
  /// Sets seconds and bytes from the strategies; returns where each tensor is.
  std::vector<Place> count(ShardingChoice &choice);
  /// Sets placements, too.
  void finish(ShardingChoice &choice);
  /// Sets placements where inputs are best at the price of a byte at which it
  /// was chosen.
  void finishAtItsPrice(ShardingChoice &choice) {
    costs.setByteCost(choice.byteSeconds);
    finish(choice);
  }
  /// Of the part that stands for all, if there is one.
  Chooser &getSearcher() { return tied ? *tied : *this; }
  /// For the whole problem what that has come to; nobody has looked for its
  /// bound.
  ShardingChoice getWhole(const ShardingChoice &searched);
  std::optional<ShardingChoice> expand(const ShardingChoice &part);
  ShardingChoice untie(const ShardingChoice &part);
  ShardingChoice tie(const ShardingChoice &whole);
  std::optional<ShardingChoice> improveTied(const ShardingChoice &whole);
  ShardingChoice reduceChoice(const ShardingChoice &whole);
  std::optional<ShardingChoice> refine(llvm::ArrayRef<ShardingChoice> wholes);
  void setPrice(double secondsPerByte);
  void beginNarrowly();
  void endNarrowly();
  llvm::Expected<ShardingChoice> searchNarrowly(size_t width);
  llvm::Expected<ShardingChoice> solveNarrowly(size_t width);
  std::optional<ShardingChoice> solveReduced();
  std::vector<ShardingChoice> getKnown(size_t most);
  void fill(const ShardingChoice &fast, const ShardingChoice &small,
            ShardingChoice &best);
  void findFew();
  /// Says how much better another of the same cost of a byte could be, where
  /// that is `unbounded` yet.
  void bound(ShardingChoice &choice);
  void sortRecipes();
  bool takeOutDead(StrategyLists &own);
  void searchRecipes();
  std::optional<ShardingChoice> searchBy(std::shared_ptr<Potentials> own,
                                         const StrategyLists &ownLists,
                                         size_t width, double upper);
  std::optional<ShardingChoice> searchIn(const StrategyLists &own, size_t width,
                                         const ShardingChoice *least = nullptr);
  bool searchRecipe(Recipe &recipe, size_t width);
  void addRecipes(std::vector<ShardingChoice> &starts, size_t most) const;
  std::vector<ShardingChoice> getStarts(size_t width);
  void keepApart(std::vector<ShardingChoice> &choices, size_t most) const;
  void keepBest(std::vector<ShardingChoice> &choices, size_t most) const;
  const ShardingChoice &
  getCheapest(llvm::ArrayRef<ShardingChoice> choices) const;
  ShardingChoice fuse(llvm::ArrayRef<ShardingChoice> choices, size_t width);
  ShardingChoice improve(ShardingChoice choice, size_t width);
  double getCost(const ShardingChoice &choice) const {
    return choice.seconds + costs.getByteCost() * choice.bytes;
  }

  const ShardingProblem &problem;
  CollectivePricer price;
  size_t mostStates;
  Costs costs;
  double limit;    ///< bytes for what is kept: all but what ops need besides
  bool leavesRoom; ///< for that
  /// By tensor and need: cost from the home that is furthest away, or -1 if
  /// nobody has asked yet.
  std::vector<std::vector<double>> most;
  std::vector<size_t> steps; ///< ops, in the order in which they are decided
  /// By step: the tensors between those before it and the others; and none, at
  /// the end.
  std::vector<std::vector<Slot>> cuts;
  std::vector<std::vector<Touched>> touched; ///< by step
  /// By step: the slots before it that its op leaves alone; these come first
  /// behind it, in the same order.
  std::vector<llvm::SmallVector<size_t, 16>> untouched;
  std::vector<std::vector<size_t>> groups; ///< of steps, see findGroups
  WhereaboutsNumbers whereabouts;
  std::vector<Candidate> candidates; ///< of one step; kept for its memory
  /// By step; while choices are polished, which comes to the same ones often.
  std::vector<Outcomes> outcomes;
  /// By step: what the ops from there on take at least; besides, by slot, what
  /// is to be added for its place, if it is made, or else for that of each op
  /// that needs it.
  std::vector<double> rest;
  std::vector<std::vector<std::vector<double>>> restMade;
  std::vector<std::vector<std::vector<std::vector<double>>>> restNeeded;
  std::vector<std::vector<double>> restShares; ///< Potentials::getShare
  /// Those that `rest` is of; and those of `few`, which go on at other prices.
  std::shared_ptr<Potentials> potentials, ofFew;
  /// The problem with fewer of its equal parts, if it has many.
  std::optional<Reduced> reduced;
  std::unique_ptr<Chooser> tied;  ///< of one part that stands for all
  std::unique_ptr<Chooser> inner; ///< of a few parts
  bool looksForBounds = true;
  size_t failedAt = 0;    ///< the op where the last search failed
  bool leavesOut = false; ///< whether it left out states
  /// By op: the strategies that a search keeps to.
  const StrategyLists *lists = &costs.usable;
  const StrategyLists *base = &costs.usable; ///< where nothing else is said
  StrategyLists few;                         ///< those of a narrow search
  size_t timesFound = 0;                     ///< at so many prices
  size_t timesExposed = 0;                   ///< that shares were set
  /// By op: its strategy, where a search is not free; or nothing at all.
  std::vector<std::optional<uint32_t>> fixed;
  /// What the last narrow search came to, from each of its starts.
  std::vector<ShardingChoice> found;
  /// Styles, and what those of their recipes come to that can be done; nothing:
  /// nobody has looked yet.
  struct Recipe {
    Styles::Recipe recipe;
    ShardingChoice choice; ///< the best at some price of a byte
    std::shared_ptr<Potentials> potentials; ///< which refer to the lists
  };
  std::optional<Styles> styles;
  std::vector<std::unique_ptr<Recipe>> recipes;
  /// What narrow searches came to at all prices of a byte.
  std::vector<ShardingChoice> known;
  /// And at the last price, at which what fits and what does not are equal.
  std::optional<ShardingChoice> priced;
  /// Nothing within `limit` takes less than what was chosen.
  bool isLeast = false;
};

template <typename Cost>
void Chooser::apply(size_t step, Key before, uint32_t strategy,
                    llvm::SmallVectorImpl<uint32_t> &key, Cost &cost) {
  const Touches &own = costs.touches[steps[step]][strategy];
  key.clear();
  size_t at = 0;
  for (const Touched &one : touched[step]) {
    size_t tensor = one.tensor;
    Whereabouts where;
    if (one.before != none)
      where = whereabouts[before[at++]];
    auto &[made, needs] = where;
    for (auto [operand, need] : own.needs) {
      auto position = llvm::lower_bound(needs, need);
      if (operand != tensor || (one.wasMade && need == made) ||
          (position != needs.end() && *position == need))
        continue;
      if (one.wasMade)
        cost.move(tensor, made, need);
      needs.insert(position, need);
    }
    for (auto [result, place] : own.makes)
      if (result == tensor) {
        made = place;
        cost.keep(tensor, made);
        llvm::erase(needs, made);
        for (Place need : needs)
          cost.move(tensor, made, need);
      }
    if (one.behind != none)
      key.push_back(whereabouts.get(made, needs));
    else if (costs.isInput(tensor))
      cost.end(tensor, needs);
  }
}

/// Whether one of these does the same.
inline bool isIn(const ShardingChoice &choice,
                 llvm::ArrayRef<ShardingChoice> all) {
  return llvm::any_of(all, [&](const ShardingChoice &other) {
    return other.strategies == choice.strategies;
  });
}

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_CHOOSER_H
