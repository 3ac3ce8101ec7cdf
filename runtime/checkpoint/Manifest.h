//===- Manifest.h - What a checkpoint says of itself ----------------------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_MANIFEST_H
#define CLEAVE_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/base/Status.h"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// Where a run is, beside its state: all that the next step depends on and the
/// program and the command line do not say.
struct RunProgress {
  int64_t step = 0;     ///< steps done, skipped ones among them
  uint64_t samples = 0; ///< of the data, consumed by these steps
  uint64_t seed = 0;
  std::string data;       ///< what the samples are drawn from, for a person
  int64_t totalSteps = 0; ///< of the run that saved
  int64_t skippedSteps = 0;
  /// Of the last accepted steps, oldest first; StepGuard judges by them.
  std::vector<double> losses, gradNorms;
};

/// A file of a checkpoint. Of a shard the checksum is that of its index, which
/// starts at `indexBegin`; of other files, of all bytes.
struct CheckpointFile {
  std::string name;
  int rank = -1; ///< whose shard; -1: no shard
  uint64_t bytes = 0, indexBegin = 0;
  uint32_t crc = 0;
};

struct Manifest {
  /// Random, one for each run of a program: tells two runs' files apart.
  std::string run;
  RunProgress progress;
  /// Sizes of the mesh axes, by name; for a person. The program has them too.
  std::vector<std::pair<std::string, int>> mesh;
  CheckpointFile program;
  std::vector<CheckpointFile> shards; ///< by rank, ascending

  /// JSON with a checksum of all before it in its last line.
  std::string format() const;
  /// Checks the checksum and every field. `where` names the file in errors.
  static Status parse(std::string_view text, const std::string &where,
                      Manifest &manifest);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_MANIFEST_H
