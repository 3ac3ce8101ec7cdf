//===- BytesInUseTest.cpp - What steps need at a time ---------------------===//
//
// Steps of a few ops on tensors of 1,024 bytes, whose bytes are worked out by
// hand.
//
//===----------------------------------------------------------------------===//
#include "cleave/AutoShard/BytesInUse.h"
#include "DrawnProblem.h"
#include "SmallStep.h"
#include <gtest/gtest.h>

using namespace cleave;

namespace {
constexpr double whole = 1024, half = whole / 2;

struct Small : SmallStep {
  /// Whole, for the backward pass; returns what that finds.
  size_t keep(size_t tensor) {
    size_t kept = addOp(0, {{tensor, whole()}}, whole());
    problem.ops.back().keeps = Keeps::Activations;
    problem.tensors[kept].copies = 1;
    return kept;
  }

  double getBytes() {
    moves = getMoves(problem, choice, price);
    choice.bytes = 0;
    for (auto [tensor, made] :
         llvm::zip_equal(problem.tensors, choice.placements))
      choice.bytes += tensor.copies * tensor.getBytes(problem.mesh, made);
    for (const Move &move : moves) {
      const PlacedTensor &tensor = problem.tensors[move.tensor];
      choice.bytes += tensor.movedTo * tensor.getBytes(problem.mesh, move.to);
    }
    return getBytesInUse(problem, choice, moves);
  }
};
} // namespace

TEST(BytesInUse, LiveFromTheirMakerToTheirLastReader) {
  Small step;
  size_t x = step.addInput(Small::whole());
  size_t y = step.addOp(1, {{x, Small::whole()}}, Small::whole());
  size_t z = step.addOp(1, {{y, Small::whole()}}, Small::whole());
  EXPECT_EQ(step.getBytes(), 2 * whole);
  step.addOp(1, {{z, Small::whole()}, {x, Small::whole()}}, Small::whole());
  EXPECT_EQ(step.getBytes(), 3 * whole); // x, y, z; then x, z and the last
}

TEST(BytesInUse, AreAlsoOnTheirWay) {
  Small step;
  size_t x = step.addInput(Small::split(0)), w = step.addInput(Small::split(0));
  size_t y = step.addOp(1, {{x, Small::split(0)}}, Small::split(0));
  step.addOp(1, {{y, Small::split(0)}, {w, Small::whole()}}, Small::split(0));
  // w, split and gathered, and y; then w gathered, y and the last.
  EXPECT_EQ(step.getBytes(), 2 * half + whole);
  // What is kept is there all the time, also where it is moved to.
  step.problem.tensors[w].copies = step.problem.tensors[w].movedTo = 1;
  EXPECT_EQ(step.getBytes(), half + whole + 2 * half);
}

TEST(BytesInUse, AreNotInTheKernelOfAnother) {
  Small step;
  size_t x = step.addInput(Small::whole()), w = step.addInput(Small::whole());
  size_t y =
      step.addOp(0, {{x, Small::whole()}, {w, Small::whole()}}, Small::whole());
  step.addOp(1, {{y, Small::whole()}}, Small::split(0));
  EXPECT_EQ(step.getBytes(), 2 * whole);
}

/// What the backward pass finds is kept, however it is found.
TEST(BytesInUse, AreOnceOfKeptActivations) {
  Small step;
  size_t x = step.addInput(Small::whole());
  size_t y = step.addOp(1, {{x, Small::whole()}}, Small::whole());
  size_t kept = step.keep(y);
  size_t z = step.addOp(1, {{y, Small::whole()}}, Small::whole());
  step.addOp(1, {{z, Small::whole()}, {kept, Small::whole()}}, Small::split(0),
             "backward");
  // y, which is kept, z, and what is made of both.
  EXPECT_EQ(step.getBytes(), 2 * whole + half);
}

