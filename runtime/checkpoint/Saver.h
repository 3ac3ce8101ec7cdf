//===- Saver.h - Checkpoints written behind the training ------------------===//
//
// A save has four parts, of which only the first delays the training:
//
//  1. copy    each rank copies what it writes into memory set aside for it;
//  2. write   a thread of each rank writes and syncs the rank's file;
//  3. commit  once all ranks say so, a thread of rank 0 writes the manifest and
//             renames the folder;
//  4. prune   the same thread removes old checkpoints.
//
// Ranks tell each other how far they are in the vote that ends each step
// anyway (SaveVote), so a save needs no collective of its own.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_SAVER_H
#define CLEAVE_RUNTIME_CHECKPOINT_SAVER_H

#include "runtime/checkpoint/Format.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/checkpoint/Store.h"
#include "runtime/executor/Executor.h"
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>

namespace cleave::runtime {

/// What a rank says of the save under way, as numbers that a collective takes.
struct SaveVote {
  enum State { Idle, Busy, Written, Failed };
  static constexpr size_t width = 4;

  State state = Idle;
  CheckpointFile file; ///< Written: the rank's, if it has one

  void put(std::vector<double> &numbers) const;
  static SaveVote take(std::span<const double> numbers, int rank);
};

class Saver {
public:
  /// For a run that saves into `folder`, keeping `keep` checkpoints (0: all).
  /// Rank 0 locks the folder; all ranks set memory aside. Collective.
  static Status create(Executor &executor, const std::string &folder,
                       int64_t keep, std::unique_ptr<Saver> &saver);
  ~Saver();

  /// Copies this rank's state as it is after `progress.step` steps and starts
  /// writing it. No save may be under way.
  Status begin(const RunProgress &progress);

  /// How far this rank is.
  SaveVote getVote() const;
  /// Learns how far all ranks are, by rank: a save that all have written is
  /// committed by rank 0; one that failed anywhere is given up by all. True
  /// when the save under way has come to its end; then `getResult()` tells.
  bool hear(std::span<const SaveVote> votes);
  bool isBusy() const { return phase != Phase::Idle; }

  /// Of the last save on this rank; a failure of another rank's is told there.
  const Status &getResult() const { return result; }
  /// Whether the last save was committed, on every rank.
  bool hasCommitted() const { return committed; }
  int64_t getStep() const { return progress.step; }
  std::string getPath() const { return folder + "/" + getStepName(getStep()); }
  /// Bytes that this rank writes.
  uint64_t getBytes() const { return staging.size(); }

private:
  enum class Phase { Idle, Writing, Committing };

  Saver(Executor &executor, std::string folder, int64_t keep);
  std::byte *copyPart(const program::State &state,
                      std::span<const std::byte> local, std::byte *to);
  Status write();
  Status commit(std::vector<CheckpointFile> shards);
  void finish(bool isCommitted);
  /// Does `work` on the thread; what it returns, or fails with, is the result.
  void run(std::function<Status()> work);

  Executor &executor;
  std::string folder, run_; ///< the run's random name
  int64_t keep;
  int rank;
  CheckpointStore store;        ///< rank 0
  std::vector<ShardPart> parts; ///< with data in `staging`
  std::vector<std::byte> staging;

  RunProgress progress;
  Phase phase = Phase::Idle;
  std::thread thread;
  std::atomic<bool> threadDone{true};
  // Written by the thread, read once threadDone is set.
  Status result;
  CheckpointFile file;
  bool committed = false;
};

/// Writes the two files of a checkpoint that are no shards: the manifest, whose
/// shards and progress are given, and the program.
Status writeManifest(const std::string &folder, const Program &program,
                     Manifest manifest);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_SAVER_H
