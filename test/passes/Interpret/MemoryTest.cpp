//===- MemoryTest.cpp -----------------------------------------------------===//
#include "passes/Interpret/Memory.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace cleave;

namespace {
class MemoryTest : public testing::Test {
protected:
  MemoryTest() { memory.grow(32); }
  bool isLost(int64_t offset, ElementCode type) const {
    return std::isnan(memory.load(offset, type));
  }
  Memory memory;
};
} // namespace

TEST_F(MemoryTest, GivesBackWhatWasStored) {
  memory.store(0, ElementCode::F32, 1.5);
  memory.store(4, ElementCode::BF16, -2);
  memory.store(6, ElementCode::BF16, 7);
  memory.store(8, ElementCode::I32, -100);
  EXPECT_EQ(memory.load(0, ElementCode::F32), 1.5);
  EXPECT_EQ(memory.load(4, ElementCode::BF16), -2);
  EXPECT_EQ(memory.load(6, ElementCode::BF16), 7);
  EXPECT_EQ(memory.load(8, ElementCode::I32), -100);
  EXPECT_EQ(memory.getElements(0, 12), (std::vector<double>{1.5, -2, 7, -100}));
}

TEST_F(MemoryTest, KnowsWhatNobodyWrote) {
  EXPECT_TRUE(isLost(0, ElementCode::F32));
  EXPECT_TRUE(isLost(0, ElementCode::BF16));
  EXPECT_TRUE(memory.getElements(0, 32).empty());
}

TEST_F(MemoryTest, ReadsNothingAsAnotherType) {
  memory.store(0, ElementCode::F32, 1);
  EXPECT_TRUE(isLost(0, ElementCode::I32));
  EXPECT_TRUE(isLost(0, ElementCode::BF16));
  EXPECT_TRUE(isLost(2, ElementCode::BF16));
}

TEST_F(MemoryTest, LosesWhatIsOverwrittenInPart) {
  memory.store(0, ElementCode::F32, 1);
  memory.store(4, ElementCode::F32, 2);
  memory.store(2, ElementCode::F32, 3);
  EXPECT_TRUE(isLost(0, ElementCode::F32));
  EXPECT_EQ(memory.load(2, ElementCode::F32), 3);
  EXPECT_TRUE(isLost(4, ElementCode::F32));
  EXPECT_TRUE(isLost(6, ElementCode::BF16));
}

TEST_F(MemoryTest, ZeroBytesAreAZeroOfEveryType) {
  memory.store(0, ElementCode::F32, 1);
  memory.store(8, ElementCode::F32, 2);
  memory.fillZero(2, 8);
  EXPECT_TRUE(isLost(0, ElementCode::F32));
  EXPECT_EQ(memory.load(2, ElementCode::BF16), 0);
  EXPECT_EQ(memory.load(4, ElementCode::F32), 0);
  EXPECT_EQ(memory.load(4, ElementCode::I32), 0);
  EXPECT_TRUE(isLost(8, ElementCode::F32));
}

TEST_F(MemoryTest, CopiesBytesThatOverlap) {
  memory.store(0, ElementCode::F32, 1);
  memory.store(4, ElementCode::I32, 2);
  memory.copy(0, 4, 8);
  EXPECT_EQ(memory.load(4, ElementCode::F32), 1);
  EXPECT_EQ(memory.load(8, ElementCode::I32), 2);
}

TEST_F(MemoryTest, PutsWhatWasTakenElsewhere) {
  memory.store(0, ElementCode::F32, 1);
  memory.store(4, ElementCode::I32, 7);
  Memory range = memory.take(0, 8);
  EXPECT_EQ(range.size(), 8);
  memory.store(0, ElementCode::F32, 2);
  memory.store(14, ElementCode::F32, 3);
  Memory other;
  other.grow(32);
  other.store(22, ElementCode::F32, 4);
  other.put(16, range);
  EXPECT_EQ(other.load(16, ElementCode::F32), 1);
  EXPECT_EQ(other.load(20, ElementCode::I32), 7);
  // What was there is lost, and so is what it was a part of.
  EXPECT_TRUE(std::isnan(other.load(24, ElementCode::BF16)));
  EXPECT_EQ(other.getElements(0, 32), (std::vector<double>{1, 7}));
}
