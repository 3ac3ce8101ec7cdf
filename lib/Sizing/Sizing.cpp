//===- Sizing.cpp - A training run before there is a layout ---------------===//
#include "cleave/Sizing/Sizing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <array>
#include <cmath>

using namespace cleave;

bool LegalRange::contains(double value) const {
  // False of a NaN, too.
  return (value > low || (lowIsLegal && value == low)) && value <= high;
}

std::string LegalRange::toString() const {
  return llvm::formatv("{0} {1} and at most {2}",
                       lowIsLegal ? "at least" : "above",
                       llvm::format("%g", low), llvm::format("%g", high));
}

llvm::ArrayRef<FleetField> cleave::getFleetFields() {
  static const std::array<FleetField, 8> fields = {{
      {"peak",
       "FLOP/s",
       "peak of a device, dense, in the type that it trains in",
       &Fleet::peakFlops,
       {0, 1e21}},
      {"mfu",
       "share",
       "model FLOPs utilization: 6ND FLOPs of the peak, while it trains",
       &Fleet::mfu,
       {0, 1}},
      {"mtbf-hours",
       "h",
       "mean time between failures that stop the run, of one device with its "
       "share of everything else",
       &Fleet::mtbfHours,
       {0, 1e12}},
      {"checkpoint-seconds",
       "s",
       "time that training stands still for a checkpoint",
       &Fleet::checkpointSeconds,
       {0, 1e9}},
      {"restart-seconds",
       "s",
       "time from a failure to the first new step: detection, replacement, "
       "loading",
       &Fleet::restartSeconds,
       {0, 1e9, true}},
      {"watts",
       "W",
       "power of a device, with its share of the host if that is to count",
       &Fleet::watts,
       {0, 1e9, true}},
      {"pue",
       "ratio",
       "power usage effectiveness: power of the site over that of its "
       "computers",
       &Fleet::pue,
       {1, 10, true}},
      {"price-per-hour",
       "USD/h",
       "price of an hour of one device",
       &Fleet::pricePerHour,
       {0, 1e9, true}},
  }};
  return fields;
}

llvm::ArrayRef<GoalField> cleave::getGoalFields() {
  static const std::array<GoalField, 4> fields = {{
      {"params", "N", "parameters of the model", &Goal::parameters, {0, 1e18}},
      {"tokens", "D", "tokens that it is trained on", &Goal::tokens, {0, 1e21}},
      {"flops", "FLOPs", "compute budget", &Goal::flops, {0, 1e36}},
      {"days",
       "days",
       "compute budget as days of all devices at their MFU; what failures cost "
       "comes on top",
       &Goal::days,
       {0, 1e6}},
  }};
  return fields;
}

llvm::StringRef cleave::getSource(IntervalRule rule) {
  switch (rule) {
  case IntervalRule::Daly:
    return "Daly 2006";
  case IntervalRule::Young:
    return "Young 1974";
  case IntervalRule::Given:
    return "given";
  }
  llvm_unreachable("not a rule");
}

static llvm::Error checkRange(llvm::StringRef name, double value,
                              const LegalRange &range) {
  if (range.contains(value))
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::formatv("--{0}: expects a number {1}, got {2}", name,
                    range.toString(), llvm::format("%.17g", value)));
}

static llvm::Error verify(const Goal &goal, const Fleet &fleet,
                          const SizingOptions &options) {
  if (llvm::Error error = checkRange("devices", double(fleet.devices),
                                     {1, double(Fleet::maxDevices), true}))
    return error;
  for (const FleetField &field : getFleetFields())
    if (llvm::Error error =
            checkRange(field.name, fleet.*field.value, field.range))
      return error;
  for (const GoalField &field : getGoalFields())
    if (const std::optional<double> &value = goal.*field.value)
      if (llvm::Error error = checkRange(field.name, *value, field.range))
        return error;
  if (options.law.tokensPerParameter != 0)
    if (llvm::Error error = checkRange(
            "tokens-per-parameter", options.law.tokensPerParameter, {0, 1e9}))
      return error;
  if (options.rule == IntervalRule::Given)
    return checkRange("interval-seconds", options.intervalSeconds, {0, 1e9});
  return llvm::Error::success();
}

/// FLOPs that a fleet computes in a second, failures not counted.
static double getSpeed(const Fleet &fleet) {
  return double(fleet.devices) * fleet.peakFlops * fleet.mfu;
}

