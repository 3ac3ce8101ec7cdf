//===- PriceTest.cpp - The planner's figures on a mesh --------------------===//
#include "cleave/Reshard/Price.h"
#include "cleave/Hardware/Cluster.h"
#include "test/lib/Placement/Enumerate.h"
#include "gtest/gtest.h"

using namespace cleave;

namespace {

using Kind = Step::Kind;

/// Every set of axes, in no order that a mesh would have them.
std::vector<AxisList> getSets(const Mesh &mesh) {
  std::vector<AxisList> sets;
  for (unsigned bits = 1; bits != 1u << mesh.getNumAxes(); ++bits) {
    AxisList set;
    for (Axis axis = mesh.getNumAxes(); axis-- > 0;)
      if (bits >> axis & 1)
        set.insert(axis % 2 ? set.begin() : set.end(), axis);
    sets.push_back(set);
  }
  return sets;
}

TEST(GetGroup, NeighboursAreAsOneAxis) {
  Mesh mesh({{"a", 2}, {"b", 3}, {"c", 4}, {"d", 5}, {"e", 6}});
  EXPECT_EQ(getGroup(mesh, {4}), (Group{6, 1}));
  EXPECT_EQ(getGroup(mesh, {0}), (Group{2, 360}));
  EXPECT_EQ(getGroup(mesh, {2, 3}), (Group{20, 6}));
  EXPECT_EQ(getGroup(mesh, {3, 2}), (Group{20, 6}));
  EXPECT_EQ(getGroup(mesh, {1, 3, 4}), (Group{30, 1, 3, 120}));
  EXPECT_EQ(getGroup(mesh, {4, 1}), (Group{6, 1, 3, 120}));
  EXPECT_EQ(getGroup(mesh, {0, 2, 4}), (Group{6, 1, 8, 360}));
  // What one rank is along does not part them.
  Mesh ones({{"a", 2}, {"b", 1}, {"c", 4}, {"d", 1}});
  EXPECT_EQ(getGroup(ones, {0, 2}), (Group{8, 1}));
  EXPECT_EQ(getGroup(ones, {1, 3}), Group());
}

TEST(GetGroup, HasTheRanksThatTheMeshHas) {
  // In every unit that starts an axis, of all sets of axes: exactly, but for
  // three rows, which have no more.
  Mesh mesh({{"a", 2}, {"b", 3}, {"c", 2}, {"d", 2}, {"e", 3}});
  int64_t exact = 0, fewer = 0;
  for (const AxisList &axes : getSets(mesh)) {
    Group group = getGroup(mesh, axes);
    llvm::SmallVector<int64_t, 8> ranks = mesh.getGroup(0, axes);
    EXPECT_EQ(group.getSize(), int64_t(ranks.size()));
    bool hasThreeRows = axes.size() == 3 && llvm::is_contained(axes, 0u) &&
                        llvm::is_contained(axes, 2u) &&
                        llvm::is_contained(axes, 4u);
    for (int64_t unit : {3, 6, 12, 36, 72}) {
      int64_t inside =
          llvm::count_if(ranks, [&](int64_t rank) { return rank < unit; });
      int64_t priced = getRanksInside(group, unit);
      EXPECT_LE(priced, inside) << mesh.toString(axes) << " " << unit;
      EXPECT_TRUE(priced == inside || hasThreeRows)
          << mesh.toString(axes) << " " << unit;
      ++(priced == inside ? exact : fewer);
    }
  }
  EXPECT_EQ(exact, 152);
  EXPECT_EQ(fewer, 3);
}

TEST(NetworkPricer, IsThePlannersFigure) {
  Mesh mesh({{"dp", 2}, {"cp", 4}, {"tp", 4}});
  Network network = llvm::cantFail(getNetwork("h100-sxm:32", 32));
  Machine machine = llvm::cantFail(getMachine("h100-sxm:32"));
  NetworkPricer price(mesh, network);
  const std::pair<AxisList, Group> groups[] = {
      {{2}, {4, 1}},          {{1}, {4, 4}},     {{0}, {2, 16}},
      {{1, 2}, {16, 1}},      {{2, 1}, {16, 1}}, {{0, 1}, {8, 4}},
      {{0, 2}, {4, 1, 2, 16}}};
  for (double bytes : {1e3, 1e6, 1e9})
    for (const auto &[axes, group] : groups) {
      auto get = [&](CollectiveKind kind, double whole) {
        return getCollectiveTime(machine, kind, group, whole);
      };
      EXPECT_EQ(price(Kind::AllReduce, axes, bytes),
                get(CollectiveKind::AllReduce, bytes));
      EXPECT_EQ(price(Kind::ReduceScatter, axes, bytes),
                get(CollectiveKind::ReduceScatter, bytes));
      EXPECT_EQ(price(Kind::AllToAll, axes, bytes),
                get(CollectiveKind::AllToAll, bytes));
      EXPECT_EQ(
          price(Kind::AllGather, axes, bytes),
          get(CollectiveKind::AllGather, bytes * double(group.getSize())));
    }
  // Between nodes it takes longer.
  EXPECT_GT(price(Kind::AllReduce, AxisList{0}, 1e9),
            2 * price(Kind::AllReduce, AxisList{2}, 1e9));
}

TEST(PlanReshard, ASlowOuterNetworkChangesPlans) {
  Mesh mesh({{"dp", 2}, {"tp", 4}});
  Network flat = llvm::cantFail(getNetwork("", 8)), tiered = flat;
  Link slow = flat.levels[0].link;
  slow.setBandwidth(slow.bandwidth / 100);
  tiered.levels = {{4, flat.levels[0].link}, {8, slow}};
  NetworkPricer flatPrice(mesh, flat), tieredPrice(mesh, tiered);
  const llvm::SmallVector<int64_t, 2> shape = {1024, 1024};
  auto plan = [&](const Placement &from, const Placement &to,
                  CollectivePricer price) {
    return llvm::cantFail(planReshard(mesh, shape, from, to, 4, price));
  };
  auto getText = [&](llvm::ArrayRef<Step> steps) {
    std::string text;
    for (const Step &step : steps)
      text += step.toString(mesh) + "\n";
    return text;
  };
  auto getSeconds = [&](Placement placement, llvm::ArrayRef<Step> steps,
                        CollectivePricer price) {
    double seconds = 0;
    for (const Step &step : steps) {
      seconds += getStepSeconds(mesh, shape, placement, step, 4, price);
      placement = step.after;
    }
    return seconds;
  };
  auto parse = [&](llvm::StringRef text) {
    return llvm::cantFail(Placement::parse(mesh, text));
  };

  // Inside a node first, so that a quarter goes between nodes.
  Placement sums = parse("[{}, {}] partial={dp, tp}"),
            whole = parse("[{}, {}]");
  EXPECT_EQ(getText(plan(sums, whole, flatPrice)),
            "all_reduce over {dp, tp}\n");
  EXPECT_EQ(getText(plan(sums, whole, tieredPrice)),
            "reduce_scatter over {tp}, dim 0\nall_reduce over {dp}\n"
            "all_gather over {tp}, dim 0\n");

  // Of all pairs, what was planned for one network never beats what was planned
  // for the other there, and where plans differ it loses.
  std::vector<Placement> all = getPlacements(mesh, shape, Reduction::Sum);
  int64_t pairs = 0, differ = 0, loses = 0;
  for (const Placement &from : all)
    for (const Placement &to : all) {
      if (llvm::any_of(to.partial,
                       [&](Axis axis) { return !from.isPartialOver(axis); }))
        continue;
      ++pairs;
      std::vector<Step> ofFlat = plan(from, to, flatPrice),
                        ofTiered = plan(from, to, tieredPrice);
      EXPECT_LE(getSeconds(from, ofFlat, flatPrice),
                getSeconds(from, ofTiered, flatPrice));
      double best = getSeconds(from, ofTiered, tieredPrice),
             other = getSeconds(from, ofFlat, tieredPrice);
      EXPECT_LE(best, other);
      differ += getText(ofFlat) != getText(ofTiered);
      loses += best < other;
    }
  EXPECT_EQ(pairs, 223);
  EXPECT_GT(differ, 40);
  EXPECT_EQ(loses, differ);
}

} // namespace
