//===- BesideTest.cpp - Steps whose collectives run beside compute --------===//
//
// Steps of a few ops, whose seconds are worked out by hand.
//
//===----------------------------------------------------------------------===//
#include "SmallStep.h"
#include <gtest/gtest.h>

using namespace cleave;

namespace {
using Numbers = std::vector<double>;

/// An op, and one that needs what it makes and a parameter that is split.
struct Gathers : SmallStep {
  Gathers() {
    size_t x = addInput(whole()), w = addInput(split(0));
    size_t y = addOp(5, {{x, whole()}}, whole());
    addOp(5, {{y, whole()}, {w, whole()}}, whole());
  }
};

/// One whose result is a partial sum, and one that needs it whole.
struct Reduces : SmallStep {
  Reduces() {
    size_t x = addInput(whole());
    size_t y = addOp(5, {{x, whole()}}, partial());
    addOp(5, {{y, whole()}}, whole());
  }
};
} // namespace

TEST(Beside, WhatIsGatheredInTimeTakesNothing) {
  Gathers step;
  EXPECT_DOUBLE_EQ(step.time(), 10);
  EXPECT_EQ(step.getExposed(), Numbers{0});
}

TEST(Beside, ComputeLosesWhatItIsSlowedDown) {
  Gathers step;
  step.beside.slowdown = 0.5;
  EXPECT_DOUBLE_EQ(step.time(), 12);
  EXPECT_EQ(step.getExposed(), Numbers{2});
}

TEST(Beside, NothingRunsBesideWhereItMayNot) {
  Gathers step;
  step.problem.moveSeconds.ofSkew = 1;
  step.beside.getLevel = [](llvm::ArrayRef<Axis>) { return std::nullopt; };
  // The gather, in step with all ranks.
  EXPECT_DOUBLE_EQ(step.time(), 15);
  EXPECT_EQ(step.getExposed(), Numbers{5});
}

TEST(Beside, WhatIsNeededAtOnceIsWaitedFor) {
  Reduces step;
  EXPECT_DOUBLE_EQ(step.time(), 14);
  EXPECT_EQ(step.getExposed(), Numbers{4});
}

TEST(Beside, ProductsInPartsHideWhatIsBetweenThem) {
  Reduces step;
  step.makeProducts();
  EXPECT_DOUBLE_EQ(step.time(), 10);
  EXPECT_EQ(step.getExposed(), Numbers{0});
  // Each further part of both takes longer: two parts hide it all.
  auto take = [&](double longer) {
    for (PlacedOp &op : step.problem.ops)
      op.getLonger = [longer](const Strategy &, int64_t parts) {
        return double(parts - 1) * longer;
      };
  };
  take(0.25);
  EXPECT_DOUBLE_EQ(step.time(), 10.5);
  // As long as it saves a tenth of it.
  take(1.9);
  EXPECT_DOUBLE_EQ(step.time(), 14);
  // Of a result that is scattered along the rows there are no parts.
  SmallStep scatters;
  size_t x = scatters.addInput(SmallStep::whole());
  size_t y = scatters.addOp(5, {{x, SmallStep::whole()}}, SmallStep::partial());
  scatters.addOp(5, {{y, SmallStep::split(0)}}, SmallStep::split(0));
  scatters.makeProducts();
  EXPECT_DOUBLE_EQ(scatters.time(), 14);
}

TEST(Beside, ComputeLosesToWhatPartsHide) {
  Reduces step;
  step.makeProducts();
  step.beside.slowdown = 0.5;
  // Half of the four seconds of the reduction.
  EXPECT_DOUBLE_EQ(step.time(), 12);
  EXPECT_EQ(step.getExposed(), Numbers{2});
}

/// What reads all rows at once waits for the last part, and so does what reads
/// its result, rows of the moved tensor though it reads, too.
TEST(Beside, WhatNeedsAllRowsEndsParts) {
  SmallStep step;
  using S = SmallStep;
  size_t x = step.addInput(S::whole());
  size_t y = step.addOp(5, {{x, S::whole()}}, S::partial());
  size_t sum = step.addOp(1, {{y, S::whole()}}, S::whole());
  step.addOp(5, {{y, S::whole()}, {sum, S::whole()}}, S::whole());
  step.makeProducts();
  step.problem.ops[1].rowsOf = 0;
  // The last of eight parts is behind the last product before them.
  EXPECT_DOUBLE_EQ(step.time(), 11 + 4. / 8);
  // Of rows alone, the product behind hides that one, too.
  step.problem.ops[1].rowsOf = 1;
  EXPECT_DOUBLE_EQ(step.time(), 11);
}

