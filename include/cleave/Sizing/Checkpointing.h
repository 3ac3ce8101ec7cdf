//===- Checkpointing.h - When to save, and what failures cost -------------===//
#ifndef CLEAVE_SIZING_CHECKPOINTING_H
#define CLEAVE_SIZING_CHECKPOINTING_H

namespace cleave {

/// A run that saves its state from time to time and, after a failure, restarts
/// from the last save. Failures are exponential: they come at a constant rate,
/// and as well while saving and restarting.
struct FailureModel {
  double mtbf = 0;       ///< s between failures of the whole run, on average
  double checkpoint = 0; ///< s that the run stands still for a save
  double restart = 0;    ///< s from a failure to the first new work
};

/// Seconds of work between saves, to first order: sqrt(2 C M), with C the cost
/// of a save and M the MTBF (Young 1974, "A first order approximation to the
/// optimum checkpoint interval", CACM 17(9)).
double getYoungInterval(const FailureModel &model);

/// Seconds of work between saves, to higher order:
///   sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C  if C < 2M, else M
/// (Daly 2006, "A higher order estimate of the optimum checkpoint interval for
/// restart dumps", FGCS 22(3)).
double getDalyInterval(const FailureModel &model);

/// Where the wall time of a run goes, as shares that add up to 1.
struct TimeShares {
  double goodput = 0;    ///< work that counts
  double checkpoint = 0; ///< saves
  double rework = 0;     ///< work, and saves, that a failure undid
  double restart = 0;    ///< restarts
};

/// The expected shares with a save after every `interval` seconds of work.
/// Exact for exponential failures (Daly 2006): a piece of work
/// tau and its save C take M e^(R/M) (e^((tau + C)/M) - 1) seconds.
TimeShares getTimeShares(const FailureModel &model, double interval);

} // namespace cleave

#endif // CLEAVE_SIZING_CHECKPOINTING_H
