//===- Sizing.h - A training run before there is a layout -----------------===//
#ifndef CLEAVE_SIZING_SIZING_H
#define CLEAVE_SIZING_SIZING_H

#include "cleave/Sizing/Checkpointing.h"
#include "cleave/Sizing/ScalingLaw.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
}

namespace cleave {

/// What a number may be: above `low`, or equal to it if `lowIsLegal`, and at
/// most `high`.
struct LegalRange {
  double low = 0, high = 0;
  bool lowIsLegal = false;

  bool contains(double value) const;
  /// "above 0 and at most 1"
  std::string toString() const;
};

/// Equal devices that train together. The defaults are an H100 SXM's, one node.
struct Fleet {
  static constexpr int64_t maxDevices = 1'000'000'000;

  int64_t devices = 8;
  double peakFlops = 989e12;
  double mfu = 0.4;
  double mtbfHours = 50'000;
  double checkpointSeconds = 20;
  /// byte/s of checkpoints; with it a checkpoint takes what 16 bytes of each
  /// parameter take, whatever `checkpointSeconds` says. 0: not known.
  double storageBandwidth = 0;
  double restartSeconds = 300;
  double watts = 700;
  double pue = 1.1;
  double pricePerHour = 2.5;
};

/// A number of a fleet: its name as a flag and, with underscores, in JSON.
struct FleetField {
  llvm::StringRef name, unit, meaning;
  double Fleet::*value;
  LegalRange range;
};
llvm::ArrayRef<FleetField> getFleetFields();

/// What is known of the run: two of parameters, tokens and compute, or one of
/// them and the law gives the others. Compute is FLOPs, or days of the whole
/// fleet at its MFU, failures not counted.
struct Goal {
  std::optional<double> parameters, tokens, flops, days;
};

struct GoalField {
  llvm::StringRef name, unit, meaning;
  std::optional<double> Goal::*value;
  LegalRange range;
};
llvm::ArrayRef<GoalField> getGoalFields();

enum class IntervalRule { Daly, Young, Given };
/// "Daly 2006", "Young 1974", "given"
llvm::StringRef getSource(IntervalRule rule);

struct SizingOptions {
  ScalingLaw law = getScalingLaws().front();
  IntervalRule rule = IntervalRule::Daly;
  double intervalSeconds = 0; ///< with IntervalRule::Given
};

struct RunEstimate {
  Fleet fleet;
  std::string wrong; ///< why there is no estimate; empty if there is one
  ModelSize size;
  double loss = 0;  ///< nats per token
  double flops = 0; ///< 6 N D
  /// The best size for the same FLOPs, and its loss.
  ModelSize optimum;
  double optimumLoss = 0;

  double computeSeconds = 0;                ///< FLOPs / (devices x peak x MFU)
  FailureModel failures;                    ///< of the whole fleet
  double computeFailures = 0;               ///< expected in computeSeconds
  double youngSeconds = 0, dalySeconds = 0; ///< both rules' intervals
  double intervalSeconds = 0;               ///< that of the options
  TimeShares shares;                        ///< at that interval
  double wallSeconds = 0;                   ///< computeSeconds / goodput
  double wallFailures = 0;                  ///< expected in wallSeconds
  double energy = 0; ///< J, of wallSeconds: devices x watts x PUE
  double price = 0;  ///< USD, of wallSeconds
};

/// Estimates a run. Fails on a number out of its range, a goal that says too
/// little or too much, and a fleet that fails too often to get anywhere.
llvm::Expected<RunEstimate> estimateRun(const Goal &goal, const Fleet &fleet,
                                        const SizingOptions &options = {});

/// The same on each number of devices. What is wrong with a number is in its
/// place; it is an error if that is so for all of them.
llvm::Expected<std::vector<RunEstimate>>
estimateSweep(const Goal &goal, Fleet fleet, llvm::ArrayRef<int64_t> devices,
              const SizingOptions &options = {});

/// One run, for people.
void printRun(llvm::raw_ostream &os, const RunEstimate &run,
              const SizingOptions &options);
/// A header and one line for each run, tab-separated.
void printSweep(llvm::raw_ostream &os, llvm::ArrayRef<RunEstimate> runs);
/// All there is to know of all runs, as JSON.
void printJSON(llvm::raw_ostream &os, llvm::ArrayRef<RunEstimate> runs,
               const SizingOptions &options);

} // namespace cleave

#endif // CLEAVE_SIZING_SIZING_H