TEST(Beside, WhatSharesALevelTakesTurns) {
  SmallStep step;
  size_t x = step.addInput(SmallStep::whole()),
         v = step.addInput(SmallStep::split(0)),
         w = step.addInput(SmallStep::split(1));
  size_t y = step.addOp(5, {{x, SmallStep::whole()}}, SmallStep::whole());
  step.addOp(5,
             {{y, SmallStep::whole()},
              {v, SmallStep::whole()},
              {w, SmallStep::whole()}},
             SmallStep::whole());
  EXPECT_DOUBLE_EQ(step.time(), 13);
  step.beside.getLevel = [](llvm::ArrayRef<Axis> axes) {
    return int64_t(axes[0]);
  };
  EXPECT_DOUBLE_EQ(step.time(), 10);
}

TEST(Beside, GradientsAreReducedBesideTheRestOfTheBackwardPass) {
  for (int64_t microBatches : {1, 3}) {
    double count = double(microBatches);
    SmallStep step;
    size_t x = step.addInput(SmallStep::whole());
    size_t y = step.addOp(count, {{x, SmallStep::whole()}}, SmallStep::whole());
    size_t first = step.addOp(5 * count, {{y, SmallStep::whole()}},
                              SmallStep::partial(), "backward");
    size_t second = step.addOp(5 * count, {{y, SmallStep::whole()}},
                               SmallStep::partial(), "backward");
    for (size_t tensor : {y, first, second})
      step.problem.tensors[tensor].moves = count;
    for (size_t sum : {step.yield(first), step.yield(second)})
      step.addOp(1, {{sum, SmallStep::whole()}}, SmallStep::whole(), "step");
    // The first reduction runs beside the second backward op of the last
    // micro-batch; the other one, behind it, is waited for by the update.
    EXPECT_DOUBLE_EQ(step.time(), 11 * count + 4 + 2) << microBatches;
    EXPECT_EQ(step.getExposed(), (Numbers{0, 4})) << microBatches;
  }
}

TEST(Beside, TheChoiceIsOfTheStepWithWhatRunsBeside) {
  Gathers step;
  // Its own share of the parameter would do, for two seconds more.
  PlacedOp &op = step.problem.ops.back();
  Strategy other = op.strategies[0];
  other.placements.operands[1] = SmallStep::split(0);
  op.strategies = {op.strategies[0], other};
  op.seconds.push_back(7);
  auto price = [](Step::Kind, llvm::ArrayRef<Axis>, double) { return 4.; };
  ShardingChoice serial = llvm::cantFail(chooseShardings(step.problem, price));
  EXPECT_EQ(serial.strategies, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(serial.besideSeconds, serial.seconds);
  ShardingChoice choice = llvm::cantFail(
      chooseShardings(step.problem, price, 1 << 13, step.beside));
  EXPECT_EQ(choice.strategies, (std::vector<size_t>{0, 0}));
  EXPECT_DOUBLE_EQ(choice.besideSeconds, 10);
  // And these are of one after the other.
  EXPECT_DOUBLE_EQ(choice.seconds, 14);
  EXPECT_DOUBLE_EQ(choice.bound, 12);
}

TEST(Beside, ReasonsAreThoseOfTheStep) {
  SmallStep step;
  size_t x = step.addInput(SmallStep::whole()),
         w = step.addInput(SmallStep::whole());
  size_t held =
      step.addOp(0, {{w, SmallStep::whole()}}, SmallStep::whole(), "step");
  step.problem.ops.back().keeps = Keeps::Parameters;
  size_t y =
      step.addOp(1, {{x, SmallStep::whole()}, {held, SmallStep::whole()}},
                 SmallStep::whole());
  size_t dx =
      step.addOp(1, {{y, SmallStep::whole()}}, SmallStep::whole(), "backward");
  size_t dw = step.addOp(1, {{dx, SmallStep::whole()}}, SmallStep::partial(),
                         "backward");
  size_t sum = step.yield(dw);
  std::vector<Reason> reasons = findReasons(step.problem);
  EXPECT_EQ(reasons[w], Reason::States);
  EXPECT_EQ(reasons[held], Reason::ForwardParameters);
  EXPECT_EQ(reasons[y], Reason::ForwardActivations);
  EXPECT_EQ(reasons[dx], Reason::BackwardActivations);
  EXPECT_EQ(reasons[dw], Reason::Gradients);
  EXPECT_EQ(reasons[sum], Reason::Sums);
}
