//===- SizingTest.cpp - Whole estimates against worked examples -----------===//
#include "cleave/Sizing/Sizing.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace cleave;

namespace {

Goal makeGoal(std::optional<double> parameters, std::optional<double> tokens,
              std::optional<double> flops = {},
              std::optional<double> days = {}) {
  return {parameters, tokens, flops, days};
}

RunEstimate estimate(const Goal &goal, const Fleet &fleet,
                     const SizingOptions &options = {}) {
  return llvm::cantFail(estimateRun(goal, fleet, options));
}

std::string getError(const Goal &goal, const Fleet &fleet = {},
                     const SizingOptions &options = {}) {
  llvm::Expected<RunEstimate> run = estimateRun(goal, fleet, options);
  return run ? "none" : llvm::toString(run.takeError());
}

Fleet makeFleet(int64_t devices) {
  Fleet fleet;
  fleet.devices = devices;
  fleet.peakFlops = 989e12;
  fleet.mfu = 0.4;
  fleet.mtbfHours = 50'000;
  return fleet;
}

/// 70e9 parameters on 15e12 tokens by 16,384 H100, worked by hand.
TEST(SizingTest, Llama70BOn16384Devices) {
  RunEstimate run = estimate(makeGoal(70e9, 15e12), makeFleet(16384));
  EXPECT_NEAR(run.flops, 6.3e24, 1e12);
  // 16384 x 989e12 x 0.4 = 6.48151e18 FLOP/s
  EXPECT_NEAR(run.computeSeconds, 6.3e24 / 6.48151e18, 2);
  EXPECT_NEAR(run.computeSeconds / 86400, 11.25, 0.05);
  EXPECT_NEAR(run.failures.mtbf / 60, 183.1, 0.05);
  EXPECT_NEAR(run.computeFailures, 88.5, 0.5);
  // sqrt(2 x 20 x 10986.3)
  EXPECT_NEAR(run.youngSeconds, 662.9, 0.1);
  EXPECT_EQ(run.intervalSeconds, run.dalySeconds);
  // To first order, waste is 20/663 + (663/2 + 300)/10986 = 8.8 %.
  EXPECT_NEAR(1 - run.shares.goodput, 0.088, 0.005);
  EXPECT_NEAR(run.wallSeconds * run.shares.goodput, run.computeSeconds, 1e-3);
  EXPECT_NEAR(run.wallFailures / run.wallSeconds * run.failures.mtbf, 1, 1e-12);
}

TEST(SizingTest, EnergyAndPrice) {
  // No waste to speak of: 6e18 FLOPs at 1e15 are 6000 s on one device.
  Fleet fleet;
  fleet.devices = 1;
  fleet.peakFlops = 2e15;
  fleet.mfu = 0.5;
  fleet.mtbfHours = 1e12;
  fleet.checkpointSeconds = 1e-9;
  fleet.restartSeconds = 0;
  fleet.watts = 1000;
  fleet.pue = 1.2;
  fleet.pricePerHour = 3;
  RunEstimate run = estimate(makeGoal(1e9, 1e9), fleet);
  EXPECT_NEAR(run.wallSeconds, 6000, 0.01);
  EXPECT_NEAR(run.energy, 7.2e6, 20); // 2 kWh of device and site
  EXPECT_NEAR(run.price, 5, 1e-4);    // 5/3 h
  // Twice the devices: half the time, the same energy and price.
  fleet.devices = 2;
  RunEstimate twice = estimate(makeGoal(1e9, 1e9), fleet);
  EXPECT_NEAR(twice.wallSeconds, 3000, 0.01);
  EXPECT_NEAR(twice.energy, 7.2e6, 20);
  EXPECT_NEAR(twice.price, 5, 1e-4);
}

/// Dubey et al. 2024, arXiv:2407.21783, section 3.3: 419 unexpected
/// interruptions in 54 days of 16,384 devices.
TEST(SizingTest, Llama3Interruptions) {
  Fleet fleet = makeFleet(16384);
  RunEstimate run = estimate(makeGoal(405e9, {}, {}, 54), fleet);
  EXPECT_NEAR(run.computeFailures, 419, 10);
  EXPECT_NEAR(run.computeSeconds / 86400, 54, 1e-9);
}

TEST(SizingTest, AnyTwoGiveTheThird) {
  Fleet fleet = makeFleet(1000);
  double perDay = 1000 * 989e12 * 0.4 * 86400;
  RunEstimate byFlops = estimate(makeGoal({}, {}, 10 * perDay), fleet);
  RunEstimate byDays = estimate(makeGoal({}, {}, {}, 10), fleet);
  EXPECT_NEAR(byDays.size.parameters / byFlops.size.parameters, 1, 1e-12);
  EXPECT_NEAR(byDays.computeSeconds, 864000, 1e-3);

  double flops = 6 * 8e9 * 2e12;
  for (const Goal &goal :
       {makeGoal(8e9, 2e12), makeGoal(8e9, {}, flops),
        makeGoal({}, 2e12, flops), makeGoal(8e9, {}, {}, flops / perDay),
        makeGoal({}, 2e12, {}, flops / perDay)}) {
    RunEstimate run = estimate(goal, fleet);
    EXPECT_NEAR(run.size.parameters / 8e9, 1, 1e-12);
    EXPECT_NEAR(run.size.tokens / 2e12, 1, 1e-12);
    EXPECT_NEAR(run.flops / flops, 1, 1e-12);
  }
}

TEST(SizingTest, OneAndTheLawGiveTheRest) {
  SizingOptions options;
  for (const ScalingLaw &law : getScalingLaws()) {
    options.law = law;
    RunEstimate run = estimate(makeGoal(7e9, {}), {}, options);
    EXPECT_NEAR(run.optimum.parameters / 7e9, 1, 1e-9) << law.name.str();
    EXPECT_NEAR(run.loss, run.optimumLoss, 1e-9);
    RunEstimate back = estimate(makeGoal({}, run.size.tokens), {}, options);
    EXPECT_NEAR(back.size.parameters / 7e9, 1, 1e-9);
  }
  // Anything but the optimum of a fit is worse.
  options.law = getScalingLaws().front();
  RunEstimate small = estimate(makeGoal(8e9, 15e12), {}, options);
  EXPECT_GT(small.loss, small.optimumLoss + 1e-3);
}

TEST(SizingTest, IntervalRules) {
  Goal goal = makeGoal(70e9, 15e12);
  SizingOptions options;
  options.rule = IntervalRule::Young;
  RunEstimate young = estimate(goal, makeFleet(16384), options);
  EXPECT_EQ(young.intervalSeconds, young.youngSeconds);
  EXPECT_GT(young.youngSeconds, young.dalySeconds);
  options.rule = IntervalRule::Given;
  options.intervalSeconds = 3600;
  RunEstimate given = estimate(goal, makeFleet(16384), options);
  EXPECT_EQ(given.intervalSeconds, 3600);
  EXPECT_LT(given.shares.goodput, young.shares.goodput);
}

TEST(SizingTest, ErrorsNameTheValueAndItsRange) {
  Goal goal = makeGoal(70e9, 15e12);
  // Each number past its ends, and where it is no number.
  for (const FleetField &field : getFleetFields())
    for (double value :
         {-1.0, field.range.low - 1e-3, field.range.high * 1.001,
          std::numeric_limits<double>::infinity(), std::nan("")}) {
      Fleet fleet;
      fleet.*field.value = value;
      std::string error = getError(goal, fleet);
      EXPECT_TRUE(llvm::StringRef(error).starts_with(
          ("--" + field.name + ": expects a number " + field.range.toString())
              .str()))
          << error;
    }
  for (const GoalField &field : getGoalFields())
    for (double value : {0.0, -5.0, field.range.high * 1.001, std::nan("")}) {
      Goal bad;
      bad.*field.value = value;
      EXPECT_TRUE(
          llvm::StringRef(getError(bad)).starts_with(("--" + field.name).str()))
          << getError(bad);
    }
  Fleet fleet;
  fleet.mfu = 1.5;
  EXPECT_EQ(getError(goal, fleet),
            "--mfu: expects a number above 0 and at most 1, got 1.5");
  for (int64_t devices : {int64_t(0), int64_t(-8), Fleet::maxDevices + 1,
                          std::numeric_limits<int64_t>::max()}) {
    fleet = {};
    fleet.devices = devices;
    EXPECT_TRUE(llvm::StringRef(getError(goal, fleet))
                    .starts_with("--devices: expects a number at least 1"));
  }
  SizingOptions options;
  options.rule = IntervalRule::Given;
  EXPECT_TRUE(llvm::StringRef(getError(goal, {}, options))
                  .starts_with("--interval-seconds: expects a number above 0"));
}

TEST(SizingTest, ErrorsOfTheGoal) {
  EXPECT_EQ(getError({}),
            "expects one or two of --params, --tokens and a compute "
            "budget (--flops or --days)");
  EXPECT_EQ(getError(makeGoal(1e9, 1e9, 6e18)),
            "expects at most two of --params, --tokens and a compute budget "
            "(--flops or --days), got all three");
  EXPECT_EQ(getError(makeGoal(1e9, {}, 6e18, 3)),
            "expects one compute budget, got both --flops and --days");
}

TEST(SizingTest, FailsWhereAFleetGetsNowhere) {
  Fleet fleet = makeFleet(1'000'000'000);
  EXPECT_EQ(
      getError(makeGoal(70e9, 15e12), fleet),
      "1000000000 devices get nowhere: one failure every 0.2 s "
      "(--mtbf-hours 50000 / devices), a checkpoint every 0.2 s that takes "
      "20.0 s, a restart of 300.0 s");
}

/// All legal extremes together give finite numbers or an error.
TEST(SizingTest, ExtremesAreFiniteOrErrors) {
  int runs = 0, errors = 0;
  for (unsigned bits = 0; bits < 1024; ++bits) {
    Fleet fleet;
    fleet.devices = bits & 1 ? Fleet::maxDevices : 1;
    for (auto [i, field] : llvm::enumerate(getFleetFields()))
      fleet.*field.value = bits >> (i + 1) & 1      ? field.range.high
                           : field.range.lowIsLegal ? field.range.low
                                                    : 1e-3;
    Goal goal = bits >> 9 & 1 ? makeGoal(1e18, 1e21) : makeGoal({}, {}, 1e-3);
    llvm::Expected<RunEstimate> run = estimateRun(goal, fleet);
    if (!run) {
      ++errors;
      EXPECT_TRUE(llvm::StringRef(llvm::toString(run.takeError()))
                      .contains(" nowhere: "));
      continue;
    }
    ++runs;
    for (double value : {run->wallSeconds, run->energy, run->price,
                         run->wallFailures, run->loss, run->shares.goodput,
                         run->shares.rework, run->intervalSeconds}) {
      EXPECT_TRUE(std::isfinite(value)) << bits;
      EXPECT_GE(value, 0) << bits;
    }
  }
  EXPECT_GT(runs, 100);
  EXPECT_GT(errors, 100);
}

TEST(SizingTest, Sweep) {
  std::vector<RunEstimate> runs = llvm::cantFail(estimateSweep(
      makeGoal(70e9, 15e12), makeFleet(1), {1024, 4096, 16384, 65536}));
  ASSERT_EQ(runs.size(), 4u);
  for (size_t i = 1; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].fleet.devices, 4 * runs[i - 1].fleet.devices);
    EXPECT_LT(runs[i].wallSeconds, runs[i - 1].wallSeconds);
    EXPECT_LT(runs[i].intervalSeconds, runs[i - 1].intervalSeconds);
    EXPECT_LT(runs[i].shares.goodput, runs[i - 1].shares.goodput);
    // More devices for the same work: all that grows is the waste.
    EXPECT_NEAR(runs[i].price * runs[i].shares.goodput /
                    (runs[0].price * runs[0].shares.goodput),
                1, 1e-9);
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  printSweep(os, runs);
  llvm::SmallVector<llvm::StringRef> lines, head, row;
  llvm::StringRef(text).trim().split(lines, '\n');
  ASSERT_EQ(lines.size(), 5u);
  lines[0].split(head, '\t');
  for (llvm::StringRef line : llvm::drop_begin(lines)) {
    row.clear();
    line.split(row, '\t');
    EXPECT_EQ(row.size(), head.size());
  }
  EXPECT_EQ(head[0], "devices");
  EXPECT_EQ(row[0], "65536");
}

TEST(SizingTest, JsonHoldsTheNumbersExactly) {
  SizingOptions options;
  std::vector<RunEstimate> runs = llvm::cantFail(estimateSweep(
      makeGoal(70e9, 15e12), makeFleet(1), {1024, 16384}, options));
  std::string text;
  llvm::raw_string_ostream os(text);
  printJSON(os, runs, options);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  ASSERT_TRUE(bool(value)) << text;
  llvm::json::Object &top = *value->getAsObject();
  EXPECT_EQ(top.getInteger("version"), 1);
  EXPECT_EQ(top.getObject("law")->getString("name"), "besiroglu");
  ASSERT_EQ(top.getArray("runs")->size(), 2u);
  llvm::json::Object &run = *(*top.getArray("runs"))[1].getAsObject();
  EXPECT_EQ(run.getObject("fleet")->getInteger("devices"), 16384);
  EXPECT_EQ(run.getObject("fleet")->getNumber("mtbf_hours"), 50'000);
  EXPECT_EQ(run.getNumber("flops"), runs[1].flops);
  EXPECT_EQ(run.getNumber("goodput"), runs[1].shares.goodput);
  EXPECT_EQ(run.getNumber("wall_days"), runs[1].wallSeconds / 86400);
  EXPECT_EQ(run.getNumber("price_usd"), runs[1].price);
  EXPECT_EQ(run.getObject("checkpoint")->getString("rule"), "Daly 2006");
}

} // namespace
