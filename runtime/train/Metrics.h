//===- Metrics.h - What a run says about itself ---------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_METRICS_H
#define CLEAVE_RUNTIME_TRAIN_METRICS_H

#include "runtime/executor/Executor.h"
#include <string>
#include <vector>

namespace cleave::runtime {

/// Seconds of the rank's thread by instruction category, and of collectives and
/// messages among them, with those of waiting for other streams. What runs
/// beside it in other streams costs a step no time.
class PhaseTimer final : public InstructionObserver {
public:
  PhaseTimer(const Program &program, int rank);

  void onInstruction(const InstructionTime &time) override;
  void onWait(size_t index, uint64_t beginNs, uint64_t endNs) override;

  /// Categories of all stages, in order of first appearance: the same on all
  /// ranks.
  const std::vector<std::string> &getNames() const { return names; }
  /// One number a category, and last that with other ranks; starts over.
  std::vector<double> takeSeconds();

private:
  std::vector<std::string> names;
  std::vector<size_t> phaseOf; ///< by instruction of the rank's stage
  std::vector<bool> isWithOthers;
  std::vector<double> seconds;
};

/// All that is known of a step when it is done.
struct StepReport {
  int64_t step = 0;
  double loss = 0, gradNorm = 0, learningRate = 0;
  std::vector<double> rankLosses;
  std::string device; ///< Device::getName
  double seconds = 0, tokensPerSecond = 0;
  double mfu = 0; ///< fraction; 0 where the program counts no FLOPs
  std::vector<std::pair<std::string, double>> phases; ///< mean over the ranks
  double collectiveSeconds = 0;                       ///< likewise
  double hostSeconds = 0; ///< Device's, since the step before; the most
  uint64_t arenaBytes = 0, highWaterBytes = 0; ///< of the rank with the most
  std::string skipped; ///< why the step changed nothing; empty if it did
};

/// "step 3/20  loss 5.1234  ..." for a person.
std::string formatProgress(const StepReport &report, int64_t steps);

/// One JSON object, without a line break.
std::string formatJson(const StepReport &report);

/// A file of lines, each of which is there whole when write() returns, or not
/// at all. The one that writes holds a lock on it (flock): another process that
/// opens it fails, before it has changed a byte.
class LineWriter {
public:
  LineWriter() = default;
  LineWriter(LineWriter &&other) noexcept { swap(other); }
  LineWriter &operator=(LineWriter &&other) noexcept {
    swap(other);
    return *this;
  }
  ~LineWriter();

  /// Opens `path`, without what was in it.
  static Status create(const std::string &path, LineWriter &writer);
  /// Opens a file of metrics to go on from step `firstStep`: of what is in it,
  /// the whole lines of earlier steps stay. There may be none yet.
  static Status resume(const std::string &path, int64_t firstStep,
                       LineWriter &writer);

  /// An error leaves the lines that were there before; a later line may be
  /// written again.
  Status write(const std::string &line);

private:
  static Status open(const std::string &path, LineWriter &writer);
  Status keepBefore(int64_t firstStep);
  Status truncate(uint64_t newSize);

  void swap(LineWriter &other) noexcept {
    std::swap(path, other.path);
    std::swap(fd, other.fd);
    std::swap(isRegular, other.isRegular);
    std::swap(size, other.size);
  }

  std::string path;
  int fd = -1;
  bool isRegular = true; ///< not a pipe or a device
  uint64_t size = 0;     ///< of a regular file's whole lines
};

/// "1.5 GiB".
std::string formatBytes(uint64_t bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_METRICS_H
