//===- Format.h - What a checkpoint is made of ----------------------------===//
//
// A folder of a run's checkpoints, DIR of --save DIR:
//
//   DIR/lock                    locked by the run that saves into it
//   DIR/step-00000200/          a checkpoint: all of it, or it has no such name
//     manifest.json             what it is: step, layout, files, checksums
//     program.bin               the sealed program, without its instructions:
//                               the states' names, shapes and placements
//     rank-00000.bin            what rank 0 holds; ranks that only hold copies
//                               of others' state have no file
//   DIR/.step-00000400.tmp/     one that is being written
//
// A shard file is the payloads of the rank's states one after the other,
// without gaps, then the index, which is JSON. A payload is the elements of the
// shard that are not padding, in the shard's order, little-endian. The index
// has the checksum of each chunk of `chunkBytes` of each payload (the last may
// be shorter); the manifest has each index's place and checksum, and in its
// last line its own. So each byte of the folder is under a CRC-32C, and a file
// of another rank, step or run does not match its manifest.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_FORMAT_H
#define CLEAVE_RUNTIME_CHECKPOINT_FORMAT_H

#include <cstdint>
#include <cstdio>
#include <string>

namespace cleave::runtime {

/// Goes up with any change that an older runtime would read wrongly.
inline constexpr int checkpointVersion = 1;

inline constexpr uint64_t chunkBytes = uint64_t(1) << 20;

inline constexpr const char *manifestName = "manifest.json";
inline constexpr const char *programName = "program.bin";

inline std::string getShardName(int rank) {
  char text[32];
  std::snprintf(text, sizeof(text), "rank-%05d.bin", rank);
  return text;
}

inline std::string getStepName(int64_t step) {
  char text[32];
  std::snprintf(text, sizeof(text), "step-%08lld", (long long)step);
  return text;
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_FORMAT_H
