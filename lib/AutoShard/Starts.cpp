//===- Starts.cpp - Where a search begins, and what follows it ------------===//
//
// A search of few states comes to a choice that is good, but not near to the
// best: what it comes to depends on where it begins. So it begins in several
// places, recipes and styles among them, and makes what it found better a few
// ops at a time.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

/// That searches begin with.
constexpr size_t mostRecipes = 2;

/// Takes out strategies that need what no strategy of its maker leads to, such
/// as a partial sum of what is whole. False if an op has none left.
bool Chooser::takeOutDead(StrategyLists &own) {
  std::vector<size_t> makers(problem.tensors.size(), none);
  for (auto [number, op] : llvm::enumerate(problem.ops))
    for (size_t tensor : op.results)
      makers[tensor] = number;
  auto isMet = [&](size_t op, std::pair<size_t, Place> touch) {
    auto [tensor, need] = touch;
    size_t maker = makers[tensor];
    if (maker == none || maker == op)
      return true;
    return llvm::any_of(own[maker], [&, tensor = tensor,
                                     need = need](uint32_t strategy) {
      return llvm::any_of(costs.touches[maker][strategy].makes, [&](auto made) {
        return made.first == tensor &&
               costs.getMove(tensor, made.second, need) != impossible;
      });
    });
  };
  bool isChanged = true;
  while (isChanged) {
    isChanged = false;
    for (auto [op, list] : llvm::enumerate(own)) {
      size_t before = list.size();
      llvm::erase_if(list, [&, op = op](uint32_t strategy) {
        return llvm::any_of(costs.touches[op][strategy].needs,
                            [&](auto touch) { return !isMet(op, touch); });
      });
      if (list.empty())
        return false;
      isChanged |= list.size() < before;
    }
  }
  return true;
}

/// The best choice in lists of no more than `upper`, by bounds that hold for
/// nothing else, so that they are near.
std::optional<ShardingChoice> Chooser::searchBy(std::shared_ptr<Potentials> own,
                                                const StrategyLists &ownLists,
                                                size_t width, double upper) {
  potentials.swap(own);
  boundRests();
  lists = &ownLists;
  std::optional<ShardingChoice> choice = search(width, upper);
  lists = base;
  potentials.swap(own);
  return choice;
}

/// With `least`, one of them, of no more than that costs.
std::optional<ShardingChoice> Chooser::searchIn(const StrategyLists &own,
                                                size_t width,
                                                const ShardingChoice *least) {
  auto bounds = std::make_shared<Potentials>(costs, steps, own);
  if (least)
    bounds->follow(*least);
  return searchBy(std::move(bounds), own, width,
                  least ? getCost(*least) : impossible);
}

/// What a recipe comes to at the price of a byte, if that is better than what
/// it has come to; false if it comes to nothing.
bool Chooser::searchRecipe(Recipe &recipe, size_t width) {
  const StrategyLists &own = recipe.recipe.lists;
  if (recipe.potentials)
    recipe.potentials->update();
  else
    recipe.potentials = std::make_shared<Potentials>(costs, steps, own);
  std::optional<ShardingChoice> choice =
      searchBy(recipe.potentials, own, width, impossible);
  bool isFirst = recipe.choice.strategies.empty();
  if (choice && (isFirst || getCost(*choice) < getCost(recipe.choice)))
    recipe.choice = std::move(*choice);
  return choice || !isFirst;
}

/// What recipes come to at the price of a byte, the best one first: all of
/// them, where nobody has looked yet, or those that were the best.
void Chooser::searchRecipes() {
  constexpr size_t width = 16, most = 6;
  if (!styles) {
    styles.emplace(problem, costs.usable);
    for (Styles::Recipe &each : styles->getRecipes())
      if (takeOutDead(each.lists)) {
        auto recipe = std::make_unique<Recipe>();
        recipe->recipe = std::move(each);
        if (searchRecipe(*recipe, width))
          recipes.push_back(std::move(recipe));
      }
  } else {
    sortRecipes();
    for (size_t i = 0; i != std::min(recipes.size(), most); ++i)
      searchRecipe(*recipes[i], width);
  }
  sortRecipes();
}

void Chooser::sortRecipes() {
  for (const auto &recipe : recipes)
    count(recipe->choice);
  sortBy(recipes, [&](const auto &each) { return getCost(each->choice); });
}

/// The recipes that cost least.
void Chooser::addRecipes(std::vector<ShardingChoice> &starts,
                         size_t most) const {
  for (size_t i = 0; i != std::min(recipes.size(), most); ++i)
    if (!isIn(recipes[i]->choice, starts))
      starts.push_back(recipes[i]->choice);
}

/// What styles, recipes and other prices of a byte have led to.
std::vector<ShardingChoice> Chooser::getStarts(size_t width) {
  constexpr size_t mostKnown = 4, mostStyles = 6;
  std::vector<ShardingChoice> starts = known;
  searchRecipes();
  addRecipes(starts, mostRecipes);
  if (known.size() < mostKnown)
    for (size_t i = 0; i != std::min(recipes.size(), mostStyles); ++i)
      if (auto styled =
              searchIn(styles->getStyle(recipes[i]->recipe.style), width))
        starts.push_back(std::move(*styled));
  boundRests();
  return starts;
}