/// Of one micro-batch activations are gone when all gradients are there.
TEST(BytesInUse, AreFewerWhereNotAllIsKeptAtOneTime) {
  Small step;
  size_t x = step.addInput(Small::whole());
  size_t y = step.addOp(1, {{x, Small::whole()}}, Small::whole());
  size_t kept = step.keep(y);
  size_t g =
      step.addOp(1, {{kept, Small::whole()}}, Small::partial(), "backward");
  size_t sum = step.yield(g);
  step.problem.tensors[sum].copies = 1;
  step.addOp(1, {{sum, Small::partial()}}, Small::whole(), "step");
  // x and y; then y and g.
  EXPECT_EQ(step.getBytes(), 2 * whole);
  size_t h =
      step.addOp(1, {{kept, Small::whole()}}, Small::partial(), "backward");
  step.addOp(1, {{h, Small::partial()}}, Small::partial(), "backward");
  EXPECT_EQ(step.getBytes(), 3 * whole); // y, g and h
}

/// What a parameter is gathered to for one micro-batch is gone behind its last
/// reader; for several it is there all the time.
TEST(BytesInUse, AreFewerBehindTheLastReaderOfAParameter) {
  Small step;
  size_t x = step.addInput(Small::whole());
  size_t w = step.addInput(Small::split(0));
  step.problem.tensors[w].copies = step.problem.tensors[w].movedTo = 1;
  size_t y =
      step.addOp(1, {{x, Small::whole()}, {w, Small::whole()}}, Small::whole());
  size_t z = step.addOp(1, {{y, Small::whole()}}, Small::whole());
  step.addOp(1, {{y, Small::whole()}, {z, Small::whole()}}, Small::whole());
  EXPECT_EQ(step.getBytes(), half + 3 * whole); // x, w gathered, y; y, z, last
  step.problem.tensors[y].moves = 2;
  EXPECT_EQ(step.getBytes(), half + whole + 3 * whole);
}

/// A gradient that the update reads is there up to the end of the passes, and
/// what the update makes is not looked at.
TEST(BytesInUse, AreThoseOfThePasses) {
  Small step;
  size_t x = step.addInput(Small::whole());
  size_t g = step.addOp(1, {{x, Small::whole()}}, Small::whole(), "backward");
  size_t y = step.addOp(1, {{x, Small::whole()}}, Small::whole(), "backward");
  step.addOp(1, {{y, Small::whole()}}, Small::whole(), "backward");
  size_t a = step.addOp(1, {{g, Small::whole()}}, Small::whole(), "step");
  size_t b = step.addOp(1, {{a, Small::whole()}}, Small::whole(), "step");
  step.addOp(1, {{g, Small::whole()}, {a, Small::whole()}, {b, Small::whole()}},
             Small::whole(), "step");
  EXPECT_EQ(step.getBytes(), 3 * whole); // x, g and y; g, y and the next
}

/// What is kept fits, but not with all else that the fastest choice needs: one
/// is found that does; or else one that at least keeps less.
TEST(BytesInUse, FitOfWhatIsChosen) {
  Random random(5);
  int64_t tight = 0, fitting = 0, missed = 0;
  for (int64_t graph = 0; graph != 300; ++graph) {
    ShardingProblem problem = draw(random, 6, /*fans=*/graph % 2 == 1);
    problem.holdsTemporaries = true;
    Prices price = Prices::draw(random);
    auto getBytes = [&](const ShardingChoice &choice) {
      return getBytesInUse(problem, choice, getMoves(problem, choice, price));
    };
    ShardingChoice fast = llvm::cantFail(chooseShardings(problem, price));
    problem.memory = std::floor(std::max(fast.bytes, 0.95 * getBytes(fast)));
    if (getBytes(fast) <= problem.memory)
      continue;
    ++tight;
    ShardingChoice choice = llvm::cantFail(chooseShardings(problem, price));
    ASSERT_LE(choice.bytes, problem.memory) << "graph " << graph;
    ASSERT_LE(getBytes(choice), getBytes(fast)) << "graph " << graph;
    ASSERT_GE(choice.seconds, fast.seconds) << "graph " << graph;
    ASSERT_LE(choice.bound, choice.seconds) << "graph " << graph;
    fitting += getBytes(choice) <= problem.memory;
    bool isThere = llvm::any_of(
        llvm::cantFail(computeShardingFront(problem, price, 20)),
        [&](const auto &other) { return getBytes(other) <= problem.memory; });
    missed += isThere && getBytes(choice) > problem.memory;
  }
  EXPECT_GE(tight, 200);
  EXPECT_GE(fitting, tight / 5);
  EXPECT_LE(missed, fitting / 20);
}
