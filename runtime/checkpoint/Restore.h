//===- Restore.h - State out of a checkpoint, in any layout ---------------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_RESTORE_H
#define CLEAVE_RUNTIME_CHECKPOINT_RESTORE_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/checkpoint/StateBox.h"
#include "runtime/program/Program.h"
#include <functional>
#include <map>
#include <memory>

namespace cleave::runtime {

/// A checkpoint whose manifest and program have been read and checked; its
/// shards are opened, and checked, when they are asked for.
class CheckpointReader {
public:
  static Status open(const std::string &path, CheckpointReader &reader);

  const std::string &getPath() const { return path; }
  const Manifest &getManifest() const { return manifest; }
  const Program &getProgram() const { return program; }

  /// The file of a rank of the checkpoint; an error if it has none.
  Status getShard(int rank, ShardFile *&shard);
  /// What `forEachPart` calls for a rank's part of a state.
  using PartFunction =
      std::function<Status(int rank, const ShardBox &box, ShardFile &shard,
                           const ShardFile::Entry &entry)>;
  /// Calls `fn` for each rank's part of a state of the checkpoint's program
  /// whose box `wants` takes. Each element of the state is in one part.
  Status forEachPart(const program::State &state,
                     const std::function<bool(const ShardBox &box)> &wants,
                     const PartFunction &fn);
  /// Reads and checks every byte.
  Status verify();

private:
  std::string path;
  Manifest manifest;
  Program program;
  std::map<int, std::unique_ptr<ShardFile>> shards; ///< that are open
};

/// Whether every state that `program` needs is in the checkpoint, with its
/// type and shape, and no other. Names the first that is not.
Status checkFits(const Program &program, const CheckpointReader &reader);

/// Fills `local`, the shard of `rank` of a state of `program`, padding with
/// zeros. Reads only what intersects it, and each element once.
Status restoreState(const Program &program, const program::State &state,
                    int rank, CheckpointReader &reader,
                    std::span<std::byte> local);

/// Reads and checks every byte of a checkpoint.
Status verifyCheckpoint(const std::string &path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_RESTORE_H
