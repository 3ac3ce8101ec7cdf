#include "cleave/AutoShard/Tactics.h"
#include "cleave/AutoShard/Moves.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace cleave;

namespace {
std::string getError(llvm::StringRef text) {
  auto tactics = parseTactics(text, "t");
  return tactics ? "" : llvm::toString(tactics.takeError());
}

/// x [b, h] and w [f, h] to y [b, f]; then y is kept, and added to itself. Mesh
/// a=2, b=2.
ShardingProblem makeProblem() {
  ShardingProblem problem;
  problem.mesh = Mesh({{"a", 2}, {"b", 2}});
  problem.dims = {"batch", "hidden", "wide"};
  auto add = [&](llvm::StringRef rule, llvm::StringRef name,
                 llvm::ArrayRef<size_t> operands, size_t result,
                 llvm::ArrayRef<uint32_t> dims) {
    PlacedOp op;
    op.name = ("op " + name).str();
    op.label = name.str();
    op.dims.assign(dims.begin(), dims.end());
    op.operands.assign(operands.begin(), operands.end());
    op.results = {result};
    llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizes;
    for (llvm::StringRef factor : {"b", "h", "f"})
      if (rule.contains(factor))
        sizes.push_back({factor, 8});
    auto parsed = ShardingRule::parse(rule, sizes);
    ASSERT_TRUE(bool(parsed)) << llvm::toString(parsed.takeError());
    op.strategies = getStrategies(problem.mesh, *parsed);
    op.seconds.assign(op.strategies.size(), 1);
    problem.ops.push_back(std::move(op));
  };
  std::vector<Placement> anywhere = getWholePlacements(problem.mesh, {8, 8});
  for (bool isInput : {true, true, false, false, false})
    problem.tensors.push_back(
        {{8, 8}, 4, isInput ? anywhere : std::vector<Placement>()});
  add("b h, f h -> b f | reduce h | pass 0 | pass 1", "product", {0, 1}, 2,
      {1, 2, 4});
  add("b f -> b f | pass 0", "kept", {2}, 3, {1, 4});
  problem.ops.back().keeps = Keeps::Activations;
  problem.ops.back().layer = 3;
  add("b f, b f -> b f | pass 0 1", "layers.4.add", {3, 3}, 4, {1, 4});
  problem.ops.back().layer = 4;
  return problem;
}

std::vector<TacticEffect> apply(ShardingProblem &problem,
                                llvm::StringRef text) {
  auto tactics = parseTactics(text, "t");
  auto effects =
      tactics ? applyTactics(problem, *tactics)
              : llvm::Expected<std::vector<TacticEffect>>(tactics.takeError());
  if (effects)
    return *effects;
  ADD_FAILURE() << llvm::toString(effects.takeError());
  return std::vector<TacticEffect>(9);
}

std::string getApplyError(llvm::StringRef text) {
  ShardingProblem problem = makeProblem();
  auto effects = applyTactics(problem, llvm::cantFail(parseTactics(text, "t")));
  return effects ? "" : llvm::toString(effects.takeError());
}

/// Whether all strategies of an op split its factor along the axis.
bool isSplit(const ShardingProblem &problem, size_t op, size_t factor,
             Axis axis) {
  return llvm::all_of(problem.ops[op].strategies,
                      [&](const Strategy &strategy) {
                        return llvm::is_contained(strategy.axes[factor], axis);
                      });
}
} // namespace

