#include "DrawnProblem.h"
#include "cleave/AutoShard/Moves.h"
#include "lib/AutoShard/Repeats.h"
#include "gtest/gtest.h"
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

using namespace cleave;

namespace {
/// What a choice takes.
struct Taken {
  double seconds = 0, bytes = 0;
};

double getReshardOrNever(const ShardingProblem &problem, size_t tensor,
                         const Placement &from, const Placement &to,
                         CollectivePricer price) {
  const PlacedTensor &placed = problem.tensors[tensor];
  llvm::Expected<std::vector<Step>> steps = planReshard(
      problem.mesh, placed.shape, from, to, placed.elementBytes, price);
  if (!steps) {
    llvm::consumeError(steps.takeError());
    return INFINITY;
  }
  double seconds = 0;
  const Placement *before = &from;
  for (const Step &step : *steps) {
    seconds += getStepSeconds(problem.mesh, placed.shape, *before, step,
                              placed.elementBytes, price);
    before = &step.after;
  }
  return seconds;
}

double getShardBytes(const ShardingProblem &problem, size_t tensor,
                     const Placement &placement) {
  double bytes = double(problem.tensors[tensor].elementBytes);
  for (int64_t size :
       placement.getLocalShape(problem.mesh, problem.tensors[tensor].shape))
    bytes *= double(size);
  return bytes;
}

/// From the definition: every combination of strategies, and of inputs' homes.
class BruteForce {
public:
  BruteForce(const ShardingProblem &problem, CollectivePricer price)
      : problem(problem), price(price), homes(problem.tensors.size()),
        needs(problem.tensors.size()) {}

  /// Of all choices, those that take the fewest seconds for their bytes.
  std::vector<Taken> run() {
    visit(0, 0);
    std::vector<Taken> all;
    for (auto [bytes, seconds] : best)
      all.push_back({seconds, bytes});
    return all;
  }

private:
  double getReshard(size_t tensor, const Placement &from, const Placement &to) {
    auto [at, isNew] = known.try_emplace(std::tuple(
        tensor, from.toString(problem.mesh), to.toString(problem.mesh)));
    if (isNew)
      at->second = getReshardOrNever(problem, tensor, from, to, price);
    return at->second;
  }

  void visitHomes(size_t tensor, Taken taken) {
    if (taken.seconds == INFINITY)
      return;
    if (tensor == problem.tensors.size()) {
      auto [at, isNew] = best.try_emplace(taken.bytes, taken.seconds);
      at->second = std::min(at->second, taken.seconds);
      return;
    }
    const PlacedTensor &placed = problem.tensors[tensor];
    auto keep = [&](const Placement &home) {
      Taken next = taken;
      next.bytes += placed.copies * getShardBytes(problem, tensor, home);
      for (const Placement &need : needs[tensor])
        if (!(need == home)) {
          next.seconds += placed.moves * getReshard(tensor, home, need);
          next.bytes += placed.movedTo * getShardBytes(problem, tensor, need);
        }
      visitHomes(tensor + 1, next);
    };
    if (placed.allowed.empty())
      return keep(homes[tensor]);
    // Nobody keeps what nobody reads.
    if (needs[tensor].empty())
      return visitHomes(tensor + 1, taken);
    for (const Placement &home : placed.allowed)
      keep(home);
  }

  void visit(size_t at, double seconds) {
    if (at == problem.ops.size())
      return visitHomes(0, {seconds, 0});
    const PlacedOp &op = problem.ops[at];
    for (auto [strategy, own] : llvm::zip_equal(op.strategies, op.seconds)) {
      std::vector<std::vector<Placement>> before = needs;
      for (auto [tensor, need] :
           llvm::zip_equal(op.operands, strategy.placements.operands))
        if (!llvm::is_contained(needs[tensor], need))
          needs[tensor].push_back(need);
      for (auto [tensor, made] :
           llvm::zip_equal(op.results, strategy.placements.results))
        homes[tensor] = made;
      visit(at + 1, seconds + std::ldexp(std::round(std::ldexp(own, 40)), -40));
      needs = std::move(before);
    }
  }

