//===- Shards.h - One rank's file of a checkpoint -------------------------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_SHARDS_H
#define CLEAVE_RUNTIME_CHECKPOINT_SHARDS_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/io/InputFile.h"
#include "runtime/program/Program.h"
#include <map>
#include <span>

namespace cleave::runtime {

/// One state's payload, to be written.
struct ShardPart {
  const program::State *state;
  std::span<const std::byte> data;
};

/// Writes rank `rank`'s file of a checkpoint into `folder` and syncs it.
/// `file` gets what the manifest says of it. Fails where a payload has a value
/// that is not a finite number: such state is not worth going on from.
Status writeShard(const std::string &folder, int rank, const std::string &run,
                  int64_t step, std::span<const ShardPart> parts,
                  CheckpointFile &file);

/// A rank's file of a checkpoint, open for reading. What is handed out has been
/// checked; messages name the file, the state and the chunk.
class ShardFile {
public:
  struct Entry {
    std::string name; ///< of the state
    uint64_t begin, bytes;
    std::vector<uint32_t> chunks; ///< their checksums
  };

  /// Opens the file that the manifest of the checkpoint in `folder` lists, and
  /// checks its index.
  static Status open(const std::string &folder, const Manifest &manifest,
                     const CheckpointFile &listed, ShardFile &shard);

  ShardFile() = default;
  // Moved only: the chunk that is kept points at its entry.
  ShardFile(ShardFile &&) = default;
  ShardFile &operator=(ShardFile &&) = default;

  /// Null if the rank has no part of that state.
  const Entry *find(const program::State &state) const;
  const std::vector<Entry> &getEntries() const { return entries; }
  const std::string &getPath() const { return file.getPath(); }

  /// Reads bytes [begin, begin + size) of a payload; they must exist. Keeps the
  /// last chunk, so that reads that go forward read each chunk once.
  Status read(const Entry &entry, uint64_t begin, uint64_t size, void *out);
  /// Reads and checks every byte.
  Status verify();

private:
  Status loadChunk(const Entry &entry, uint64_t index);
  Status readIndex(const Manifest &manifest, const CheckpointFile &listed);

  InputFile file;
  std::vector<Entry> entries;
  std::map<std::string, size_t, std::less<>> byName;
  std::vector<char> chunk;
  const Entry *chunkEntry = nullptr;
  uint64_t chunkIndex = 0;
};

/// Reads a small file of a checkpoint as a whole. At most `limit` bytes.
Status readSmallFile(const std::string &path, uint64_t limit,
                     std::string &text);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_SHARDS_H
