//===- LanesTest.cpp ------------------------------------------------------===//
#include "runtime/cuda/Lanes.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <gtest/gtest.h>
#include <map>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using namespace cleave::test;

namespace {

constexpr uint64_t bytes = 64 * 4;

/// The lanes of a program's instructions, of which those of `alone` may not be
/// in a group. `kernels`: those that do several launches, of the instructions
/// that have one; by default there are none.
std::vector<Lane> assign(const ProgramBuilder &builder,
                         const std::set<size_t> &alone = {},
                         const std::map<size_t, const void *> &kernels = {}) {
  Program program;
  Status status = builder.load(program);
  EXPECT_TRUE(status.ok()) << status.message();
  Stage stage = program.getStageOf(0);
  std::vector<BoundInstruction> bound;
  for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
    const fb::Instruction &instruction = stage.getInstruction(i);
    BoundInstruction &each = bound.emplace_back();
    each.instruction = &instruction;
    each.index = i;
    each.opcode = instruction.work_type();
    each.operands = toSpan(instruction.operands());
  }
  return assignLanes(
      program, stage, bound, [&](size_t i) { return !alone.count(i); },
      [&](size_t i) { return kernels.count(i) ? kernels.at(i) : nullptr; });
}

std::vector<unsigned> getNumbers(const std::vector<Lane> &lanes) {
  std::vector<unsigned> numbers;
  for (const Lane &lane : lanes)
    numbers.push_back(lane.number);
  return numbers;
}

class Lanes : public testing::Test {
protected:
  /// y = f(x), and one to begin with.
  void add(const fb::Operand &x, const fb::Operand &y, uint8_t stream = 0) {
    b.launch("f", 4, {x, y}).stream = stream;
  }
  fb::Operand makeInput() {
    fb::Operand x = b.allocate(bytes);
    b.state("x" + std::to_string(count++), {64}, {{}}, x);
    return x;
  }
  fb::Operand make() { return b.allocate(bytes); }

  ProgramBuilder b{{{"dp", 1}}, 1};
  int count = 0;
};

TEST_F(Lanes, OfOneInput) {
  fb::Operand x = makeInput();
  b.start(ProgramBuilder::MicroBatch);
  for (int i = 0; i < 6; ++i)
    add(x, make());
  std::vector<Lane> lanes = assign(b);
  EXPECT_EQ(getNumbers(lanes), (std::vector<unsigned>{0, 1, 2, 3, 0, 1}));
  for (size_t i = 0; i < lanes.size(); ++i) {
    EXPECT_EQ(lanes[i].count, 4u);
    EXPECT_EQ(lanes[i].forks, i == 0);
    EXPECT_EQ(lanes[i].joins, i == 5);
  }
}

/// A group ends where a member reads what another writes, writes what another
/// reads, or writes what another writes.
TEST_F(Lanes, ThatMeet) {
  fb::Operand z = makeInput(), x = make(), a = make(), c = make();
  b.start(ProgramBuilder::MicroBatch);
  add(z, x);
  add(x, a); // reads x
  add(z, c);
  add(z, x); // x was read
  add(z, a);
  add(z, a); // written
  std::vector<Lane> lanes = assign(b);
  EXPECT_EQ(getNumbers(lanes), (std::vector<unsigned>{0, 0, 1, 0, 1, 0}));
  EXPECT_TRUE(lanes[1].forks && lanes[2].joins);
  EXPECT_TRUE(lanes[3].forks && lanes[4].joins);
  for (size_t i : {0, 5}) {
    EXPECT_EQ(lanes[i].count, 1u) << i;
    EXPECT_FALSE(lanes[i].forks || lanes[i].joins) << i;
  }
}

/// Those of a group that launch one kernel are one launch, by the first of
/// them; launches share out the lanes.
TEST_F(Lanes, OfLaunchesThatAreOne) {
  fb::Operand x = makeInput(), y = make();
  b.start(ProgramBuilder::MicroBatch);
  for (int i = 0; i < 5; ++i)
    add(x, make());
  add(x, y);
  add(y, make()); // reads what the one before writes
  int f = 0, g = 0;
  std::vector<Lane> lanes =
      assign(b, {}, {{0, &f}, {1, &g}, {3, &f}, {4, &g}, {5, &f}, {6, &f}});
  EXPECT_EQ(lanes[0].together, (std::vector<size_t>{0, 3, 5}));
  EXPECT_EQ(lanes[1].together, (std::vector<size_t>{1, 4}));
  EXPECT_EQ(getNumbers(lanes), (std::vector<unsigned>{0, 1, 2, 0, 0, 0, 0}));
  EXPECT_TRUE(lanes[0].forks && lanes[2].joins);
  for (size_t i : {0, 1, 2})
    EXPECT_EQ(lanes[i].count, 3u) << i;
  for (size_t i = 0; i < lanes.size(); ++i)
    EXPECT_EQ(lanes[i].follows, i >= 3 && i <= 5) << i;
  EXPECT_TRUE(lanes[2].together.empty());
  EXPECT_TRUE(lanes[6].together.empty());
}

/// Where all of a group are one launch, it has no other lane.
TEST_F(Lanes, OfAGroupThatIsOneLaunch) {
  fb::Operand x = makeInput();
  b.start(ProgramBuilder::MicroBatch);
  add(x, make());
  add(x, make());
  int f = 0;
  std::vector<Lane> lanes = assign(b, {}, {{0, &f}, {1, &f}});
  EXPECT_EQ(lanes[0].together, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(lanes[0].count, 1u);
  EXPECT_FALSE(lanes[0].forks || lanes[0].joins);
  EXPECT_TRUE(lanes[1].follows);
}

/// What may not be in a group ends it, in its own stream only.
TEST_F(Lanes, OfStreams) {
  fb::Operand x = makeInput();
  b.start(ProgramBuilder::MicroBatch);
  add(x, make());
  add(x, make(), 1);
  add(x, make());
  add(x, make()); // alone
  add(x, make(), 1);
  std::vector<Lane> lanes = assign(b, {3});
  EXPECT_EQ(getNumbers(lanes), (std::vector<unsigned>{0, 0, 1, 0, 1}));
  EXPECT_TRUE(lanes[0].forks && lanes[2].joins);
  EXPECT_TRUE(lanes[1].forks && lanes[4].joins);
  EXPECT_EQ(lanes[3].count, 1u);
}

} // namespace