  const ShardingProblem &problem;
  CollectivePricer price;
  std::map<std::tuple<size_t, std::string, std::string>, double> known;
  std::vector<Placement> homes;
  std::vector<std::vector<Placement>> needs;
  std::map<double, double> best; ///< seconds, by bytes
};

/// What a choice takes, from its own placements.
Taken getTaken(const ShardingProblem &problem, const ShardingChoice &choice,
               CollectivePricer price) {
  Taken taken;
  std::vector<std::vector<Placement>> needs(problem.tensors.size());
  std::vector<bool> isUsed(problem.tensors.size());
  for (auto [op, number] : llvm::zip_equal(problem.ops, choice.strategies)) {
    taken.seconds +=
        std::ldexp(std::round(std::ldexp(op.seconds[number], 40)), -40);
    const RulePlacements &placements = op.strategies[number].placements;
    for (auto [tensor, need] :
         llvm::zip_equal(op.operands, placements.operands)) {
      isUsed[tensor] = true;
      if (!llvm::is_contained(needs[tensor], need))
        needs[tensor].push_back(need);
    }
    for (auto [tensor, made] :
         llvm::zip_equal(op.results, placements.results)) {
      isUsed[tensor] = true;
      EXPECT_EQ(choice.placements[tensor], made);
    }
  }
  for (auto [tensor, placed] : llvm::enumerate(problem.tensors)) {
    const Placement &home = choice.placements[tensor];
    if (isUsed[tensor])
      taken.bytes += placed.copies * getShardBytes(problem, tensor, home);
    for (const Placement &need : needs[tensor])
      if (!(need == home)) {
        taken.seconds += placed.moves *
                         getReshardOrNever(problem, tensor, home, need, price);
        taken.bytes += placed.movedTo * getShardBytes(problem, tensor, need);
      }
  }
  return taken;
}

/// The fewest seconds of the corners of the convex hull that take no more
/// bytes.
double getBestCorner(const std::vector<Taken> &all, double memory) {
  double best = INFINITY;
  for (const Taken &one : all) {
    if (one.bytes > memory || one.seconds >= best)
      continue;
    // No mixture of two others takes as little of both.
    bool isCorner = true;
    for (const Taken &small : all)
      for (const Taken &large : all) {
        if (small.bytes > one.bytes || large.bytes < one.bytes)
          continue;
        double share =
            large.bytes == small.bytes
                ? 0
                : (one.bytes - small.bytes) / (large.bytes - small.bytes);
        double mixed = small.seconds + share * (large.seconds - small.seconds);
        bool isBetween = small.bytes < one.bytes && one.bytes < large.bytes;
        isCorner &= one.seconds <= mixed + (isBetween ? -1e-9 : 1e-9);
      }
    if (isCorner)
      best = one.seconds;
  }
  return best;
}

double getLeast(const std::vector<Taken> &all, double memory) {
  double least = INFINITY;
  for (const Taken &one : all)
    if (one.bytes <= memory)
      least = std::min(least, one.seconds);
  return least;
}
} // namespace

TEST(Choose, KnowsWhatEachStrategyOfAnOpCosts) {
  Random random(7);
  int64_t possible = 0, impossible = 0;
  for (int64_t drawn = 0; drawn != 60; ++drawn) {
    ShardingProblem problem = draw(random);
    Prices price = Prices::draw(random);
    ShardingChoice choice = llvm::cantFail(chooseShardings(problem, price));
    size_t op = random() % problem.ops.size();
    auto all = getAlternatives(problem, choice, op, price, 1 << 13);
    ASSERT_EQ(all.size(), problem.ops[op].strategies.size());
    for (size_t strategy = 0; strategy != all.size(); ++strategy) {
      ShardingProblem narrow = problem;
      PlacedOp &only = narrow.ops[op];
      only.strategies = {problem.ops[op].strategies[strategy]};
      only.seconds = {problem.ops[op].seconds[strategy]};
      llvm::Expected<ShardingChoice> want = chooseShardings(narrow, price);
      ASSERT_EQ(bool(want), all[strategy].has_value()) << "graph " << drawn;
      if (!want) {
        llvm::consumeError(want.takeError());
        ++impossible;
        continue;
      }
      ++possible;
      EXPECT_EQ(all[strategy]->strategies[op], strategy);
      EXPECT_EQ(all[strategy]->seconds, want->seconds) << "graph " << drawn;
    }
    EXPECT_EQ(all[choice.strategies[op]]->seconds, choice.seconds);
  }
  EXPECT_GT(possible, 100);
  EXPECT_GT(impossible, 0);
}

