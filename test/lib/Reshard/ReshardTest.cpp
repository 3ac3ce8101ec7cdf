//===- ReshardTest.cpp - Known plans, refusals and single steps -----------===//
#include "Ring.h"
#include "gtest/gtest.h"

using namespace cleave;
using llvm::StringRef;

namespace {

const Mesh mesh({{"dp", 2}, {"tp", 4}});
const RingPricer uniform(mesh, 1e-6, {1e-6, 1e9});

Placement parse(StringRef text) {
  return llvm::cantFail(Placement::parse(mesh, text));
}

/// The plan for a 64 x 64 (x 64) tensor of bf16, one line a step.
std::string plan(StringRef from, StringRef to,
                 CollectivePricer price = uniform) {
  Placement source = parse(from);
  llvm::SmallVector<int64_t> shape(source.dims.size(), 64);
  auto steps = planReshard(mesh, shape, source, parse(to), 2, price);
  if (!steps)
    return llvm::toString(steps.takeError());
  std::string text;
  for (const Step &step : *steps)
    text += step.toString(mesh) + "\n";
  return text;
}

std::string apply(StringRef from, Step step) {
  Placement source = parse(from);
  llvm::SmallVector<int64_t> shape(source.dims.size(), 12);
  auto after = applyStep(mesh, shape, source, step);
  return after ? after->toString(mesh) : llvm::toString(after.takeError());
}

TEST(PlanReshard, OneCollectiveEach) {
  EXPECT_EQ(plan("[{}, {tp}]", "[{}, {tp}]"), "");
  EXPECT_EQ(plan("[{dp}, {}] partial={tp}", "[{dp}, {}]"),
            "all_reduce over {tp}\n");
  EXPECT_EQ(plan("[{dp}, {}] partial={tp}", "[{dp}, {tp}]"),
            "reduce_scatter over {tp}, dim 1\n");
  EXPECT_EQ(plan("[{dp}, {tp}]", "[{dp}, {}]"),
            "all_gather over {tp}, dim 1\n");
  EXPECT_EQ(plan("[{tp}, {}]", "[{}, {tp}]"),
            "all_to_all over {tp}, dim 0 to dim 1\n");
  EXPECT_EQ(plan("[{}, {}]", "[{dp}, {tp}]"),
            "slice over {dp}, dim 0\nslice over {tp}, dim 1\n");
  EXPECT_EQ(plan("[{}, {}]", "[{tp, dp}, {}]"), "slice over {tp, dp}, dim 0\n");
  EXPECT_EQ(plan("[{dp, tp}, {}]", "[{}, {dp, tp}]"),
            "all_to_all over {dp, tp}, dim 0 to dim 1\n");
  EXPECT_EQ(plan("[{}, {}] partial={dp, tp}", "[{}, {}] partial={tp}"),
            "all_reduce over {dp}\n");
}

TEST(PlanReshard, ReducesWhereTheValueIsSmall) {
  // [{dp}] partial={tp} to a copy everywhere: reducing the whole would be
  // twice the bytes.
  EXPECT_EQ(plan("[{dp}, {}] partial={tp}", "[{}, {}]"),
            "all_reduce over {tp}\nall_gather over {dp}, dim 0\n");
}

TEST(PlanReshard, SlowAxisSeesTheSmallestPieces) {
  // Between nodes (dp) 100 times slower than inside: scatter inside, reduce
  // across, gather inside.
  RingPricer price = uniform;
  price.axes[0].bandwidth = 1e7;
  EXPECT_EQ(plan("[{}, {}] partial={dp, tp}", "[{}, {}]", price),
            "reduce_scatter over {tp}, dim 0\nall_reduce over {dp}\n"
            "all_gather over {tp}, dim 0\n");
}

TEST(PlanReshard, SwapsAxesWithoutGatheringAll) {
  std::string text = plan("[{dp, tp}, {}, {}]", "[{tp, dp}, {}, {}]");
  EXPECT_EQ(StringRef(text).count("all_to_all"), 3u) << text;
  EXPECT_EQ(StringRef(text).count("all_gather"), 0u) << text;
}

TEST(PlanReshard, Refusals) {
  EXPECT_EQ(plan("[{}, {}]", "[{}, {}] partial={tp}"),
            "cannot make a value partial over axis \"tp\": [{}, {}] -> "
            "[{}, {}] partial={tp}");
  EXPECT_EQ(plan("[{}, {}] partial={tp}", "[{}, {}] partial=max{tp}"),
            "cannot change the reduction of a partial value: [{}, {}] "
            "partial={tp} -> [{}, {}] partial=max{tp}");
  auto planFor = [](llvm::ArrayRef<int64_t> shape, const Mesh &mesh) {
    Placement whole = Placement::getReplicated(shape.size());
    Placement split = whole;
    split.dims[0] = {0};
    return llvm::toString(
        planReshard(mesh, shape, whole, split, 4, uniform).takeError());
  };
  EXPECT_EQ(planFor({5}, mesh),
            "expects dim 0 (size 5) to be divisible by axis \"dp\" (size 2)");
  Mesh wide(llvm::SmallVector<MeshAxis>(9, {"x", 1}));
  EXPECT_EQ(planFor({4}, wide),
            "resharding handles at most 8 axes and 13 dims, got 9 and 1");
}

TEST(ApplyStep, Refusals) {
  using Kind = Step::Kind;
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::AllReduce, {1}, 0, 0, {}}),
            "expects a value partial over axis \"tp\", got [{dp}, {}]");
  EXPECT_EQ(apply("[{dp, tp}, {}]", {Kind::AllGather, {0}, 0, 0, {}}),
            "expects dim 0 to be split last by {dp}, got {dp, tp}");
  EXPECT_EQ(apply("[{dp, tp}, {}]", {Kind::AllGather, {1, 0}, 0, 0, {}}),
            "expects dim 0 to be split last by {tp, dp}, got {dp, tp}");
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::Slice, {0}, 1, 0, {}}),
            "expects axis \"dp\" to be used once in a placement");
  EXPECT_EQ(apply("[{}, {}] partial={dp}", {Kind::Slice, {0}, 1, 0, {}}),
            "expects axis \"dp\" to be used once in a placement");
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::Slice, {1}, 0, 0, {}}),
            "expects dim 0 (size 12) to be divisible by axes {dp, tp} (size "
            "8)");
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::Slice, {}, 0, 0, {}}),
            "expects a step over at least one axis");
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::Slice, {1}, 2, 0, {}}),
            "expects a dim of a tensor of rank 2, got dim 2");
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::AllToAll, {0}, 0, 0, {}}),
            "expects an all_to_all between two dims, got dim 0 twice");
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::AllToAll, {0}, 0, 5, {}}),
            "expects a dim of a tensor of rank 2, got dim 5");
  EXPECT_EQ(apply("[{dp}, {}]", {Kind::Slice, {3}, 0, 0, {}}),
            "expects axes of a mesh with 2 axes, got axis number 3");
}

