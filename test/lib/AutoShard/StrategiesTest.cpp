#include "cleave/AutoShard/Strategies.h"
#include "test/lib/Placement/Enumerate.h"
#include "gtest/gtest.h"

using namespace cleave;

static ShardingRule
parse(llvm::StringRef text,
      llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizes) {
  return llvm::cantFail(ShardingRule::parse(text, sizes));
}

/// `[{x}, {}], [{}, {}] -> [{x}, {}]`
static std::string show(const Mesh &mesh, const Strategy &strategy) {
  std::string text;
  for (const Placement &placement : strategy.placements.operands)
    text += (text.empty() ? "" : ", ") + placement.toString(mesh);
  for (const Placement &placement : strategy.placements.results)
    text += " -> " + placement.toString(mesh);
  return text;
}

TEST(Strategies, OfAProduct) {
  Mesh mesh({{"x", 2}});
  std::vector<std::string> got;
  for (const Strategy &strategy :
       getStrategies(mesh, parse("b h, f h -> b f | reduce h | pass 0 | pass 1",
                                 {{"b", 4}, {"h", 6}, {"f", 3}})))
    got.push_back(show(mesh, strategy));
  // Three rows cannot be split in two.
  EXPECT_EQ(
      got,
      (std::vector<std::string>{
          "[{}, {}], [{}, {}] -> [{}, {}]", "[{x}, {}], [{}, {}] -> [{x}, {}]",
          "[{}, {x}], [{}, {x}] -> [{}, {}] partial={x}",
          "[{}, {}] partial={x}, [{}, {}] -> [{}, {}] partial={x}",
          "[{}, {}], [{}, {}] partial={x} -> [{}, {}] partial={x}"}));
}

/// A bias is added once: where the sum is split, it has to be partial itself.
TEST(Strategies, OfAnAxisThatDividesNothing) {
  auto rule = llvm::cantFail(ShardingRule::parse(
      "b h, f h -> b f | reduce h", {{"b", 8}, {"h", 4}, {"f", 6}}));
  auto findIdle = [&](const Mesh &mesh) {
    return findIdleAxis(mesh, {StrategyList(getStrategies(mesh, rule))});
  };
  EXPECT_EQ(findIdle(Mesh({{"x", 2}, {"y", 3}})), std::nullopt);
  EXPECT_EQ(findIdle(Mesh({{"x", 2}, {"y", 7}})), Axis(1));
  EXPECT_EQ(findIdle(Mesh({{"x", 1}})), std::nullopt);
  EXPECT_EQ(findIdleAxis(Mesh({{"x", 7}}), {}), std::nullopt);
}

TEST(Strategies, OfAddends) {
  Mesh mesh({{"x", 2}});
  std::vector<std::string> got;
  for (const Strategy &strategy :
       getStrategies(mesh, parse("b h, h, b -> b | reduce h | add 2",
                                 {{"b", 3}, {"h", 6}})))
    got.push_back(show(mesh, strategy));
  EXPECT_EQ(got,
            (std::vector<std::string>{
                "[{}, {}], [{}], [{}] -> [{}]",
                "[{}, {x}], [{x}], [{}] partial={x} -> [{}] partial={x}"}));
}

/// All that the type checker takes, but for other orders of axes in a dim: of
/// all placements of operands and results those that pass checkRule.
TEST(Strategies, AreAllThatTypeCheck) {
  using Sizes = std::vector<std::pair<llvm::StringRef, int64_t>>;
  int64_t strategies = 0;
  for (const Mesh &mesh : {Mesh({{"x", 2}}), Mesh({{"x", 2}, {"y", 3}}),
                           Mesh({{"x", 2}, {"y", 1}})})
    for (const auto &[text, sizes] :
         {std::pair("b h, f h -> b f | reduce h | pass 0 | pass 1",
                    Sizes{{"b", 6}, {"h", 12}, {"f", 4}}),
          std::pair("b h, b h -> b h | pass 0 1", Sizes{{"b", 6}, {"h", 2}}),
          std::pair("b h, h -> b h, b | block h : it is normalized",
                    Sizes{{"b", 6}, {"h", 6}}),
          std::pair("b (v g) -> b v g", Sizes{{"b", 2}, {"v", 2}, {"g", 3}}),
          std::pair("b h -> b | max h | passmax 0", Sizes{{"b", 6}, {"h", 6}}),
          std::pair("h, b h -> . | reduce b h | pass 0 | pass 1",
                    Sizes{{"b", 2}, {"h", 6}})}) {
      ShardingRule rule = parse(text, sizes);
      // Every tensor's placements, in the mesh's order of axes.
      std::vector<std::vector<Placement>> each;
      for (const auto *list : {&rule.operands, &rule.results})
        for (const TensorFactors &tensor : *list) {
          std::vector<Placement> &all = each.emplace_back();
          for (Reduction reduction : {Reduction::Sum, Reduction::Max})
            for (Placement &placement :
                 getPlacements(mesh, rule.getShape(tensor), reduction)) {
              auto isOrdered = [&](const AxisList &axes) {
                return llvm::is_sorted(axes) &&
                       llvm::all_of(axes, [&](Axis axis) {
                         return mesh.getSize(axis) > 1;
                       });
              };
              bool isKnown = llvm::is_contained(all, placement);
              if (!isKnown && llvm::all_of(placement.dims, isOrdered) &&
                  isOrdered(placement.partial))
                all.push_back(std::move(placement));
            }
        }
      std::vector<std::string> want, got;
      std::vector<size_t> at(each.size());
      for (bool more = true; more;) {
        Strategy strategy;
        for (size_t i = 0; i != at.size(); ++i)
          (i < rule.operands.size() ? strategy.placements.operands
                                    : strategy.placements.results)
              .push_back(each[i][at[i]]);
        if (llvm::Error error =
                checkRule(mesh, rule, strategy.placements.operands,
                          strategy.placements.results))
          llvm::consumeError(std::move(error));
        else
          want.push_back(show(mesh, strategy));
        more = false;
        for (size_t i = at.size(); i-- > 0 && !more;) {
          more = ++at[i] != each[i].size();
          if (!more)
            at[i] = 0;
        }
      }
      for (const Strategy &strategy : getStrategies(mesh, rule))
        got.push_back(show(mesh, strategy));
      strategies += int64_t(got.size());
      llvm::sort(want);
      llvm::sort(got);
      EXPECT_EQ(got, want) << text << " on " << mesh.toString();
    }
  EXPECT_GE(strategies, 100);
}

TEST(Strategies, WholePlacements) {
  Mesh mesh({{"x", 2}, {"y", 3}});
  std::vector<std::string> got;
  for (const Placement &placement : getWholePlacements(mesh, {6, 2}))
    got.push_back(placement.toString(mesh));
  EXPECT_EQ(got, (std::vector<std::string>{"[{}, {}]", "[{y}, {}]", "[{x}, {}]",
                                           "[{x, y}, {}]", "[{}, {x}]",
                                           "[{y}, {x}]"}));
}

TEST(Strategies, SumPlacements) {
  Mesh mesh({{"x", 2}, {"y", 3}});
  std::vector<std::string> got;
  for (const Placement &placement : getSumPlacements(mesh, {6}))
    got.push_back(placement.toString(mesh));
  EXPECT_EQ(got, (std::vector<std::string>{
                     "[{}]", "[{y}]", "[{}] partial={y}", "[{x}]", "[{x, y}]",
                     "[{x}] partial={y}", "[{}] partial={x}",
                     "[{y}] partial={x}", "[{}] partial={x, y}"}));
}