TEST(Choose, FrontGoesFromTheFastestToTheSmallest) {
  Random random(8);
  size_t corners = 0;
  for (int64_t drawn = 0; drawn != 60; ++drawn) {
    ShardingProblem problem = draw(random);
    Prices price = Prices::draw(random);
    auto front = llvm::cantFail(computeShardingFront(problem, price, 6));
    ASSERT_FALSE(front.empty());
    ASSERT_LE(front.size(), 6u);
    EXPECT_NEAR(front[0].seconds,
                llvm::cantFail(chooseShardings(problem, price)).seconds, 1e-6);
    for (const ShardingChoice &each : front)
      EXPECT_LE(each.bound, each.seconds) << "graph " << drawn;
    for (size_t i = 1; i != front.size(); ++i) {
      EXPECT_LT(front[i].bytes, front[i - 1].bytes) << "graph " << drawn;
      EXPECT_GT(front[i].seconds, front[i - 1].seconds) << "graph " << drawn;
    }
    // What fits into less than the last takes does not exist.
    problem.memory = front.back().bytes - 1;
    llvm::Expected<ShardingChoice> less = chooseShardings(problem, price);
    EXPECT_FALSE(bool(less)) << "graph " << drawn;
    if (!less)
      llvm::consumeError(less.takeError());
    corners += front.size();
  }
  EXPECT_GT(corners, 65u);
}

TEST(Choose, IsTheBestOfAllOnSmallGraphs) {
  Random random(1);
  constexpr double mostWays = 15000;
  int64_t graphs = 0, moved = 0, bound = 0, between = 0;
  for (int64_t drawn = 0; graphs != 600 && drawn != 20000; ++drawn) {
    ShardingProblem problem = draw(random, 3, /*fans=*/drawn % 2 == 1);
    Prices price = Prices::draw(random);
    double ways = 1;
    for (const PlacedOp &op : problem.ops)
      ways *= double(op.strategies.size());
    if (ways > mostWays)
      continue;
    ++graphs;
    llvm::Expected<ShardingChoice> choice = chooseShardings(problem, price);
    ASSERT_TRUE(bool(choice)) << llvm::toString(choice.takeError());
    std::vector<Taken> all = BruteForce(problem, price).run();
    double best = getLeast(all, INFINITY);
    ASSERT_EQ(choice->seconds, best) << "graph " << drawn;
    ASSERT_EQ(choice->bound, best) << "graph " << drawn;
    Taken taken = getTaken(problem, *choice, price);
    ASSERT_EQ(taken.seconds, best) << "graph " << drawn;
    ASSERT_EQ(taken.bytes, choice->bytes) << "graph " << drawn;
    // And where memory binds: half way to what takes the least.
    problem.memory = std::floor((all.front().bytes + choice->bytes) / 2);
    if (problem.memory < choice->bytes) {
      ++bound;
      choice = chooseShardings(problem, price);
      ASSERT_TRUE(bool(choice)) << llvm::toString(choice.takeError());
      taken = getTaken(problem, *choice, price);
      ASSERT_EQ(taken.bytes, choice->bytes) << "graph " << drawn;
      ASSERT_LE(taken.bytes, problem.memory) << "graph " << drawn;
      ASSERT_EQ(taken.seconds, choice->seconds) << "graph " << drawn;
      double least = getLeast(all, problem.memory);
      ASSERT_EQ(choice->seconds, least) << "graph " << drawn;
      ASSERT_EQ(choice->bound, least) << "graph " << drawn;
      between += least < getBestCorner(all, problem.memory) - 1e-6;
    }
    double ops = 0;
    for (auto [op, number] : llvm::zip_equal(problem.ops, choice->strategies))
      ops += op.seconds[number];
    double moves = 0;
    for (const Move &move : getMoves(problem, *choice, price))
      moves += move.getSeconds();
    ASSERT_NEAR(ops + moves, choice->seconds, 1e-9) << "graph " << drawn;
    moved += choice->seconds > ops + 1e-6;
  }
  EXPECT_EQ(graphs, 600);
  // Not all of them can do without moving anything.
  EXPECT_GE(moved, 80);
  EXPECT_GE(bound, 100);
  // No price of a byte leads to some of them.
  EXPECT_GE(between, 5);
}