TEST(Tactics, AreRead) {
  auto tactics = llvm::cantFail(
      parseTactics("# a comment\n"
                   "split \"heads\" over tp,cp # another\n\n"
                   "layers 0-3: \"*.mlp.*\": never keep optimizer over dp\n"
                   "layers 7: pin \"layers.*.up # 1\" to \"[{dp}, {}]\"\n"
                   "split nothing else",
                   "t"));
  ASSERT_EQ(tactics.size(), 4u);
  EXPECT_EQ(tactics[0].verb, Tactic::Verb::Split);
  EXPECT_EQ(tactics[0].dim, "heads");
  EXPECT_EQ(tactics[0].axes, (std::vector<std::string>{"tp", "cp"}));
  EXPECT_EQ(tactics[0].place, "t:2");
  EXPECT_EQ(tactics[1].verb, Tactic::Verb::Keep);
  EXPECT_TRUE(tactics[1].forbids);
  EXPECT_EQ(tactics[1].keeps, Keeps::Optimizer);
  EXPECT_EQ(tactics[1].layers, (std::pair<int64_t, int64_t>(0, 3)));
  EXPECT_EQ(tactics[1].patterns, std::vector<std::string>{"*.mlp.*"});
  EXPECT_EQ(tactics[1].line, 4u);
  EXPECT_EQ(tactics[2].verb, Tactic::Verb::Pin);
  EXPECT_EQ(tactics[2].placement, "[{dp}, {}]");
  EXPECT_EQ(tactics[2].patterns, std::vector<std::string>{"layers.*.up # 1"});
  EXPECT_EQ(tactics[2].layers, (std::pair<int64_t, int64_t>(7, 7)));
  EXPECT_EQ(tactics[3].verb, Tactic::Verb::SplitNothingElse);
}

TEST(Tactics, SayWhatIsWrongAndWhatIsLegal) {
  EXPECT_EQ(getError("\nsplits \"x\" over a"),
            "t:2: expects split, keep, pin, never or layers, got "
            "\"splits \"x\" over a\"");
  EXPECT_EQ(getError("split x over a"),
            "t:1: expects a dim's name in quotes, got \"x over a\"");
  EXPECT_EQ(getError("split \"x\" a"),
            "t:1: expects \"over\" and axes of the mesh, got \"a\"");
  EXPECT_EQ(getError("split \"x\" over"),
            "t:1: expects an axis of the mesh, got the end of the line");
  EXPECT_EQ(getError("split \"x\" over a b"),
            "t:1: expects the end of the line, got \"b\"");
  EXPECT_EQ(getError("keep weights over a"),
            "t:1: expects one of parameters, gradients, optimizer, "
            "activations, got \"weights over a\"");
  EXPECT_EQ(getError("never pin \"x\" to \"[]\""),
            "t:1: expects split or keep, got \"pin \"x\" to \"[]\"\"");
  EXPECT_EQ(getError("layers 3-1: split \"x\" over a"),
            "t:1: expects a layer\'s number, from 3, got \"1: split \"x\" "
            "over a\"");
  EXPECT_EQ(getError("layers 3 split \"x\" over a"),
            "t:1: expects \":\" after what the tactic is for, got "
            "\"split \"x\" over a\"");
  EXPECT_EQ(getError("split nothing"),
            "t:1: expects \"else\", got the end of the line");
  EXPECT_NE(getError("\"[\": split nothing else"), "");
}

TEST(Tactics, HoldInOrderWhereTheyCan) {
  ShardingProblem problem = makeProblem();
  auto effects = apply(problem, "split \"wide\" over b\n"
                                "split \"batch\" over a, b\n"
                                "layers 3: keep activations over a");
  EXPECT_EQ(effects[0].ops, 3u);
  EXPECT_EQ(effects[0].left, 0u);
  // Along b, the first line has split another dim.
  EXPECT_EQ(effects[1].ops, 3u);
  EXPECT_EQ(effects[1].left, 3u);
  EXPECT_EQ(effects[1].firstLeft, "op product");
  EXPECT_EQ(effects[2].ops, 1u);
  EXPECT_TRUE(isSplit(problem, 0, 0, 0));
  EXPECT_TRUE(isSplit(problem, 0, 2, 1));
  // The add may add sums that are yet to be reduced, too.
  EXPECT_FALSE(isSplit(problem, 2, 0, 0));
  for (const PlacedOp &op : problem.ops) {
    EXPECT_FALSE(op.strategies.empty());
    EXPECT_EQ(op.seconds.size(), op.strategies.size());
  }
}