TEST(GetStepSeconds, Formulas) {
  // 64 x 64 x 2 bytes = 8192; 4 ranks; 1e9 B/s, 1 us a hop, 1 us a launch.
  auto seconds = [](StringRef from, Step step) {
    return getStepSeconds(mesh, {64, 64}, parse(from), step, 2, uniform);
  };
  using Kind = Step::Kind;
  EXPECT_NEAR(
      seconds("[{}, {}] partial={tp}", {Kind::AllReduce, {1}, 0, 0, {}}),
      1e-6 + 6e-6 + 1.5 * 8192e-9, 1e-11);
  EXPECT_NEAR(
      seconds("[{}, {}] partial={tp}", {Kind::ReduceScatter, {1}, 0, 0, {}}),
      1e-6 + 3e-6 + 0.75 * 8192e-9, 1e-11);
  EXPECT_NEAR(seconds("[{tp}, {}]", {Kind::AllGather, {1}, 0, 0, {}}),
              1e-6 + 3e-6 + 0.75 * 8192e-9, 1e-11);
  EXPECT_NEAR(seconds("[{tp}, {}]", {Kind::AllToAll, {1}, 0, 1, {}}),
              1e-6 + 3e-6 + 0.75 * 2048e-9, 1e-11);
  EXPECT_EQ(seconds("[{}, {}]", {Kind::Slice, {1}, 0, 0, {}}), 0);
}

} // namespace
