//===- Metrics.h - What a run says about itself ---------------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_METRICS_H
#define CLEAVE_RUNTIME_TRAIN_METRICS_H

#include "runtime/executor/Executor.h"
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Seconds by instruction category, and of collectives among them.
class PhaseTimer final : public InstructionObserver {
public:
  explicit PhaseTimer(const Program &program);

  void onInstruction(const InstructionTime &time) override;

  /// Categories in order of first appearance.
  const std::vector<std::string> &getNames() const { return names; }
  /// One number a category, and last that of the collectives; starts over.
  std::vector<double> takeSeconds();

private:
  std::vector<std::string> names;
  std::vector<size_t> phaseOf; ///< by instruction
  std::vector<bool> isCollective;
  std::vector<double> seconds;
};

/// All that is known of a step when it is done.
struct StepReport {
  int64_t step = 0;
  double loss = 0, gradNorm = 0, learningRate = 0;
  std::vector<double> rankLosses;
  double seconds = 0, tokensPerSecond = 0;
  double mfu = 0; ///< fraction; 0 where the program counts no FLOPs
  std::vector<std::pair<std::string, double>> phases; ///< mean over the ranks
  double collectiveSeconds = 0;                       ///< likewise
  uint64_t arenaBytes = 0, highWaterBytes = 0;        ///< of a rank
  std::string skipped; ///< why the step changed nothing; empty if it did
};

/// "step 3/20  loss 5.1234  ..." for a person.
std::string formatProgress(const StepReport &report, int64_t steps);

/// One JSON object, without a line break.
std::string formatJson(const StepReport &report);

/// A file of lines, each flushed when written.
class LineWriter {
public:
  static Status create(const std::string &path, LineWriter &writer);
  Status write(const std::string &line);

private:
  struct Closer {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::string path;
  std::unique_ptr<std::FILE, Closer> file;
};

/// "1.5 GiB".
std::string formatBytes(uint64_t bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_METRICS_H