TEST(Tactics, SplitNothingElse) {
  ShardingProblem problem = makeProblem();
  apply(problem, "split \"batch\" over a\n"
                 "split nothing else");
  for (const PlacedOp &op : problem.ops)
    for (const Strategy &strategy : op.strategies)
      for (const AxisList &axes : strategy.axes)
        EXPECT_FALSE(llvm::is_contained(axes, Axis(1)));
}

TEST(Tactics, Forbid) {
  ShardingProblem problem = makeProblem();
  apply(problem, "never split \"batch\" over a");
  for (const PlacedOp &op : problem.ops)
    for (const Strategy &strategy : op.strategies)
      EXPECT_FALSE(llvm::is_contained(strategy.axes[0], Axis(0)));
}

TEST(Tactics, ConflictsNameBothLines) {
  EXPECT_EQ(
      getApplyError("\"product\": split \"wide\" over a\n"
                    "never split \"wide\" over a"),
      "t:2: op product cannot do without it after t:1, \"product\": split "
      "\"wide\" over a");
  EXPECT_EQ(getApplyError("split \"batch\" over a\n"
                          "pin \"product\" to \"[{}, {a}]\""),
            "t:2: op product cannot make its result in that placement after "
            "t:1, split \"batch\" over a");
}

TEST(Tactics, NameWhatDoesNotExist) {
  EXPECT_EQ(getApplyError("split \"batch\" over c"),
            "t:1: the mesh has no axis \"c\"; it has a, b");
  EXPECT_EQ(
      getApplyError("split \"heads\" over a"),
      "t:1: no tensor has a dim \"heads\"; there are batch, hidden, wide");
  EXPECT_EQ(getApplyError("layers 7-9: split \"batch\" over a"),
            "t:1: is for no op");
  EXPECT_EQ(getApplyError("keep gradients over a"), "t:1: is for no op");
  EXPECT_EQ(getApplyError("split \"batch\" over a\nsplit \"wide\" over a"),
            "t:2: no op can keep to it: 3 of them, op product the first");
  EXPECT_NE(getApplyError("pin \"product\" to \"[{c}]\"").find("c"),
            std::string::npos);
  ShardingProblem problem = makeProblem();
  auto tactics = parseTactics("layers 7: split \"batch\" over a", "t");
  ASSERT_TRUE(bool(tactics));
  auto effects = applyTactics(problem, *tactics, /*allowsIdle=*/true);
  ASSERT_TRUE(bool(effects));
  EXPECT_EQ((*effects)[0].ops, 0u);
}

TEST(Tactics, OfOneRankAskNothing) {
  ShardingProblem problem = makeProblem();
  problem.mesh = Mesh({{"a", 1}, {"b", 4}});
  auto effects = apply(problem, "split \"batch\" over a");
  EXPECT_EQ(effects[0].ops, 0u);
}

TEST(Moves, AreWhatAChoiceTakesBesidesItsOps) {
  ShardingProblem problem = makeProblem();
  apply(problem, "pin \"product\" to \"[{a}, {b}]\"\n"
                 "pin \"layers.4.add\" to \"[{}, {}]\"");
  auto price = [](Step::Kind, llvm::ArrayRef<Axis> axes, double bytes) {
    return bytes * double(axes.size()) / 1024;
  };
  ShardingChoice choice = llvm::cantFail(chooseShardings(problem, price));
  std::vector<Move> moves = getMoves(problem, choice, price);
  double sum = 0;
  for (const Move &move : moves)
    sum += move.getSeconds();
  // Each of three ops takes a second.
  EXPECT_EQ(3 + sum, choice.seconds);
  std::vector<CollectiveTotal> totals = getTotals(moves);
  // Gathered along one axis, then along the other.
  ASSERT_EQ(totals.size(), 2u);
  for (const CollectiveTotal &total : totals) {
    EXPECT_EQ(total.kind, Step::Kind::AllGather);
    EXPECT_EQ(total.axes.size(), 1u);
    EXPECT_EQ(total.count, 1);
  }
  EXPECT_EQ(totals[0].bytes + totals[1].bytes, 256 + 128);
}