/// Whether both do the same but for a few ops: what is made better of the one
/// is what would be of the other.
static bool areNear(const ShardingChoice &a, const ShardingChoice &b) {
  constexpr size_t few = 12; ///< one op of so many
  size_t different = 0;
  for (auto [left, right] : llvm::zip_equal(a.strategies, b.strategies))
    different += left != right;
  return different * few < a.strategies.size();
}

/// Leaves the cheapest of those that are not near to a cheaper one, the best
/// one first.
void Chooser::keepApart(std::vector<ShardingChoice> &choices,
                        size_t most) const {
  keepBest(choices, choices.size());
  std::vector<ShardingChoice> apart;
  for (ShardingChoice &each : choices)
    if (apart.size() < most &&
        llvm::none_of(apart, [&](const ShardingChoice &other) {
          return areNear(each, other);
        }))
      apart.push_back(std::move(each));
  choices = std::move(apart);
}

/// Leaves the cheapest, the best one first.
void Chooser::keepBest(std::vector<ShardingChoice> &choices,
                       size_t most) const {
  sortBy(choices, [&](const ShardingChoice &each) { return getCost(each); });
  choices.resize(std::min(choices.size(), most));
}

/// What a narrow search comes to; fails where there is nothing.
llvm::Expected<ShardingChoice> Chooser::searchNarrowly(size_t width) {
  std::optional<ShardingChoice> choice = search(width, impossible);
  // Where all that it kept came to no end, a choice without partial sums does.
  if (!choice && leavesOut) {
    lists = &costs.plain;
    choice = search(width, impossible);
    lists = base;
    if (choice)
      choice->bound = std::min(potentials->getBound(), getCost(*choice));
  }
  for (; !choice && leavesOut; width *= 8)
    choice = search(width * 8, impossible);
  if (!choice)
    return llvm::createStringError(
        problem.ops[failedAt].name +
        ": no strategy gives what the ops that use it need");
  return std::move(*choice);
}

/// A choice that is good: the best of some, polished.
llvm::Expected<ShardingChoice> Chooser::solveNarrowly(size_t width) {
  // What was good at other prices of a byte is nearly good at this one.
  constexpr size_t enough = 4, most = 4, mostLater = 2;
  const bool isFirst = known.size() < enough;
  double bound = potentials->getBound();
  std::vector<ShardingChoice> starts;
  if (isFirst) {
    llvm::Expected<ShardingChoice> choice = searchNarrowly(width);
    if (!choice)
      return choice;
    bound = choice->bound;
    starts = {std::move(*choice)};
  }
  if (!isFirst || bound < getCost(starts[0]))
    llvm::append_range(starts, getStarts(width));
  if (isFirst)
    keepBest(starts, most);
  else
    keepApart(starts, mostLater);
  found.clear();
  // What is known by now helps the others, too, however good they are.
  for (ShardingChoice &start : starts) {
    start.bound = std::min(bound, getCost(start));
    potentials->follow(start);
    boundRests();
    found.push_back(improve(std::move(start), width));
    bound = std::max(bound, found.back().bound);
  }
  for (const ShardingChoice &each : found)
    if (!isIn(each, known))
      known.push_back(each);
  return getCheapest(found);
}

const ShardingChoice &
Chooser::getCheapest(llvm::ArrayRef<ShardingChoice> choices) const {
  return *std::min_element(
      choices.begin(), choices.end(),
      [&](const auto &a, const auto &b) { return getCost(a) < getCost(b); });
}

/// The best of those that do of each op what one of these does.
ShardingChoice Chooser::fuse(llvm::ArrayRef<ShardingChoice> choices,
                             size_t width) {
  const ShardingChoice &best = getCheapest(choices);
  StrategyLists own(problem.ops.size());
  for (auto [op, list] : llvm::enumerate(own)) {
    for (const ShardingChoice &each : choices)
      list.push_back(uint32_t(each.strategies[op]));
    llvm::sort(list);
    list.erase(llvm::unique(list), list.end());
  }
  std::optional<ShardingChoice> fused = searchIn(own, width, &best);
  potentials->follow(fused ? *fused : best);
  boundRests();
  return fused ? *fused : best;
}

/// Each better choice says which bounds matter, and each better bound which
/// states do.
ShardingChoice Chooser::improve(ShardingChoice choice, size_t width) {
  constexpr int mostRounds = 4;
  for (int i = 0; i != mostRounds && choice.bound < getCost(choice); ++i) {
    double bound = choice.bound;
    polish(choice);
    choice.bound = std::min(bound, getCost(choice));
    potentials->follow(choice);
    boundRests();
    std::optional<ShardingChoice> better = search(width, getCost(choice));
    if (!better)
      break;
    better->bound = std::max(better->bound, bound);
    bool isLast = getCost(*better) >= getCost(choice) * (1 - slack);
    choice = std::move(*better);
    if (isLast)
      break;
  }
  return choice;
}
