//===- MeshTest.cpp - Ranks, coordinates and groups -----------------------===//
#include "cleave/Mesh/Mesh.h"
#include "gtest/gtest.h"

using namespace cleave;

namespace {

std::string getMessage(llvm::Error error) {
  return llvm::toString(std::move(error));
}

const Mesh mesh({{"dp", 2}, {"cp", 3}, {"tp", 4}});

TEST(Mesh, LastAxisIsNeighbouringRanks) {
  EXPECT_EQ(mesh.getNumRanks(), 24);
  EXPECT_EQ(mesh.getCoordinates(1), (llvm::SmallVector<int64_t, 4>{0, 0, 1}));
  EXPECT_EQ(mesh.getCoordinates(23), (llvm::SmallVector<int64_t, 4>{1, 2, 3}));
}

TEST(Mesh, ShardIndexIsMixedRadixMajorFirst) {
  int64_t rank = 1 * 12 + 2 * 4 + 3;
  EXPECT_EQ(mesh.getShardIndex(rank, {}), 0);
  EXPECT_EQ(mesh.getShardIndex(rank, {1}), 2);
  EXPECT_EQ(mesh.getShardIndex(rank, {0, 2}), 1 * 4 + 3);
  EXPECT_EQ(mesh.getShardIndex(rank, {2, 0}), 3 * 2 + 1);
}

TEST(Mesh, GroupsAreInTheOrderOfTheShardIndex) {
  llvm::SmallVector<AxisList> lists = {{},     {0},    {1},       {2},
                                       {0, 2}, {2, 0}, {2, 1, 0}, {0, 1, 2}};
  for (const AxisList &list : lists)
    for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
      auto group = mesh.getGroup(rank, list);
      ASSERT_EQ(static_cast<int64_t>(group.size()), mesh.getSize(list));
      EXPECT_EQ(group[mesh.getShardIndex(rank, list)], rank);
      for (auto [index, member] : llvm::enumerate(group)) {
        EXPECT_EQ(mesh.getShardIndex(member, list),
                  static_cast<int64_t>(index));
        for (Axis axis = 0; axis < 3; ++axis)
          if (!llvm::is_contained(list, axis)) {
            EXPECT_EQ(mesh.getCoordinate(member, axis),
                      mesh.getCoordinate(rank, axis));
          }
      }
    }
}

TEST(Mesh, Names) {
  EXPECT_EQ(mesh.getAxisIndex("cp"), 1u);
  EXPECT_EQ(mesh.getAxisIndex("ep"), std::nullopt);
  EXPECT_EQ(mesh.toString({2, 0}), "{tp, dp}");
  EXPECT_EQ(mesh.toString(), R"(["dp"=2, "cp"=3, "tp"=4])");
}

TEST(Mesh, Verify) {
  EXPECT_FALSE(mesh.verify());
  EXPECT_FALSE(Mesh().verify());
  EXPECT_EQ(getMessage(Mesh({{"dp", 2}, {"dp", 2}}).verify()),
            R"(expects mesh axis "dp" to be named once)");
  EXPECT_EQ(getMessage(Mesh({{"", 2}}).verify()),
            "expects every mesh axis to have a name");
  EXPECT_EQ(getMessage(Mesh({{"tp", 0}}).verify()),
            R"(expects mesh axis "tp" (size 0) to have a size of at least 1)");
  EXPECT_EQ(getMessage(Mesh({{"a", 65536}, {"b", 65536}}).verify()),
            "expects the mesh to have at most 2147483647 ranks");
}

TEST(Mesh, Text) {
  llvm::Expected<Mesh> mesh = Mesh::parse("dp=2, tp = 4");
  ASSERT_TRUE(bool(mesh)) << getMessage(mesh.takeError());
  EXPECT_EQ(mesh->toString(), R"(["dp"=2, "tp"=4])");
  EXPECT_EQ(mesh->getText(), "dp=2,tp=4");
  EXPECT_EQ(getMessage(Mesh::parse("dp").takeError()),
            R"(mesh "dp": expects axes like dp=2,tp=4)");
  EXPECT_EQ(getMessage(Mesh::parse("dp=0").takeError()),
            R"(mesh "dp=0": expects mesh axis "dp" (size 0) to have a size of )"
            "at least 1");
}

} // namespace