/// With few states it may miss the best, but its bound holds.
TEST(Choose, BoundsHold) {
  Random random(2);
  int64_t open = 0;
  for (int64_t graph = 0; graph != 400; ++graph) {
    ShardingProblem problem = draw(random, 6);
    Prices price = Prices::draw(random);
    ShardingChoice best = llvm::cantFail(chooseShardings(problem, price));
    ShardingChoice few = llvm::cantFail(chooseShardings(problem, price, 1));
    EXPECT_EQ(best.bound, best.seconds);
    EXPECT_LE(few.bound, best.seconds);
    EXPECT_GE(few.seconds, best.seconds);
    EXPECT_EQ(getTaken(problem, few, price).seconds, few.seconds);
    open += few.bound < few.seconds;
  }
  EXPECT_GE(open, 10);
}

namespace {
/// x -> up -> activation -> down -> y. Pinned, x and y are whole on every rank,
/// and each has a part of the weights.
ShardingProblem makeMLP(const Mesh &mesh, int64_t tokens, int64_t hidden,
                        int64_t inner, bool isPinned) {
  ShardingProblem problem;
  problem.mesh = mesh;
  auto add = [&](llvm::ArrayRef<int64_t> shape, bool isInput) {
    PlacedTensor tensor;
    tensor.shape.assign(shape.begin(), shape.end());
    if (isInput)
      tensor.allowed = getWholePlacements(mesh, shape);
    problem.tensors.push_back(tensor);
    return problem.tensors.size() - 1;
  };
  size_t x = add({tokens, hidden}, true), up = add({inner, hidden}, true),
         down = add({hidden, inner}, true), h = add({tokens, inner}, false),
         a = add({tokens, inner}, false), y = add({tokens, hidden}, false);
  if (isPinned) {
    problem.tensors[x].allowed = {Placement::getReplicated(2)};
    for (size_t weight : {up, down})
      llvm::erase(problem.tensors[weight].allowed, Placement::getReplicated(2));
  }
  auto parse = [](llvm::StringRef text,
                  llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizes) {
    return llvm::cantFail(ShardingRule::parse(text, sizes));
  };
  ShardingRule first = parse("b h, f h -> b f | reduce h | pass 0 | pass 1",
                             {{"b", tokens}, {"h", hidden}, {"f", inner}}),
               second = parse("b h, f h -> b f | reduce h | pass 0 | pass 1",
                              {{"b", tokens}, {"h", inner}, {"f", hidden}}),
               each = parse("b f -> b f", {{"b", tokens}, {"f", inner}}),
               whole = parse("b f -> b f", {{"b", tokens}, {"f", hidden}});
  addOp(problem, first, {x, up}, {h}, 1e-3);
  addOp(problem, each, {h}, {a}, 1e-4);
  addOp(problem, second, {a, down}, {y}, 1e-3);
  if (!isPinned)
    return problem;
  PlacedOp end;
  end.operands = {y};
  Strategy strategy = getStrategies(mesh, whole).front();
  strategy.placements.results.clear();
  end.strategies = {strategy};
  end.seconds = {0};
  problem.ops.push_back(end);
  return problem;
}

std::vector<std::string> show(const ShardingProblem &problem,
                              const ShardingChoice &choice) {
  std::vector<std::string> texts;
  for (const Placement &placement : choice.placements)
    texts.push_back(placement.toString(problem.mesh));
  return texts;
}
} // namespace

