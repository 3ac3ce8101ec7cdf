//===- ArrayTest.cpp ------------------------------------------------------===//
#include "passes/Interpret/Array.h"
#include "gtest/gtest.h"
#include <limits>
#include <numeric>

using namespace cleave;

static const Mesh mesh({{"a", 2}, {"b", 2}});

static Array count(std::vector<int64_t> shape) {
  Array array = Array::zeros(shape);
  std::iota(array.data.begin(), array.data.end(), 1);
  return array;
}

static Array rejoin(const Array &whole, const Placement &placement) {
  std::vector<Array> parts;
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    parts.push_back(split(whole, placement, mesh, rank));
  std::vector<const Array *> pointers;
  for (const Array &part : parts)
    pointers.push_back(&part);
  return join(pointers, whole.shape, placement, mesh);
}

TEST(Array, SplitsAsThePlacementSays) {
  Placement placement({{}, {1}}, {});
  Array part = split(count({2, 4}), placement, mesh, /*rank=*/1);
  EXPECT_EQ(part.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(part.data, (std::vector<double>{3, 4, 7, 8}));
}

TEST(Array, JoinsWhatItSplit) {
  Array whole = count({4, 4});
  for (const Placement &placement :
       {Placement({{}, {}}, {}), Placement({{0}, {1}}, {}),
        Placement({{1, 0}, {}}, {}), Placement({{}, {0}}, {1}),
        Placement({{}, {}}, {0, 1}), Placement({{0}, {}}, {1}, Reduction::Max)})
    EXPECT_EQ(rejoin(whole, placement).data, whole.data)
        << placement.toString(mesh);
}

TEST(Array, AddsTheAddends) {
  Array one = count({2}), ten{{2}, {10, 20}};
  // Along b they are addends, along a copies.
  EXPECT_EQ(
      join({&one, &ten, &one, &ten}, {2}, Placement({{}}, {1}), mesh).data,
      (std::vector<double>{11, 22}));
  EXPECT_EQ(join({&one, &ten, &one, &ten}, {2},
                 Placement({{}}, {1}, Reduction::Max), mesh)
                .data,
            (std::vector<double>{10, 20}));
}

TEST(Array, FindsTheFirstDifference) {
  Array a{{3}, {1, 2, 1000}}, b = a;
  EXPECT_EQ(findDifference(a, b, 1e-9), std::nullopt);
  b.data[1] += 1e-7;
  EXPECT_EQ(findDifference(a, b, 1e-9), std::nullopt);
  EXPECT_EQ(findDifference(a, b, 1e-11), 1);
  b.data[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(findDifference(a, b, 1), 0);
  EXPECT_EQ(findDifference(b, b, 1), 0);
}
