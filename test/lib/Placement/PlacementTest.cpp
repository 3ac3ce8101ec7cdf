//===- PlacementTest.cpp - Placements of single tensors -------------------===//
#include "cleave/Placement/Placement.h"
#include "gtest/gtest.h"

using namespace cleave;

namespace {

const Mesh mesh({{"dp", 2}, {"cp", 3}, {"tp", 4}});

std::string getError(const Placement &placement,
                     llvm::ArrayRef<int64_t> shape) {
  return llvm::toString(placement.verify(mesh, shape));
}

std::string getParseError(llvm::StringRef text) {
  return llvm::toString(Placement::parse(mesh, text).takeError());
}

TEST(Placement, TextRoundTrips) {
  for (llvm::StringRef text :
       {"[]", "[{dp}, {}, {tp}]", "[{tp, dp}, {}] partial={cp}",
        "[] partial={dp, tp}", "[{}] partial=max{tp}"}) {
    auto placement = Placement::parse(mesh, text);
    ASSERT_TRUE(static_cast<bool>(placement)) << text.str();
    EXPECT_EQ(placement->toString(mesh), text);
  }
  EXPECT_EQ(Placement({{2}, {}}, {1, 0}).toString(mesh),
            "[{tp}, {}] partial={dp, cp}");
}

TEST(Placement, TextErrors) {
  EXPECT_EQ(getParseError("[{ep}]"),
            R"(no axis "ep" in the mesh ["dp"=2, "cp"=3, "tp"=4])");
  EXPECT_EQ(getParseError("{tp}"),
            R"(expects a placement, such as "[{dp}, {}]", got "{tp}")");
  EXPECT_EQ(getParseError("[tp]"),
            R"(expects axes in braces, such as "{tp}", at "tp]")");
  EXPECT_EQ(getParseError("[{tp"),
            R"(expects axes in braces, such as "{tp}", at "{tp")");
  EXPECT_EQ(getParseError("[{tp} {}]"), R"(expects "," or "]" at "{}]")");
  EXPECT_EQ(getParseError("[{tp}"), R"(expects "," or "]" at "")");
  EXPECT_EQ(getParseError("[{tp}] sum"), R"(expects "partial=" at "sum")");
  EXPECT_EQ(getParseError("[{}] partial={tp} x"),
            R"(expects the placement to end before " x")");
}

TEST(Placement, EqualityAndHash) {
  Placement sum({{0}, {}}, {2});
  Placement max({{0}, {}}, {2}, Reduction::Max);
  EXPECT_EQ(sum, Placement({{0}, {}}, {2}));
  EXPECT_FALSE(sum == max);
  EXPECT_FALSE(sum == Placement({{0}, {2}}, {}));
  EXPECT_FALSE(Placement({{0, 1}}, {}) == Placement({{1, 0}}, {}));
  // Without partial axes the reduction means nothing.
  Placement whole({{0}, {}}, {}, Reduction::Max);
  EXPECT_EQ(whole, Placement({{0}, {}}, {}));
  EXPECT_EQ(hash_value(whole), hash_value(Placement({{0}, {}}, {})));
  EXPECT_NE(hash_value(sum), hash_value(max));
  EXPECT_NE(hash_value(Placement({{0, 1}, {}}, {})),
            hash_value(Placement({{0}, {1}}, {})));
}

TEST(Placement, Verify) {
  EXPECT_EQ(getError(Placement({{0}, {2}}, {1}), {4, 8}), "");
  EXPECT_EQ(getError(Placement({{2, 1}}, {}), {24}), "");
  EXPECT_EQ(getError(Placement({{}, {2}}, {}), {4, 10}),
            R"(expects dim 1 (size 10) to be divisible by axis "tp" (size 4))");
  EXPECT_EQ(getError(Placement({{0, 2}}, {}), {12}),
            "expects dim 0 (size 12) to be divisible by axes {dp, tp} "
            "(size 8)");
  EXPECT_EQ(getError(Placement({{2}, {2}}, {}), {4, 4}),
            R"(expects axis "tp" to be used once in a placement)");
  EXPECT_EQ(getError(Placement({{2}}, {2}), {4}),
            R"(expects axis "tp" to be used once in a placement)");
  EXPECT_EQ(getError(Placement({{7}}, {}), {4}),
            "expects axes of a mesh with 3 axes, got axis number 7");
  EXPECT_EQ(getError(Placement({{0}}, {}), {4, 4}),
            "expects a placement for a tensor of rank 2, got one with 1 dims");
  Placement unsorted = Placement::getReplicated(1);
  unsorted.partial = {2, 0};
  EXPECT_EQ(getError(unsorted, {4}), "expects partial axes in mesh order");
}

TEST(Placement, ShardsTileTheTensor) {
  // Ranks that differ on no used axis hold the same shard; together the shards
  // cover each element as often as there are copies.
  llvm::SmallVector<int64_t, 4> shape = {24, 12};
  for (const Placement &placement :
       {Placement({{2, 0}, {1}}, {}), Placement({{0, 2}, {}}, {1}),
        Placement({{}, {1, 0}}, {})}) {
    ASSERT_EQ(getError(placement, shape), "");
    auto local = placement.getLocalShape(mesh, shape);
    std::vector<int> seen(24 * 12);
    for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
      auto offsets = placement.getLocalOffsets(mesh, shape, rank);
      for (int64_t i = 0; i < local[0]; ++i)
        for (int64_t j = 0; j < local[1]; ++j)
          ++seen[(offsets[0] + i) * 12 + offsets[1] + j];
    }
    int copies = 24 * local[0] * local[1] / (24 * 12);
    EXPECT_EQ(seen, std::vector<int>(24 * 12, copies));
  }
}

TEST(Placement, Queries) {
  Placement placement({{0}, {}}, {2});
  EXPECT_TRUE(placement.isSplitBy(0));
  EXPECT_FALSE(placement.isSplitBy(2));
  EXPECT_TRUE(placement.isPartialOver(2));
  EXPECT_FALSE(placement.isReplicated());
  EXPECT_TRUE(Placement::getReplicated(2).isReplicated());
  EXPECT_FALSE(Placement({{}}, {1}).isReplicated());
}

} // namespace