/// What Megatron-LM does by hand: columns, then rows, and one all-reduce.
TEST(Choose, ColumnsThenRows) {
  Mesh mesh({{"tp", 4}});
  auto price = [](Step::Kind, llvm::ArrayRef<Axis>, double bytes) {
    return 1e-6 + 1e-11 * bytes;
  };
  ShardingProblem problem = makeMLP(mesh, 512, 1024, 4096, true);
  ShardingChoice choice = llvm::cantFail(chooseShardings(problem, price));
  EXPECT_EQ(show(problem, choice),
            (std::vector<std::string>{"[{}, {}]", "[{tp}, {}]", "[{}, {tp}]",
                                      "[{}, {tp}]", "[{}, {tp}]",
                                      "[{}, {}] partial={tp}"}));
  // Free to do so, the tokens are split, and nothing is moved.
  ShardingProblem free = makeMLP(mesh, 512, 1024, 4096, false);
  ShardingChoice data = llvm::cantFail(chooseShardings(free, price));
  EXPECT_NEAR(data.seconds, 2.1e-3 / 4, 1e-11);
}

namespace {
/// Layers of two products and a sum with what they read, each with weights of
/// its own that are kept. If `differ`, no two of them take quite the same time.
ShardingProblem makeLayers(int64_t layers, bool differ) {
  ShardingProblem problem;
  problem.mesh = Mesh({{"x", 2}, {"y", 4}});
  constexpr int64_t tokens = 64, hidden = 128, inner = 256;
  auto add = [&](llvm::ArrayRef<int64_t> shape, bool isInput) {
    PlacedTensor tensor;
    tensor.shape.assign(shape.begin(), shape.end());
    tensor.copies = isInput;
    if (isInput)
      tensor.allowed = getWholePlacements(problem.mesh, shape);
    problem.tensors.push_back(tensor);
    return problem.tensors.size() - 1;
  };
  auto multiply = [&](int64_t h, int64_t f) {
    return llvm::cantFail(
        ShardingRule::parse("b h, f h -> b f | reduce h | pass 0 | pass 1",
                            {{"b", tokens}, {"h", h}, {"f", f}}));
  };
  ShardingRule sum = llvm::cantFail(ShardingRule::parse(
      "b f, b f -> b f | pass 0 1", {{"b", tokens}, {"f", hidden}}));
  size_t x = add({tokens, hidden}, true);
  for (int64_t layer = 0; layer != layers; ++layer) {
    double more = differ ? std::ldexp(double(layer), -40) : 0;
    size_t up = add({inner, hidden}, true), h = add({tokens, inner}, false),
           down = add({hidden, inner}, true), z = add({tokens, hidden}, false),
           y = add({tokens, hidden}, false);
    addOp(problem, multiply(hidden, inner), {x, up}, {h}, 1e-3 + more);
    addOp(problem, multiply(inner, hidden), {h, down}, {z}, 1e-3);
    addOp(problem, sum, {x, z}, {y}, 1e-4);
    x = y;
  }
  return problem;
}
} // namespace

/// Where parts are equal, few of them are looked at: it takes no more seconds
/// than where they are not quite, and all have to be.
TEST(Choose, EqualParts) {
  auto price = [](Step::Kind, llvm::ArrayRef<Axis>, double bytes) {
    return 1e-6 + 4e-9 * bytes;
  };
  constexpr int64_t layers = 12;
  for (double memory : {double(INFINITY), 2e6, 8e5}) {
    ShardingProblem equal = makeLayers(layers, false),
                    other = makeLayers(layers, true);
    equal.memory = other.memory = memory;
    ShardingChoice choice =
        llvm::cantFail(chooseShardings(equal, price, /*mostStates=*/64));
    ShardingChoice all =
        llvm::cantFail(chooseShardings(other, price, /*mostStates=*/64));
    EXPECT_EQ(getTaken(equal, choice, price).seconds, choice.seconds);
    EXPECT_LE(choice.bytes, memory);
    EXPECT_LE(choice.seconds, all.seconds + 1e-9) << memory;
    EXPECT_LE(choice.bound, all.seconds + 1e-9) << memory;
    EXPECT_GE(choice.bound, 0.9 * choice.seconds) << memory;
  }
}

