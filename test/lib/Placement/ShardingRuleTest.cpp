//===- ShardingRuleTest.cpp - Type checking and inference over factors ----===//
#include "cleave/Placement/ShardingRule.h"
#include "gtest/gtest.h"

using namespace cleave;
using llvm::ArrayRef;
using llvm::StringRef;

namespace {

const Mesh mesh({{"dp", 2}, {"tp", 4}});
const llvm::SmallVector<std::pair<StringRef, int64_t>> sizes = {
    {"b", 8}, {"s", 16}, {"h", 32}, {"f", 64}, {"v", 4},
    {"g", 4}, {"d", 8},  {"k", 16}, {"w", 96}, {"m", 2}};

ShardingRule parseRule(StringRef text) {
  return llvm::cantFail(ShardingRule::parse(text, sizes));
}

llvm::SmallVector<Placement> parsePlacements(ArrayRef<StringRef> texts) {
  llvm::SmallVector<Placement> placements;
  for (StringRef text : texts)
    placements.push_back(llvm::cantFail(Placement::parse(mesh, text)));
  return placements;
}

/// The checker's message; empty if it accepts.
std::string check(StringRef rule, ArrayRef<StringRef> operands,
                  ArrayRef<StringRef> results) {
  return llvm::toString(checkRule(mesh, parseRule(rule),
                                  parsePlacements(operands),
                                  parsePlacements(results)));
}

std::string getParseError(StringRef text) {
  return llvm::toString(ShardingRule::parse(text, sizes).takeError());
}

/// Factors by name, split so; e.g. {{"h", {1}}}.
FactorAxes getAxes(const ShardingRule &rule,
                   ArrayRef<std::pair<StringRef, AxisList>> split) {
  FactorAxes axes(rule.factors.size());
  for (auto &[name, list] : split)
    axes[*rule.getFactor(name)] = list;
  return axes;
}

constexpr StringRef linear = "b s h, f h -> b s f | reduce h | pass 0 | pass 1";
constexpr StringRef linearBias =
    "b s h, f h, f -> b s f | reduce h | pass 0 2 | pass 1 2 | add 2";
constexpr StringRef attention =
    "b s (v g) d, b k v d, b k v d -> b s (v g) d, b (v g) s | reduce d k | "
    "block s d k: softmax runs over whole rows";
constexpr StringRef add = "b s h, b s h -> b s h | pass 0 1";
constexpr StringRef embedding = "b s, w h -> b s h | reduce w | pass 1";

TEST(ShardingRule, TextRoundTrips) {
  for (StringRef text :
       {linear, linearBias, attention, add, embedding, StringRef("-> b h"),
        StringRef("b 1 -> . | reduce b"), StringRef("b s w -> b s | max w"),
        StringRef("b h -> b h | passmax 0 | block h: why: not")})
    EXPECT_EQ(parseRule(text).toString(), text.str());
  EXPECT_EQ(parseRule(attention), parseRule(parseRule(attention).toString()));
  EXPECT_FALSE(parseRule(linear) == parseRule(linearBias));
}

TEST(ShardingRule, ShapesFollowFromFactors) {
  ShardingRule rule = parseRule(attention);
  EXPECT_EQ(rule.getShape(rule.operands[0]),
            (llvm::SmallVector<int64_t, 4>{8, 16, 16, 8}));
  EXPECT_EQ(rule.getShape(parseRule("b 1 -> b 1").operands[0]),
            (llvm::SmallVector<int64_t, 4>{8, 1}));
}

TEST(ShardingRule, MalformedRules) {
  EXPECT_EQ(getParseError("b s"), "expects \"->\" between operands and results "
                                  "of a sharding rule");
  EXPECT_EQ(getParseError("b z -> b"), "expects a size for factor \"z\"");
  EXPECT_EQ(getParseError("b s -> b"),
            "expects factor \"s\", which result 0 lacks, to be reduced or "
            "blocked");
  EXPECT_EQ(getParseError("s s -> s"),
            "expects factor \"s\" at most once in a tensor");
  EXPECT_EQ(getParseError("b (s -> b"), "expects \")\" in a sharding rule");
  EXPECT_EQ(getParseError("b s) -> b"), "unexpected \")\" in a sharding rule");
  EXPECT_EQ(getParseError("b, , b -> b"),
            "expects the dims of a tensor, or \".\"");
  EXPECT_EQ(getParseError("b -> b | pass 1"), "no operand 1 to pass");
  EXPECT_EQ(getParseError("b, b -> b | pass 1 0"),
            "expects the operands to pass in ascending order");
  EXPECT_EQ(getParseError("b -> b | pass"), "expects operands to pass");
  EXPECT_EQ(getParseError("b -> b | pass x"),
            "expects the number of an operand, got \"x\"");
  EXPECT_EQ(getParseError("b -> b | block b"),
            "expects \": reason\" after blocked factors");
  EXPECT_EQ(getParseError("b -> b | reduce s"),
            "no factor \"s\" in the tensors of the rule");
  EXPECT_EQ(getParseError("b -> b | sum b"),
            "expects \"reduce\", \"max\", \"pass\", \"passmax\", \"add\" or "
            "\"block\", got \"sum\"");
  EXPECT_EQ(getParseError("b h -> b | reduce h | add 0"),
            "expects operand 0, which is added outside of the reduction, not "
            "to have the reduced factor \"h\"");
  EXPECT_EQ(
      llvm::toString(ShardingRule::parse("b -> b", {{"b", 0}}).takeError()),
      "expects factor \"b\" to have a size of at least 1, got 0");
}

TEST(CheckRule, LinearColumnThenRowParallel) {
  EXPECT_EQ(
      check(linear, {"[{dp}, {}, {}]", "[{tp}, {}]"}, {"[{dp}, {}, {tp}]"}),
      "");
  EXPECT_EQ(check(linear, {"[{dp}, {}, {tp}]", "[{}, {tp}]"},
                  {"[{dp}, {}, {}] partial={tp}"}),
            "");
  // A forgotten all-reduce is a type error.
  EXPECT_EQ(
      check(linear, {"[{dp}, {}, {tp}]", "[{}, {tp}]"}, {"[{dp}, {}, {}]"}),
      "expects result 0 to be partial over axis \"tp\", which splits "
      "factor \"h\"");
  EXPECT_EQ(check(linear, {"[{dp}, {}, {tp}]", "[{}, {tp}]"},
                  {"[{dp}, {}, {}] partial=max{tp}"}),
            "expects result 0 partial over axis \"tp\" by sum, got max");
  EXPECT_EQ(check(linear, {"[{dp}, {}, {}]", "[{}, {}]"},
                  {"[{dp}, {}, {}] partial={tp}"}),
            "expects result 0 not to be partial over axis \"tp\"");
  EXPECT_EQ(check(linear, {"[{dp}, {}, {tp}]", "[{}, {}]"},
                  {"[{dp}, {}, {}] partial={tp}"}),
            "expects operand 1 dim 1 to be split by {tp} over factor \"h\", as "
            "operand 0 dim 2 is, got {}");
  EXPECT_EQ(
      check(linear, {"[{dp}, {}, {}]", "[{tp}, {}]"}, {"[{dp}, {tp}, {}]"}),
      "expects result 0 dim 1 to be split by {} over factor \"s\", as "
      "operand 0 dim 1 is, got {tp}");
  EXPECT_EQ(
      check(linear, {"[{dp, tp}, {}, {}]", "[{}, {}]"}, {"[{tp, dp}, {}, {}]"}),
      "expects result 0 dim 0 to be split by {dp, tp} over factor \"b\", "
      "as operand 0 dim 0 is, got {tp, dp}");
  EXPECT_EQ(
      check(linear, {"[{tp}, {}, {}]", "[{tp}, {}]"}, {"[{tp}, {}, {tp}]"}),
      "expects axis \"tp\" to split one factor, got \"b\" and \"f\"");
}

TEST(CheckRule, PartialOperandsPassOneAtATime) {
  EXPECT_EQ(check(linear, {"[{}, {}, {}] partial={dp}", "[{tp}, {}]"},
                  {"[{}, {}, {tp}] partial={dp}"}),
            "");
  EXPECT_EQ(check(linear,
                  {"[{}, {}, {}] partial={dp}", "[{}, {}] partial={tp}"},
                  {"[{}, {}, {}] partial={dp, tp}"}),
            "");
  EXPECT_EQ(
      check(linear, {"[{}, {}, {}] partial={dp}", "[{}, {}] partial={dp}"},
            {"[{}, {}, {}] partial={dp}"}),
      "the op does not let operands partial over axis \"dp\" pass if they "
      "are just {0, 1}");
  EXPECT_EQ(check(linear, {"[{}, {}, {}] partial={dp}", "[{}, {}]"},
                  {"[{}, {}, {}]"}),
            "expects result 0 to be partial over axis \"dp\", as operands {0} "
            "are");
  EXPECT_EQ(check(linear, {"[{}, {}, {}] partial=max{dp}", "[{}, {}]"},
                  {"[{}, {}, {}] partial=max{dp}"}),
            "expects operand 0 partial over axis \"dp\" by sum, got max");
  EXPECT_EQ(check(linear, {"[{}, {}, {tp}]", "[{}, {tp}]"},
                  {"[{}, {}, {}] partial={dp, tp}"}),
            "expects result 0 not to be partial over axis \"dp\"");
  EXPECT_EQ(check(linear, {"[{}, {}, {}] partial={tp}", "[{tp}, {}]"},
                  {"[{}, {}, {tp}]"}),
            "expects operand 0 not to be partial over axis \"tp\", which "
            "splits factor \"f\"");
}

TEST(CheckRule, BiasIsAddedOnce) {
  EXPECT_EQ(check(linearBias, {"[{dp}, {}, {}]", "[{tp}, {}]", "[{tp}]"},
                  {"[{dp}, {}, {tp}]"}),
            "");
  EXPECT_EQ(check(linearBias, {"[{}, {}, {tp}]", "[{}, {tp}]", "[{}]"},
                  {"[{}, {}, {}] partial={tp}"}),
            "expects operand 2 to be partial over axis \"tp\", which splits "
            "factor \"h\": each rank adds it");
  EXPECT_EQ(check(linearBias,
                  {"[{}, {}, {tp}]", "[{}, {tp}]", "[{}] partial={tp}"},
                  {"[{}, {}, {}] partial={tp}"}),
            "");
  EXPECT_EQ(
      check(linearBias, {"[{}, {}, {}] partial={dp}", "[{}, {}]", "[{}]"},
            {"[{}, {}, {}] partial={dp}"}),
      "the op does not let operands partial over axis \"dp\" pass if they "
      "are just {0}");
}

TEST(CheckRule, GroupedHeads) {
  // 16 query heads, 4 key heads.
  EXPECT_EQ(check(attention,
                  {"[{dp}, {}, {tp}, {}]", "[{dp}, {}, {tp}, {}]",
                   "[{dp}, {}, {tp}, {}]"},
                  {"[{dp}, {}, {tp}, {}]", "[{dp}, {tp}, {}]"}),
            "");
  EXPECT_EQ(check(attention,
                  {"[{}, {}, {tp, dp}, {}]", "[{}, {}, {tp}, {}]",
                   "[{}, {}, {tp}, {}]"},
                  {"[{}, {}, {tp, dp}, {}]", "[{}, {tp, dp}, {}]"}),
            "");
  // Query heads 0..7 need key heads 0..1, yet the rank has all four: the group
  // cannot be split while key heads are not split down to 1.
  EXPECT_EQ(
      check(attention,
            {"[{}, {}, {dp}, {}]", "[{}, {}, {}, {}]", "[{}, {}, {}, {}]"},
            {"[{}, {}, {dp}, {}]", "[{}, {dp}, {}]"}),
      "expects factor \"v\" (size 4) to be split down to 1 by {}, since "
      "factor \"g\" beside it is split by {dp}");
  EXPECT_EQ(check(attention,
                  {"[{}, {}, {dp, tp}, {}]", "[{}, {}, {dp}, {}]",
                   "[{}, {}, {dp}, {}]"},
                  {"[{}, {}, {dp, tp}, {}]", "[{}, {dp, tp}, {}]"}),
            "expects factor \"v\" (size 4) to be split down to 1 by {dp}, "
            "since factor \"g\" beside it is split by {tp}");
  EXPECT_EQ(
      check(attention,
            {"[{}, {dp}, {}, {}]", "[{}, {}, {}, {}]", "[{}, {}, {}, {}]"},
            {"[{}, {dp}, {}, {}]", "[{}, {}, {dp}]"}),
      "factor \"s\" cannot be split by {dp}: softmax runs over whole "
      "rows");
  EXPECT_EQ(
      check(attention,
            {"[{}, {}, {tp}, {}]", "[{}, {}, {tp}, {}]", "[{}, {}, {tp}, {}]"},
            {"[{}, {}, {tp}, {}]", "[{}, {}, {}]"}),
      "expects result 1 dim 1 to be split by {tp} over factor \"v\", as "
      "operand 1 dim 2 is, got {}");
  EXPECT_EQ(check("(v g) -> (v g)", {"[{tp, dp}]"}, {"[{tp, dp}]"}), "");
  EXPECT_EQ(check("(m v) -> (m v)", {"[{tp}]"}, {"[{tp}]"}),
            "expects factor \"m\" (size 2) to be split down to 1 by {}, since "
            "factor \"v\" beside it is split by {tp}");
}

TEST(CheckRule, KeyHeadsFewerThanRanks) {
  EXPECT_EQ(check("b (m g), b m -> b (m g)", {"[{}, {tp}]", "[{}, {tp}]"},
                  {"[{}, {tp}]"}),
            "expects factor \"m\" (size 2) to be divisible by {tp} (size 4)");
  EXPECT_EQ(check("(m s) -> m s", {"[{dp, tp}]"}, {"[{dp}, {tp}]"}), "");
}

TEST(CheckRule, VocabularyParallelEmbedding) {
  EXPECT_EQ(check(embedding, {"[{dp}, {}]", "[{tp}, {}]"},
                  {"[{dp}, {}, {}] partial={tp}"}),
            "");
  EXPECT_EQ(
      check(embedding, {"[{dp}, {}]", "[{}, {tp}]"}, {"[{dp}, {}, {tp}]"}), "");
  EXPECT_EQ(
      check(embedding, {"[{dp}, {}] partial={tp}", "[{}, {}]"},
            {"[{dp}, {}, {}] partial={tp}"}),
      "the op does not let operands partial over axis \"tp\" pass if they "
      "are just {0}");
}

TEST(CheckRule, AddPassesPartialJointly) {
  StringRef partial = "[{dp}, {}, {}] partial={tp}", whole = "[{dp}, {}, {}]";
  EXPECT_EQ(check(add, {partial, partial}, {partial}), "");
  EXPECT_EQ(check(add, {whole, whole}, {whole}), "");
  EXPECT_EQ(
      check(add, {partial, whole}, {partial}),
      "the op does not let operands partial over axis \"tp\" pass if they "
      "are just {0}");
  EXPECT_EQ(check(add, {partial, partial}, {whole}),
            "expects result 0 to be partial over axis \"tp\", as operands "
            "{0, 1} are");
}

TEST(CheckRule, MaximumOverVocabulary) {
  StringRef rowMax = "b s w -> b s | max w | passmax 0";
  EXPECT_EQ(check(rowMax, {"[{dp}, {}, {tp}]"}, {"[{dp}, {}] partial=max{tp}"}),
            "");
  EXPECT_EQ(check(rowMax, {"[{dp}, {}, {tp}]"}, {"[{dp}, {}] partial={tp}"}),
            "expects result 0 partial over axis \"tp\" by max, got sum");
  EXPECT_EQ(check(rowMax, {"[{}, {}, {tp}] partial=max{dp}"},
                  {"[{}, {}] partial=max{dp, tp}"}),
            "");
}

TEST(CheckRule, ResultsDifferInWhatTheyLack) {
  StringRef norm = "b h, h -> b h, h | reduce b";
  EXPECT_EQ(check(norm, {"[{dp}, {tp}]", "[{tp}]"},
                  {"[{dp}, {tp}]", "[{tp}] partial={dp}"}),
            "");
  EXPECT_EQ(check(norm, {"[{dp}, {tp}]", "[{tp}]"}, {"[{dp}, {tp}]", "[{tp}]"}),
            "expects result 1 to be partial over axis \"dp\", which splits "
            "factor \"b\"");
}

TEST(CheckRule, Counts) {
  EXPECT_EQ(check(add, {"[{}, {}, {}]"}, {"[{}, {}, {}]"}),
            "expects 2 placements of operands, got 1");
  EXPECT_EQ(check(add, {"[{}, {}]", "[{}, {}, {}]"}, {"[{}, {}, {}]"}),
            "expects operand 0 to have 3 dims, got 2");
  EXPECT_EQ(check("b 1 -> b 1", {"[{}, {tp}]"}, {"[{}, {tp}]"}),
            "expects operand 0 dim 1 to be whole, got {tp}");
}

/// inferPlacements as text: operands, then results.
llvm::SmallVector<std::string>
infer(StringRef text, ArrayRef<std::pair<StringRef, AxisList>> split,
      ArrayRef<StringRef> operands) {
  ShardingRule rule = parseRule(text);
  auto placements = inferPlacements(mesh, rule, getAxes(rule, split),
                                    parsePlacements(operands));
  if (!placements)
    return {llvm::toString(placements.takeError())};
  // Whatever is inferred type checks.
  EXPECT_EQ(llvm::toString(checkRule(mesh, rule, placements->operands,
                                     placements->results)),
            "");
  llvm::SmallVector<std::string> texts;
  for (const Placement &placement : placements->operands)
    texts.push_back(placement.toString(mesh));
  for (const Placement &placement : placements->results)
    texts.push_back(placement.toString(mesh));
  return texts;
}

using Texts = llvm::SmallVector<std::string>;

TEST(InferPlacements, Linear) {
  EXPECT_EQ(
      infer(linear, {{"b", {0}}, {"h", {1}}}, {"[{dp}, {}, {}]", "[{}, {tp}]"}),
      (Texts{"[{dp}, {}, {tp}]", "[{}, {tp}]", "[{dp}, {}, {}] partial={tp}"}));
  EXPECT_EQ(
      infer(linear, {{"f", {1}}}, {"[{}, {}, {}] partial={dp}", "[{tp}, {}]"}),
      (Texts{"[{}, {}, {}] partial={dp}", "[{tp}, {}]",
             "[{}, {}, {tp}] partial={dp}"}));
  // Partial along the axis that splits a factor: has to be reduced.
  EXPECT_EQ(
      infer(linear, {{"f", {1}}}, {"[{}, {}, {}] partial={tp}", "[{tp}, {}]"}),
      (Texts{"[{}, {}, {}]", "[{tp}, {}]", "[{}, {}, {tp}]"}));
  // Both partial: one passes.
  EXPECT_EQ(
      infer(linear, {}, {"[{}, {}, {}] partial={dp}", "[{}, {}] partial={dp}"}),
      (Texts{"[{}, {}, {}] partial={dp}", "[{}, {}]",
             "[{}, {}, {}] partial={dp}"}));
}

TEST(InferPlacements, AddReducesALonePartial) {
  EXPECT_EQ(infer(add, {{"b", {0}}},
                  {"[{dp}, {}, {}] partial={tp}", "[{dp}, {}, {}]"}),
            (Texts{"[{dp}, {}, {}]", "[{dp}, {}, {}]", "[{dp}, {}, {}]"}));
  EXPECT_EQ(
      infer(add, {{"s", {1}}}, {"[{}, {}, {}] partial={tp}", "[{dp}, {}, {}]"}),
      (Texts{"[{}, {tp}, {}]", "[{}, {tp}, {}]", "[{}, {tp}, {}]"}));
}

TEST(InferPlacements, GroupedHeads) {
  EXPECT_EQ(infer(attention, {{"v", {1}}, {"g", {0}}},
                  {"[{}, {}, {}, {}]", "[{}, {}, {}, {}]", "[{}, {}, {}, {}]"}),
            (Texts{"[{}, {}, {tp, dp}, {}]", "[{}, {}, {tp}, {}]",
                   "[{}, {}, {tp}, {}]", "[{}, {}, {tp, dp}, {}]",
                   "[{}, {tp, dp}, {}]"}));
}

TEST(InferPlacements, Refusals) {
  EXPECT_EQ(
      infer(linearBias, {{"h", {1}}}, {"[{}, {}, {tp}]", "[{}, {tp}]", "[{}]"}),
      (Texts{"factor \"h\" cannot be split by axis \"tp\": operand 2 is "
             "added outside of the reduction and is not partial"}));
  EXPECT_EQ(infer("b h w -> b | reduce h | max w", {{"h", {0}}, {"w", {1}}},
                  {"[{}, {dp}, {tp}]"}),
            (Texts{"the op would give a value that is partial by sum and by "
                   "max"}));
  EXPECT_EQ(infer(attention, {{"d", {0}}},
                  {"[{}, {}, {}, {}]", "[{}, {}, {}, {}]", "[{}, {}, {}, {}]"}),
            (Texts{"factor \"d\" cannot be split by {dp}: softmax runs over "
                   "whole rows"}));
}

TEST(GetFactorAxes, OfOneTensor) {
  ShardingRule rule = parseRule(attention);
  auto parse = [&](StringRef text) {
    return llvm::cantFail(Placement::parse(mesh, text));
  };
  EXPECT_EQ(llvm::cantFail(getFactorAxes(mesh, rule, rule.operands[0],
                                         parse("[{}, {}, {tp, dp}, {}]"))),
            getAxes(rule, {{"v", {1}}, {"g", {0}}}));
  ShardingRule compound = parseRule("(m v) -> (m v)");
  EXPECT_EQ(llvm::toString(getFactorAxes(mesh, compound, compound.operands[0],
                                         parse("[{tp, dp}]"))
                               .takeError()),
            "expects tensor dim 0 to be split by axes that its factors have, "
            "got also {dp}");
}

} // namespace