static llvm::Expected<ModelSize> getSize(const Goal &goal, const Fleet &fleet,
                                         const ScalingLaw &law) {
  if (goal.flops && goal.days)
    return llvm::createStringError(
        "expects one compute budget, got both --flops and --days");
  std::optional<double> flops = goal.flops;
  if (goal.days)
    flops = *goal.days * 86400 * getSpeed(fleet);
  if (goal.parameters && goal.tokens) {
    if (flops)
      return llvm::createStringError(
          "expects at most two of --params, --tokens and a compute budget "
          "(--flops or --days), got all three");
    return ModelSize{*goal.parameters, *goal.tokens};
  }
  if (goal.parameters)
    return ModelSize{*goal.parameters,
                     flops ? *flops / (6 * *goal.parameters)
                           : law.getOptimalTokens(*goal.parameters)};
  if (goal.tokens)
    return ModelSize{flops ? *flops / (6 * *goal.tokens)
                           : law.getOptimalParameters(*goal.tokens),
                     *goal.tokens};
  if (flops)
    return law.getOptimum(*flops);
  return llvm::createStringError(
      "expects one or two of --params, --tokens and a compute budget "
      "(--flops or --days)");
}

llvm::Expected<RunEstimate> cleave::estimateRun(const Goal &goal,
                                                const Fleet &fleet,
                                                const SizingOptions &options) {
  if (llvm::Error error = verify(goal, fleet, options))
    return error;
  llvm::Expected<ModelSize> size = getSize(goal, fleet, options.law);
  if (!size)
    return size.takeError();

  RunEstimate run;
  run.fleet = fleet;
  run.size = *size;
  run.loss = options.law.fit.getLoss(run.size);
  run.flops = getTrainingFlops(run.size);
  run.optimum = options.law.getOptimum(run.flops);
  run.optimumLoss = options.law.fit.getLoss(run.optimum);

  if (fleet.storageBandwidth > 0)
    run.fleet.checkpointSeconds =
        16 * run.size.parameters / fleet.storageBandwidth;
  run.computeSeconds = run.flops / getSpeed(fleet);
  run.failures = {fleet.mtbfHours * 3600 / double(fleet.devices),
                  run.fleet.checkpointSeconds, fleet.restartSeconds};
  run.computeFailures = run.computeSeconds / run.failures.mtbf;
  run.youngSeconds = getYoungInterval(run.failures);
  run.dalySeconds = getDalyInterval(run.failures);
  run.intervalSeconds = options.rule == IntervalRule::Given
                            ? options.intervalSeconds
                        : options.rule == IntervalRule::Young ? run.youngSeconds
                                                              : run.dalySeconds;
  run.shares = getTimeShares(run.failures, run.intervalSeconds);
  // Below, the run would take ages, and soon more seconds than there are.
  if (!(run.shares.goodput >= 1e-6))
    return llvm::createStringError(llvm::formatv(
        "{0} nowhere: one failure every {1:f1} s (--mtbf-hours {2} / devices), "
        "a checkpoint every {3:f1} s that takes {4:f1} s, a restart of {5:f1} "
        "s",
        fleet.devices == 1 ? "1 device gets"
                           : llvm::Twine(fleet.devices).str() + " devices get",
        run.failures.mtbf, llvm::format("%g", fleet.mtbfHours),
        run.intervalSeconds, run.failures.checkpoint, run.failures.restart));
  run.wallSeconds = run.computeSeconds / run.shares.goodput;
  run.wallFailures = run.wallSeconds / run.failures.mtbf;
  double deviceSeconds = run.wallSeconds * double(fleet.devices);
  run.energy = deviceSeconds * fleet.watts * fleet.pue;
  run.price = deviceSeconds / 3600 * fleet.pricePerHour;
  return run;
}

llvm::Expected<std::vector<RunEstimate>>
cleave::estimateSweep(const Goal &goal, Fleet fleet,
                      llvm::ArrayRef<int64_t> devices,
                      const SizingOptions &options) {
  std::vector<RunEstimate> runs;
  for (int64_t count : devices) {
    fleet.devices = count;
    llvm::Expected<RunEstimate> run = estimateRun(goal, fleet, options);
    if (run) {
      runs.push_back(*run);
      continue;
    }
    RunEstimate none;
    none.fleet = fleet;
    none.wrong = llvm::toString(run.takeError());
    runs.push_back(std::move(none));
  }
  if (!runs.empty() && llvm::all_of(runs, [](const RunEstimate &run) {
        return !run.wrong.empty();
      }))
    return llvm::createStringError(runs.front().wrong);
  return runs;
}