namespace {
/// An embedding, layers, a head, and the way back through the layers; with some
/// layers repeating an op on that.
ShardingProblem makeThereAndBack(int64_t layers,
                                 llvm::ArrayRef<int64_t> repeating = {}) {
  ShardingProblem problem;
  problem.mesh = Mesh({{"x", 2}, {"y", 4}});
  constexpr int64_t tokens = 16, hidden = 8;
  auto add = [&](llvm::ArrayRef<int64_t> shape, bool isInput) {
    PlacedTensor tensor;
    tensor.shape.assign(shape.begin(), shape.end());
    tensor.copies = 1;
    tensor.movedTo = 2;
    tensor.moves = 3;
    if (isInput)
      tensor.allowed = getWholePlacements(problem.mesh, shape);
    problem.tensors.push_back(tensor);
    return problem.tensors.size() - 1;
  };
  auto addActivation = [&] { return add({tokens, hidden}, false); };
  auto parse = [&](llvm::StringRef text) {
    return llvm::cantFail(ShardingRule::parse(
        text, {{"b", tokens}, {"h", hidden}, {"f", hidden}}));
  };
  ShardingRule each = parse("b h -> b h | pass 0"),
               sum = parse("b h, b h -> b h | pass 0 1"),
               product = parse("b h, f h -> b f | reduce h | pass 0 | pass 1"),
               back = parse("b f, f h -> b h | reduce f | pass 0 | pass 1");
  auto addAt = [&](double at, const ShardingRule &rule,
                   llvm::ArrayRef<size_t> operands,
                   llvm::ArrayRef<size_t> results, double seconds) {
    addOp(problem, rule, operands, results, seconds);
    problem.ops.back().at = at;
  };
  size_t tokensIn = add({tokens, hidden}, true), x = addActivation();
  addAt(0, each, {tokensIn}, {x}, 1);
  std::vector<size_t> inputs, weights;
  for (int64_t layer = 0; layer != layers; ++layer) {
    inputs.push_back(x);
    weights.push_back(add({hidden, hidden}, true));
    size_t z = addActivation(), y = addActivation();
    addAt(double(layer + 1), product, {x, weights.back()}, {z}, 2);
    addAt(double(layer + 1), sum, {x, z}, {y}, 1);
    x = y;
  }
  size_t g = addActivation();
  addAt(double(layers + 1), each, {x}, {g}, 1);
  for (int64_t layer = layers; layer-- > 0;) {
    size_t z = addActivation(), y = addActivation(), both = addActivation();
    addAt(double(layer + 1), back, {g, weights[size_t(layer)]}, {z}, 2);
    size_t x = inputs[size_t(layer)];
    if (llvm::is_contained(repeating, layer)) {
      size_t again = addActivation();
      addAt(double(layer + 1), product, {x, weights[size_t(layer)]}, {again},
            2);
      x = again;
    }
    addAt(double(layer + 1), sum, {z, x}, {both}, 1);
    addAt(double(layer + 1), sum, {g, both}, {y}, 1);
    g = y;
  }
  addAt(0, each, {g}, {addActivation()}, 1);
  return problem;
}

/// With every input whole on each rank.
Taken getTaken(const ShardingProblem &problem, std::vector<size_t> strategies,
               CollectivePricer price) {
  ShardingChoice choice;
  choice.strategies = std::move(strategies);
  for (const PlacedTensor &tensor : problem.tensors)
    choice.placements.push_back(
        Placement::getReplicated(unsigned(tensor.shape.size())));
  for (auto [op, number] : llvm::zip_equal(problem.ops, choice.strategies))
    for (auto [tensor, made] :
         llvm::zip_equal(op.results, op.strategies[number].placements.results))
      choice.placements[tensor] = made;
  return getTaken(problem, choice, price);
}
} // namespace

