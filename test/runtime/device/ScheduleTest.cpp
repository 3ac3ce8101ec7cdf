//===- ScheduleTest.cpp - Learning rates against worked numbers -----------===//
#include "runtime/device/Schedule.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <gtest/gtest.h>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

Schedule make(ScheduleKind kind, int64_t warmup, int64_t decay,
              int64_t stable = 0) {
  Schedule schedule;
  schedule.kind = kind;
  schedule.warmupSteps = warmup;
  schedule.decaySteps = decay;
  schedule.stableSteps = stable;
  schedule.lr = 1;
  schedule.minLr = 0.2;
  return schedule;
}

TEST(Schedule, WarmsUpAlongALine) {
  for (ScheduleKind kind :
       {ScheduleKind::Constant, ScheduleKind::Cosine, ScheduleKind::Linear,
        ScheduleKind::WarmupStableDecay}) {
    Schedule s = make(kind, 4, 100);
    EXPECT_DOUBLE_EQ(getLearningRate(s, 0), 0.25);
    EXPECT_DOUBLE_EQ(getLearningRate(s, 2), 0.75);
    EXPECT_DOUBLE_EQ(getLearningRate(s, 3), 1);
    EXPECT_DOUBLE_EQ(getLearningRate(s, 4), 1);
  }
}

TEST(Schedule, Constant) {
  Schedule s = make(ScheduleKind::Constant, 0, 10);
  for (int64_t step : {0, 5, 10, 1000})
    EXPECT_DOUBLE_EQ(getLearningRate(s, step), 1);
}

TEST(Schedule, CosineMeetsItsQuarters) {
  Schedule s = make(ScheduleKind::Cosine, 2, 14);
  EXPECT_DOUBLE_EQ(getLearningRate(s, 2), 1);
  EXPECT_NEAR(getLearningRate(s, 5), 0.6 + 0.4 * 0.70710678118654752, 1e-15);
  EXPECT_NEAR(getLearningRate(s, 8), 0.6, 1e-15);
  EXPECT_NEAR(getLearningRate(s, 11), 0.6 - 0.4 * 0.70710678118654752, 1e-15);
  EXPECT_DOUBLE_EQ(getLearningRate(s, 14), 0.2);
  EXPECT_DOUBLE_EQ(getLearningRate(s, 500), 0.2);
}

TEST(Schedule, LinearIsALine) {
  Schedule s = make(ScheduleKind::Linear, 0, 8);
  for (int64_t step = 0; step <= 8; ++step)
    EXPECT_NEAR(getLearningRate(s, step), 1 - 0.1 * double(step), 1e-15);
  EXPECT_DOUBLE_EQ(getLearningRate(s, 9), 0.2);
}

TEST(Schedule, WarmupStableDecayHoldsThenFalls) {
  Schedule s = make(ScheduleKind::WarmupStableDecay, 2, 12, 6);
  for (int64_t step = 2; step <= 8; ++step)
    EXPECT_DOUBLE_EQ(getLearningRate(s, step), 1) << step;
  EXPECT_NEAR(getLearningRate(s, 9), 0.8, 1e-15);
  EXPECT_NEAR(getLearningRate(s, 11), 0.4, 1e-15);
  EXPECT_DOUBLE_EQ(getLearningRate(s, 12), 0.2);
}

TEST(Schedule, DecayMayEndBeforeWarmup) {
  Schedule s = make(ScheduleKind::Cosine, 10, 5);
  EXPECT_DOUBLE_EQ(getLearningRate(s, 9), 1);
  EXPECT_DOUBLE_EQ(getLearningRate(s, 10), 0.2);
}

TEST(Schedule, BiasCorrections) {
  EXPECT_NEAR(getBiasCorrection(0.9, 0), 10, 1e-12);
  EXPECT_NEAR(getBiasCorrection(0.9, 1), 1 / 0.19, 1e-12);
  EXPECT_NEAR(getBiasCorrection(0.95, 2), 1 / (1 - 0.857375), 1e-12);
  EXPECT_DOUBLE_EQ(getBiasCorrection(0, 5), 1);
}

class Resolve : public testing::Test {
protected:
  Resolve() : builder({}) {
    builder.add(
        fb::ScheduleT{{}, fb::LRSchedule::Cosine, 3, 0, 0, 0.5, 0.1, 0.9, 0.95},
        {builder.allocate(20)});
    EXPECT_TRUE(builder.load(program).ok());
  }
  Status resolve(const ScheduleOverrides &overrides) {
    return resolveSchedule(
        *program.getStage(0).getInstruction(0).work_as_Schedule(), overrides,
        schedule);
  }

  ProgramBuilder builder;
  Program program;
  Schedule schedule;
};

TEST_F(Resolve, TakesTheRunsSteps) {
  ScheduleOverrides overrides;
  overrides.totalSteps = 77;
  ASSERT_TRUE(resolve(overrides).ok());
  EXPECT_EQ(schedule.kind, ScheduleKind::Cosine);
  EXPECT_EQ(schedule.warmupSteps, 3);
  EXPECT_EQ(schedule.decaySteps, 77);
  EXPECT_EQ(schedule.lr, 0.5);
  EXPECT_EQ(schedule.minLr, 0.1);
  EXPECT_EQ(schedule.beta2, 0.95);
}

TEST_F(Resolve, TakesOverrides) {
  ScheduleOverrides overrides;
  overrides.kind = ScheduleKind::Linear;
  overrides.lr = 2;
  overrides.minLr = 1;
  overrides.warmupSteps = 9;
  overrides.decaySteps = 20;
  overrides.totalSteps = 77;
  ASSERT_TRUE(resolve(overrides).ok());
  EXPECT_EQ(schedule.kind, ScheduleKind::Linear);
  EXPECT_EQ(schedule.warmupSteps, 9);
  EXPECT_EQ(schedule.decaySteps, 20);
  EXPECT_EQ(schedule.lr, 2);
  EXPECT_EQ(schedule.minLr, 1);
}

TEST_F(Resolve, RefusesWhatIsNotLegal) {
  EXPECT_NE(resolve({}).message().find("until which step"), std::string::npos);
  ScheduleOverrides overrides;
  overrides.totalSteps = 10;
  overrides.lr = -1;
  EXPECT_NE(resolve(overrides).message().find("learning rate is -1"),
            std::string::npos);
  overrides.lr.reset();
  overrides.warmupSteps = -2;
  EXPECT_NE(resolve(overrides).message().find("warm-up steps is -2"),
            std::string::npos);
}

} // namespace