namespace {
/// Draws choices in which all parts of a kind have the same.
void expectEqualCosts(const ShardingProblem &problem, size_t tiedOps) {
  std::vector<size_t> steps(problem.ops.size());
  std::iota(steps.begin(), steps.end(), size_t(0));
  llvm::sort(steps, [&](size_t a, size_t b) {
    return std::pair(problem.ops[a].at, a) > std::pair(problem.ops[b].at, b);
  });
  std::optional<autoshard::Reduced> reduced =
      autoshard::reduce(problem, steps, /*mostParts=*/3);
  ASSERT_TRUE(reduced);
  const autoshard::Tied &tied = reduced->tied;
  ASSERT_EQ(tied.problem.ops.size(), tiedOps);
  ASSERT_EQ(tied.standing.size(), tiedOps);
  for (size_t op = 0; op != tiedOps; ++op)
    EXPECT_EQ(tied.ops[tied.standing[op]], op);
  Random random(4);
  Prices price = Prices::draw(random);
  int64_t possible = 0;
  for (int64_t drawn = 0; drawn != 2000; ++drawn) {
    std::vector<size_t> part, whole;
    // Few partial sums, so that many choices can be done.
    for (const PlacedOp &op : tied.problem.ops) {
      part.push_back(random() % op.strategies.size());
      for (int tries = 0; tries != 3; ++tries)
        if (op.strategies[part.back()].placements.operands[0].isPartial())
          part.back() = random() % op.strategies.size();
    }
    for (size_t op : tied.ops)
      whole.push_back(part[op]);
    Taken one = getTaken(tied.problem, part, price),
          all = getTaken(problem, whole, price);
    possible += one.seconds < INFINITY;
    EXPECT_EQ(one.seconds, all.seconds) << drawn;
    if (one.seconds < INFINITY) {
      EXPECT_EQ(one.bytes, all.bytes) << drawn;
    }
  }
  EXPECT_GE(possible, 50);
}
} // namespace

/// One part that stands for all takes, moves and keeps what they do where all
/// of them have the same.
TEST(Choose, ATiedPartCostsWhatAllPartsDo) {
  // Five ops of a layer, and three outside.
  expectEqualCosts(makeThereAndBack(5), 5 + 3);
}

/// And so does one of each kind of them, whatever stands beside what.
TEST(Choose, TiedPartsOfSeveralKindsCostWhatAllPartsDo) {
  expectEqualCosts(makeThereAndBack(9, {0, 1, 2, 3, 5}), 6 + 5 + 3);
  expectEqualCosts(makeThereAndBack(14, {0, 6, 7, 13}), 6 + 5 + 3);
  // One that is alone, with which the run of the others seems to begin: it and
  // the next one are looked at besides.
  expectEqualCosts(makeThereAndBack(9, {8}), 6 + 2 * 5 + 3);
}

TEST(Choose, Failures) {
  Mesh mesh({{"x", 2}});
  ShardingProblem problem = makeMLP(mesh, 4, 4, 4, true);
  auto price = [](Step::Kind, llvm::ArrayRef<Axis>, double) { return 1.; };
  // What is whole cannot become partial.
  Strategy partial = problem.ops[1].strategies[0];
  partial.placements.operands[0].partial = {0};
  problem.ops[1].strategies = {partial};
  problem.ops[1].seconds = {0};
  problem.ops[0].strategies = {problem.ops[0].strategies[0]};
  problem.ops[0].seconds = {0};
  EXPECT_EQ(llvm::toString(chooseShardings(problem, price).takeError()),
            "op 0: no strategy gives what the ops that use it need");
  problem.ops[2].strategies = {};
  EXPECT_EQ(llvm::toString(chooseShardings(problem, price).takeError()),
            "op 2: has no strategy");
}
